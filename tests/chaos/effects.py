"""The application that chaos tests run: its handlers write down what they really did, outside of Duly."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

from duly import App, Context

app = App("effects")


def _append(phase: str, ctx: Context, n: int) -> None:
    """One line, whole or not at all, also from many processes at once."""
    line = {
        "phase": phase,
        "run": ctx.run_id,
        "attempt": ctx.attempt,
        "fence": ctx.fence,
        "pid": os.getpid(),
        "n": n,
        "at": time.time_ns() // 1000,
    }
    descriptor = os.open(Path.cwd() / "effects.jsonl", os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
    finally:
        os.close(descriptor)


@app.job(retry=5)
async def effect(ctx: Context, n: int = 0, seconds: float = 0.0) -> dict[str, int]:
    """Starts, perhaps waits, ends."""
    _append("start", ctx, n)
    if seconds:
        await asyncio.sleep(seconds)
    _append("end", ctx, n)
    return {"n": n, "attempt": ctx.attempt, "pid": os.getpid()}
