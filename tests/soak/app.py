"""The application that the soak runs: handlers that succeed, fail, wait, log, save and die, as their payload says."""

from __future__ import annotations

import asyncio

from duly import App, Concurrency, Context, Rate, Retry

app = App("soak")

SOON = Retry(3, initial_delay="500ms", backoff="fixed")


@app.job(retry=SOON)
async def churn(ctx: Context, n: int = 0, wait: float = 0.0, fails: int = 0, lines: int = 0, saves: int = 0) -> int:
    """The many."""
    for line in range(lines):
        ctx.log.info("churning", line=line, n=n)
    for saved in range(saves):
        await ctx.checkpoint({"row": saved})
    if wait:
        await asyncio.sleep(wait)
    if ctx.attempt <= fails:
        raise RuntimeError("as it was asked to")
    return n


@app.job
async def tick(ctx: Context, wait: float = 0.0) -> None:
    """What schedules run."""
    if wait:
        await asyncio.sleep(wait)


@app.job(concurrency=Concurrency(2, key="user"))
async def limited(ctx: Context, user: int = 0) -> None:
    """Waits at a limit."""
    await asyncio.sleep(0.05)


@app.job(rate=Rate(20, per="1s"))
async def rated(ctx: Context, n: int = 0) -> int:
    """Waits for its turn."""
    return n


@app.job(unique="user")
def threaded(ctx: Context, user: int = 0) -> int:
    """In a thread, once per user."""
    return user


@app.job
async def pick_up(ctx: Context) -> None:
    """Enqueued once a second: how long from its enqueue to its start?"""
