"""Applications as somebody writes them who has seen one page about the SDK."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from duly import App, Context

app = App("shop")
fences: list[int] = []


def build(region: str) -> int:
    return len(region)


@app.job(
    cron="30 2 * * *",
    tz="Europe/Berlin",
    overlap="skip",
    catch_up="latest",
    retry=5,
    timeout="10m",
    alert=app.alert(missed_after="15m"),
)
def nightly_report(ctx: Context, region: str = "eu") -> dict[str, int]:
    ctx.log.info("building", region=region, due=ctx.due_at, lateness=ctx.lateness)
    return {"rows": build(region)}


class Mailer:
    def __init__(self) -> None:
        self.sent: list[tuple[int, str]] = []

    async def send(self, user_id: int, *, idempotency_key: str) -> None:
        self.sent.append((user_id, idempotency_key))


mailer = Mailer()


class Welcome(BaseModel):
    user_id: int


@app.job(pool="mail", unique="user_id", retry=8, rate="100/m")
async def send_welcome(ctx: Context, args: Welcome) -> None:
    await mailer.send(args.user_id, idempotency_key=ctx.idempotency_key)


def count(index: str) -> int:
    return 5_000


def scan(index: str, skip: int) -> Iterator[int]:
    yield from range(skip, count(index))


def write(doc: int, fence: int) -> None:
    time.sleep(1)
    fences.append(fence)


@app.job(timeout="6h", heartbeat="30s", executor="process", pool="gpu")
def reindex(ctx: Context, index: str) -> None:
    done = ctx.checkpoint.get("done", 0)
    with ctx.progress(total=count(index), start=done) as bar:
        for n, doc in enumerate(scan(index, skip=done), start=done + 1):
            ctx.raise_if_cancelled()
            write(doc, fence=ctx.fence)
            bar.advance()
            if n % 500 == 0:
                ctx.checkpoint.save(done=n)


flows = App("flows")
etl = flows.workflow("etl", cron="H 4 * * *", tz="UTC", catch_up="latest")
announced: list[Any] = []


def list_files(day: Any) -> list[str]:
    return [f"{day}/{n}" for n in range(50)]


def copy_into_db(path: str) -> int:
    return len(path)


def announce(total: int) -> None:
    announced.append(total)


@etl.step
def extract(ctx: Context) -> list[str]:
    return list_files(day=ctx.due_at.date())


@etl.step(map=extract, max_parallel=20, retry=3)
def load(ctx: Context, path: str) -> int:
    return copy_into_db(path)


@etl.step(after=load, when="all_succeeded", approval="finance")
def publish(ctx: Context, counts: list[int]) -> None:
    announce(total=sum(counts))
