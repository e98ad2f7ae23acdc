"""A shop as it might be: forty jobs, some of which go wrong in the ways in which things go wrong.

What a handler does is made up, how long it takes and whether it fails is drawn from its run's id: the same run always goes the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from duly import App, Context
from duly.ports.endings import GiveUp

ZONE = "Europe/Berlin"

app = App("demo-shop")


def drawn(ctx: Context, what: str = "") -> float:
    """A number from 0 to 1 that belongs to this attempt."""
    digest = sha256(f"{ctx.run_id}/{ctx.attempt}/{what}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


async def worked(ctx: Context, seconds: float, told: str) -> int:
    """Take about so long, say what was done, and answer how many."""
    count = round(20 + 400 * drawn(ctx, "count"))
    ctx.log.info("begun", due=str(ctx.due_at))
    await asyncio.sleep(seconds * (0.6 + 0.9 * drawn(ctx, "time")))
    ctx.log.info(told, count=count)
    return count


def plain(name: str, seconds: float, told: str, **options: Any) -> None:
    """Declare a job that only takes its time."""

    async def handler(ctx: Context) -> int:
        return await worked(ctx, seconds, told)

    _declare(name, handler, options)


def flaky(name: str, seconds: float, share: float, error: Callable[[], Exception], **options: Any) -> None:
    """Declare a job of which a share of the attempts fails."""

    async def handler(ctx: Context) -> int:
        count = await worked(ctx, seconds, "done")
        if drawn(ctx, "fails") < share:
            ctx.log.error("this did not work", attempt=ctx.attempt)
            raise error()
        return count

    _declare(name, handler, options)


def _declare(name: str, handler: Callable[..., Any], options: dict[str, Any]) -> None:
    handler.__name__ = name.replace("-", "_")
    app.job(name=name, **options)(handler)


# ---------------------------------------------------------------- the shop front

plain("refresh-prices", 1.2, "prices are as they should be", every="1m", description="What things cost today.")
plain("sync-stock", 2.0, "stock counted", cron="*/2 * * * *")
plain("search-index", 6.0, "documents indexed", cron="*/5 * * * *", timeout="4m")
plain("thumbnails", 3.0, "pictures made small", cron="*/3 * * * *")
plain("abandoned-carts", 2.5, "carts remembered", cron="*/10 * * * *", tz=ZONE)
plain("warm-cache", 1.5, "pages warmed", every="5m", jitter="30s")
plain("sitemap", 9.0, "addresses written", cron="12 * * * *")
plain("fraud-scores", 1.0, "orders scored", cron="*/4 * * * *", priority="high")
# Longer than its interval now and then: the fire in between is skipped.
plain(
    "recommendations", 420.0, "customers looked at", cron="*/10 * * * *", overlap="skip", description="Skips a fire while one still runs."
)
# Longer, too, but nothing is lost: one fire waits for the other.
plain("partner-feed", 230.0, "offers read", cron="*/5 * * * *", overlap="queue_one", max_concurrent=1)
flaky("currency-rates", 0.8, 0.45, lambda: TimeoutError("the bank of banks did not answer within 800 ms"), cron="*/15 * * * *", retry=5)

# ---------------------------------------------------------------- orders

flaky("capture-payments", 1.6, 0.12, lambda: ConnectionError("the bank closed the connection"), cron="*/5 * * * *", retry=4)
flaky("track-parcels", 3.0, 0.25, lambda: RuntimeError("503 from the carrier"), cron="*/15 * * * *", retry=6)
plain("ship-orders", 4.0, "parcels handed over", cron="*/10 6-20 * * 1-6", tz=ZONE)
plain("refund-requests", 2.0, "refunds made", cron="*/30 * * * *")
plain("invoice-mails", 1.8, "invoices sent", cron="*/10 * * * *")
plain("order-export", 12.0, "orders exported", cron="5 * * * *")
plain("returns-report", 20.0, "returns summed up", cron="0 7 * * *", tz=ZONE)


@app.job(
    name="import-supplier",
    cron="*/20 * * * *",
    retry=2,
    alert=app.alert(failed=True),
    description="One supplier sends a price list that nobody can read.",
)
async def import_supplier(ctx: Context, supplier: str = "north-wind") -> int:
    """Dies for good now and then: a dead letter with a cause."""
    rows = await worked(ctx, 1.5, "read")
    if drawn(ctx, "poison") < 0.7:
        raise GiveUp(f"line {rows} of the list of {supplier} has a price of -1")
    return rows


# ---------------------------------------------------------------- the night

plain("nightly-report", 40.0, "figures for everybody who asks at nine", cron="30 2 * * *", tz=ZONE, timeout="10m", retry=3)
for _name, _seconds in (
    ("ledger-close", 35.0),
    ("stock-count", 50.0),
    ("price-history", 15.0),
    ("backup-orders", 90.0),
    ("backup-customers", 80.0),
    ("cleanup-sessions", 12.0),
    ("archive-orders", 45.0),
):
    plain(_name, _seconds, "done for today", cron="0 0 * * *", tz=ZONE, catch_up="latest")
plain("tax-summary", 120.0, "the month is summed up", cron="0 3 1 * *", tz=ZONE)

# ---------------------------------------------------------------- customers

plain("newsletter", 60.0, "letters sent", cron="0 8 * * 2", tz=ZONE)
plain("birthday-coupons", 8.0, "coupons given", cron="0 9 * * *", tz=ZONE)
plain("loyalty-points", 10.0, "accounts updated", cron="20 * * * *")


@app.job(name="welcome-mail", unique="customer", unique_for="1h", retry=8)
async def welcome_mail(ctx: Context, customer: int = 1) -> str:
    """Only when somebody signs up: `duly run welcome-mail customer=42`."""
    await worked(ctx, 0.5, "sent")
    return f"welcome, {customer}"


# ---------------------------------------------------------------- the machine room

plain("heartbeat", 0.1, "alive", every="1m", priority="low")
plain("check-certificates", 5.0, "certificates looked at", cron="0 6 * * *")
plain("rotate-logs", 3.0, "files rotated", cron="45 * * * *")
flaky("webhooks-again", 1.0, 0.1, lambda: ConnectionError("connection refused"), cron="*/6 * * * *", retry=3)
# Who served this pool in the past is not there any more (run.py): the next one waits, and the overview says so.
plain("train-recommender", 600.0, "model trained", cron="50 * * * *", pool="gpu", overlap="skip")

# ---------------------------------------------------------------- workflows

warehouse = app.workflow("warehouse", cron="15 * * * *", description="Lists the files of the hour, loads each, and publishes after a look.")


@warehouse.step
async def list_files(ctx: Context) -> list[str]:
    """Between six and sixteen of them."""
    await worked(ctx, 2.0, "listed")
    return [f"orders-{nth:02}.csv" for nth in range(6 + round(10 * drawn(ctx, "files")))]


@warehouse.step
async def read_customers(ctx: Context) -> int:
    """Beside the files."""
    return await worked(ctx, 9.0, "customers read")


@warehouse.step(map=list_files, max_parallel=4, retry=3)
async def load(ctx: Context, path: str) -> int:
    """One file."""
    return await worked(ctx, 4.0, f"{path} loaded")


@warehouse.step(after=[load, read_customers])
async def totals(ctx: Context) -> int:
    """What it comes to."""
    return await worked(ctx, 3.0, "summed up")


@warehouse.step(after=totals, approval={"by": ["admin", "operator"], "timeout": "40m", "on_timeout": "continue"})
async def publish(ctx: Context) -> int:
    """Somebody looks at the figures first; after forty minutes nobody is waited for."""
    return await worked(ctx, 1.0, "published")


checkout = app.workflow("checkout", cron="*/12 * * * *", description="Reserve, charge, ship; what was done is undone when it fails.")


@checkout.step
async def reserve(ctx: Context) -> str:
    """Put it aside."""
    await worked(ctx, 0.6, "reserved")
    return "shelf A7"


@checkout.step(after=reserve, retry=2)
async def charge(ctx: Context) -> str:
    """One card in three has expired."""
    await worked(ctx, 1.4, "asked the bank")
    if drawn(ctx, "card") < 0.3:
        raise GiveUp("the card has expired")
    return "receipt"


@checkout.step(after=charge)
async def ship(ctx: Context) -> str:
    """Off it goes."""
    await worked(ctx, 2.0, "packed")
    return "parcel"


@checkout.step(compensates=reserve)
async def release(ctx: Context) -> str:
    """Back on the shelf."""
    await worked(ctx, 0.4, "back on the shelf")
    return "released"


month_end = app.workflow("month-end", cron="0 5 1 * *", tz=ZONE, description="Closes the books when accounting has said so.")


@month_end.step
async def collect(ctx: Context) -> int:
    """All figures of the month."""
    return await worked(ctx, 30.0, "collected")


@month_end.step(after=collect, approval={"by": ["admin"]})
async def close_books(ctx: Context) -> int:
    """Waits for a word."""
    return await worked(ctx, 5.0, "closed")
