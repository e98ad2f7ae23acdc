"""An application whose tests travel in time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from duly import After, App, Concurrency, Context, Retry, Secret, Snooze

app = App("shop")
did: list[tuple[str, Any]] = []


@app.job(cron="30 2 * * *", tz="Europe/Berlin", retry=Retry(5, initial_delay="10m", jitter=0.0))
async def nightly_report(ctx: Context, region: str = "eu") -> str:
    return f"{region} {ctx.scheduled_at:%Y-%m-%d}"


@app.job(retry=5)
async def send_welcome(user_id: int) -> int:
    did.append(("welcome", user_id))
    return user_id


@app.job(timeout="6h")
def reindex(ctx: Context, index: str, docs: int = 100) -> int:
    """A minute for each document, and a checkpoint for every fifth."""
    first = (ctx.last_checkpoint or {"done": 0})["done"]
    for nth in range(first + 1, docs + 1):
        time.sleep(60)
        if nth % 5 == 0:
            ctx.checkpoint({"done": nth})
    return docs - first


@app.job(timeout="10m", retry=1, stop_grace="30s")
async def endless() -> None:
    await asyncio.sleep(86_400)


@app.job(every="1h", overlap="skip")
async def hourly(ctx: Context) -> None:
    await asyncio.sleep(5400 if ctx.scheduled_at.hour == 12 else 1)


@app.job(cron="0 */6 * * *", catch_up="all", overlap="queue_all")
async def owed() -> None:
    pass


@app.job(executor="process", pool="gpu", requires={"gpu": "yes"})
def render(name: str) -> str:
    return f"{name}.png"


@app.job
async def order(user_id: int) -> None:
    await send_welcome.enqueue(user_id)
    await send_welcome.enqueue_in("2d", user_id + 1)


@app.job
def order_in_a_thread(user_id: int) -> str:
    return app.sync.send_welcome.enqueue(user_id)


@app.job(concurrency=Concurrency(1))
async def one_at_a_time(nth: int) -> int:
    await asyncio.sleep(600)
    return nth


@app.job(cron="0 7 * * *", tz="Europe/Berlin", after=After(nightly_report, within="12h"))
async def after_the_report() -> str:
    return "told"


@app.job
async def impatient(ctx: Context) -> int:
    if ctx.attempt < 3:
        raise Snooze("1h")
    return ctx.attempt


@app.job(batch=10)
async def mails(ctx: Context, items: list[str]) -> list[int]:
    return [len(items) for _ in items]


@app.job
async def with_secret(token: Secret[str]) -> int:
    return len(token.reveal())


etl = app.workflow("etl")


@etl.step
def extract(day: str) -> list[str]:
    time.sleep(60)
    return [f"{day}-{nth}" for nth in range(3)]


@etl.step(map=extract, retry=3)
async def load(path: str) -> int:
    await asyncio.sleep(300)
    return len(path)


@etl.step(after=load, approval="finance")
def publish(ctx: Context, counts: list[int]) -> int:
    return sum(counts)
