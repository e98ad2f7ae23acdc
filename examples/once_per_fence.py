"""An effect outside of Duly that happens once: hand over the idempotency key, and let the fence refuse a stale worker.

duly up examples.once_per_fence:app
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from duly import App, Context

app = App("billing")


def charge(database: Path, key: str, fence: int, cents: int) -> bool:
    """Book the amount unless this key was booked already, or a later attempt has been here."""
    with sqlite3.connect(database) as ledger:
        ledger.execute("CREATE TABLE IF NOT EXISTS charges (key TEXT PRIMARY KEY, fence INTEGER NOT NULL, cents INTEGER NOT NULL)")
        booked = ledger.execute(
            "INSERT INTO charges VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING RETURNING key",
            (key, fence, cents),
        ).fetchone()
    ledger.close()
    return booked is not None


@app.job(cron="0 6 1 * *", tz="Europe/Berlin", retry=8)
def monthly_charge(ctx: Context, cents: int = 900, database: str = "charges.db") -> bool:
    """At least once as an attempt, once as a charge."""
    return charge(Path(database), ctx.idempotency_key, ctx.fence, cents)
