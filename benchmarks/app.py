"""The application that the benchmarks run. Every handler makes its mark first and does nothing else, so what is left is Duly's own."""

from __future__ import annotations

import msgspec

from benchmarks.marks import hit
from duly import App, Context

app = App("benchmark")

BATCH = 100


class Item(msgspec.Struct):
    """What an execution carries: its number, or the time that it is measured from; and about as much more as a small job has."""

    carried: float
    pad: str = ""


@app.job
async def noop(carried: float, pad: str = "") -> None:
    """Ends at its first step."""
    hit(carried)


@app.job
def threaded(carried: float, pad: str = "") -> None:
    """A plain function runs in a thread."""
    hit(carried)


@app.job(executor="process")
def forked(carried: float, pad: str = "") -> None:
    """In a child process."""
    hit(carried)


@app.job(batch=BATCH)
async def batched(ctx: Context, items: list[Item]) -> None:
    """Many in one call."""
    for item in items:
        hit(item.carried)


@app.job
async def tick(ctx: Context) -> None:
    """What schedules run; it carries the time at which it was due."""
    hit(ctx.due_at.timestamp())
