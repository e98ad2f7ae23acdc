"""An application of handlers that do not behave: they kill their process, ignore every stop, or end cleanly when they are asked."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

from duly import App, Context

app = App("stubborn")


def _note(word: str) -> None:
    descriptor = os.open(Path.cwd() / f"{word}.txt", os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    os.close(descriptor)


@app.job(retry=1)
async def poison() -> None:
    """Takes the worker's own process with it."""
    _note("poison")
    os._exit(1)


@app.job(executor="process", retry=1)
def poison_child() -> None:
    """Takes its child process with it."""
    _note("poison_child")
    os._exit(1)


@app.job
async def healthy() -> int:
    """Says where it ran."""
    return os.getpid()


@app.job(executor="process", stop_grace="60s", retry=1)
def clean(ctx: Context) -> str:
    """Ends as soon as it is asked to."""
    _note("clean")
    while not ctx.cancelled:
        time.sleep(0.01)
    _note("clean_end")
    return "ended cleanly"


@app.job(executor="process", timeout="10s", stop_grace="1s", retry=1)
def deaf() -> None:
    """In a process, which has the time to start on a busy machine: it is killed."""
    _note("deaf")
    while True:
        time.sleep(60)


@app.job(stop_grace="60s", retry=1)
async def waits() -> None:
    """Ends when it is cancelled."""
    _note("waits")
    await asyncio.sleep(600)


@app.job(timeout="1s", stop_grace="1s", retry=1)
def stuck() -> None:
    """In a thread: nothing but the end of the process ends it."""
    _note("stuck")
    threading.Event().wait()


@app.job(executor="process", retry=3, heartbeat_timeout="30s")
def resumes(ctx: Context, rows: int) -> dict[str, int]:
    """Saves each row, and kills its process half way."""
    begun_at = ctx.last_checkpoint or 0
    for row in range(begun_at, rows):
        ctx.checkpoint(row + 1)
        ctx.progress(row + 1, rows)
        if row + 1 == rows // 2 and begun_at == 0:
            os._exit(1)
    return {"begunAt": begun_at, "endedAt": ctx.last_checkpoint}
