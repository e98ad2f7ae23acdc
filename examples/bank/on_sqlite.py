"""The bank on SQLite: its tables live in Duly's own file, and a transfer commits with the end of its attempt.

duly up examples.bank.on_sqlite:app
"""

from __future__ import annotations

import time

from duly import App, Context, Retry
from examples.bank.death import reach

app = App("bank")


@app.job(retry=Retry(1000, initial_delay="200ms", max_delay="1s", max_losses=1000))
def transfer(ctx: Context, source: int, target: int, amount: int, seconds: float = 0.0) -> None:
    """Moves money: once, however often it is tried. It runs in a thread; the file has one writer, so the block is short."""
    reach("begin")
    time.sleep(seconds)
    with ctx.transaction() as db:
        db.execute("UPDATE accounts SET balance = balance - ? WHERE id = ?", (amount, source))
        db.execute("UPDATE accounts SET balance = balance + ? WHERE id = ?", (amount, target))
        db.execute("INSERT INTO transfers VALUES (?, ?, ?, ?)", (ctx.run_id, source, target, amount))
        reach("effect")
        ctx.result({"moved": amount})
    reach("committed")
