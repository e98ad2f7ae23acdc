"""Handlers that use what a context offers, in every way to run."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from duly import App, Context, DeadLetter

app = App("contexts")
seen: list[Any] = []


@app.job
async def child(n: int) -> int:
    return n


@app.job(retry=2)
async def steps_async(ctx: Context) -> list[Any]:
    first = ctx.checkpoint.get("done", 0)
    with ctx.progress(total=10, start=first) as bar:
        for done in range(first + 1, 11):
            bar.advance(message=f"row {done}")
            await ctx.checkpoint.save(done=done)
            if done == 4 and ctx.attempt == 1:
                raise ConnectionError
    return [first, bar.done, ctx.checkpoint.get("other"), ctx.last_checkpoint]


@app.job(retry=2)
def steps_sync(ctx: Context) -> list[Any]:
    first = ctx.checkpoint.get("done", 0)
    with ctx.progress(total=10, start=first) as bar:
        for done in range(first + 1, 11):
            ctx.raise_if_cancelled()
            bar.advance()
            ctx.checkpoint.save(done=done)
            if done == 4 and ctx.attempt == 1:
                raise ConnectionError
    return [first, bar.done, ctx.checkpoint.get("other"), ctx.last_checkpoint]


@app.job(executor="process")
def steps_apart(ctx: Context) -> list[Any]:
    return steps_sync(ctx)


@app.job
async def unnamed(ctx: Context) -> None:
    await ctx.checkpoint(5)
    ctx.checkpoint.get("done", 0)


@app.job
async def asks_for_children(ctx: Context) -> str:
    made: str = await ctx.enqueue(child, n=1)
    return made


@app.job
def asks_in_a_thread(ctx: Context) -> str:
    made: str = ctx.enqueue(child, n=2)
    return made


@app.job
async def sleepy(ctx: Context) -> int:
    if ctx.attempt < 3:
        ctx.snooze("1h")
    return ctx.attempt


@app.job(retry=5)
async def hopeless() -> None:
    raise DeadLetter("the customer is gone")


@app.job(requires=["gpu"], pool="gpu")
async def labelled(ctx: Context) -> dict[str, str]:
    return ctx.labels


@app.job(stop_grace="1m")
async def pays(ctx: Context, seconds: int) -> None:
    async def pay() -> str:
        await asyncio.sleep(seconds)
        seen.append("paid")
        return "paid"

    seen.append(await ctx.shield(pay()))
    await asyncio.sleep(60)
    seen.append("too far")


@app.job
def sleeps_in_a_thread(ctx: Context) -> None:
    while not ctx.cancelled:
        time.sleep(1)
    seen.append("stopped")
    ctx.raise_if_cancelled()
