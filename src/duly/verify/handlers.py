"""The application under test: handlers that write down what they really did, outside of Duly.

Each appends a line before and after, on the disk before it goes on, and writes to the fenced sink in between. A node works in a
directory of its own, `…/nodes/NAME`: that is where handlers know their node from, and the way to the log and the sink.
"""

from __future__ import annotations

import asyncio
import os
import time
import zlib
from pathlib import Path

from duly import App, Context
from duly.domain.errors import LeaseLost
from duly.domain.instants import from_datetime
from duly.verify import sink
from duly.verify.history import Effect, Phase, Refusal, as_line

EFFECTS, REFUSALS, SINK_PORT = "effects.jsonl", "refusals.jsonl", "sink.port"
# A step of a long handler.
STEP = 0.25

app = App("verify")


class AskedToFail(Exception):
    """The payload said so."""


@app.job(name="verify.quick")
async def quick(ctx: Context, ms: int = 0, fail: float = 0.0) -> int:
    """On the event loop."""
    await asyncio.to_thread(_begin, ctx)
    await asyncio.sleep(ms / 1000)
    await asyncio.to_thread(_end, ctx, fail)
    return ctx.fence


@app.job(name="verify.thread")
def thread(ctx: Context, ms: int = 0, fail: float = 0.0) -> int:
    """In a thread."""
    _begin(ctx)
    _wait(ctx, ms / 1000)
    _end(ctx, fail)
    return ctx.fence


@app.job(name="verify.deaf")
def deaf(ctx: Context, ms: int = 0) -> int:
    """In a thread, and it never asks whether it should stop: what the fence is for."""
    _begin(ctx)
    time.sleep(ms / 1000)
    _end(ctx, 0.0)
    return ctx.fence


@app.job(name="verify.process", executor="process")
def process(ctx: Context, ms: int = 0, fail: float = 0.0) -> int:
    """In a child process."""
    _begin(ctx)
    _wait(ctx, ms / 1000)
    _end(ctx, fail)
    return ctx.fence


@app.job(name="verify.long")
async def long(ctx: Context, steps: int = 10, ms: int = 500) -> int:
    """Saves how far it is after every step, and goes on from there."""
    await asyncio.to_thread(_begin, ctx)
    for step in range(int(ctx.last_checkpoint or 0), steps):
        await asyncio.sleep(ms / 1000)
        try:
            await ctx.checkpoint(step + 1)
        except LeaseLost:
            await asyncio.to_thread(_refused, ctx)
            raise
    await asyncio.to_thread(_end, ctx, 0.0)
    return steps


def _begin(ctx: Context) -> None:
    _append(EFFECTS, _effect(ctx, "start"))


def _end(ctx: Context, fail: float) -> None:
    # By the attempt and not by chance: the same run with the same seed fails again.
    if zlib.crc32(f"{ctx.run_id}/{ctx.attempt}".encode()) < fail * 2**32:
        raise AskedToFail(ctx.run_id)
    sink.send(int((_ground() / SINK_PORT).read_text(encoding="ascii")), _effect(ctx, "effect"))
    _append(EFFECTS, _effect(ctx, "end"))


def _wait(ctx: Context, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        ctx.raise_if_cancelled()
        time.sleep(min(left, STEP))


def _refused(ctx: Context) -> None:
    _append(REFUSALS, Refusal(at=_now(), what="checkpoint", actor=Path.cwd().name, run=ctx.run_id, fence=ctx.fence))


def _effect(ctx: Context, phase: Phase) -> Effect:
    kept = ctx.last_checkpoint
    return Effect(
        phase=phase,
        at=_now(),
        job=ctx.job_id,
        run=ctx.run_id,
        attempt=ctx.attempt,
        fence=ctx.fence,
        nominal=from_datetime(ctx.scheduled_at),
        node=Path.cwd().name,
        pid=os.getpid(),
        checkpoint=kept if isinstance(kept, int) else None,
    )


def _append(name: str, entry: Effect | Refusal) -> None:
    """One line, whole or not at all, also from many processes at once, and on the disk."""
    descriptor = os.open(_ground() / name, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, as_line(entry))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ground() -> Path:
    return Path.cwd().parent.parent


def _now() -> int:
    # The machine's clock itself: a fault may have turned the one that `time.time` shows here.
    return time.clock_gettime_ns(time.CLOCK_REALTIME) // 1000
