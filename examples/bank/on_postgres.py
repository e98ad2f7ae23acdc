"""The bank on PostgreSQL: a transfer commits with the end of its attempt, an order commits with its shipment's execution.

duly up examples.bank.on_postgres:app
python -m examples.bank.on_postgres 100        # takes so many orders
"""

from __future__ import annotations

import asyncio
import os
import sys

import asyncpg

from duly import App, Context, Retry
from examples.bank.death import is_doomed_at, reach

app = App("bank")

# Killing a worker over and over costs an execution its budget of losses; here that is what we do all day.
PATIENT = Retry(1000, initial_delay="200ms", max_delay="1s", max_losses=1000)


@app.job(retry=PATIENT)
async def transfer(ctx: Context, source: int, target: int, amount: int, seconds: float = 0.0) -> None:
    """Moves money: once, however often it is tried."""
    reach("begin")
    async with ctx.transaction() as db:
        # Always the lower account first: two transfers between the same accounts wait for one another, and never for ever.
        for account, change in sorted([(source, -amount), (target, amount)]):
            await db.execute("UPDATE accounts SET balance = balance + $2 WHERE id = $1", account, change)
        await db.execute("INSERT INTO transfers VALUES ($1, $2, $3, $4)", ctx.run_id, source, target, amount)
        await asyncio.sleep(seconds)
        reach("effect")
        ctx.result({"moved": amount})
        if is_doomed_at("completed"):
            # The end of the block does this; here it comes first, to die between it and the COMMIT.
            await ctx.complete_with(db)
            reach("completed")
    reach("committed")


@app.job(retry=PATIENT)
async def ship(ctx: Context, number: int) -> None:
    """Ships an order: once."""
    async with ctx.transaction() as db:
        await db.execute("INSERT INTO shipments VALUES ($1)", number)


async def take_orders(store: str, numbers: range) -> None:
    """An order and its shipment, in one transaction: there is never one without the other."""
    connection = await asyncpg.connect(store)
    try:
        for number in numbers:
            async with connection.transaction():
                run = await ship.using(connection).enqueue(number)
                await connection.execute("INSERT INTO orders VALUES ($1, $2)", number, run)
    finally:
        await connection.close()


if __name__ == "__main__":
    asyncio.run(take_orders(os.environ["DULY_STORE"], range(*map(int, sys.argv[1:]))))
