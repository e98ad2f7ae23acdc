"""The hours before now, lived through by the application in virtual time on the real roles; the store that it leaves is written to a file.

Nothing of it is invented afterwards: every fire, attempt, retry, skip and log line was decided by the code that runs from then on, at real
speed. Who worked in the past is not there any more: its leases run out, and what it held is done again.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from duly.sdk.app import App
from duly.testing import TestApp

# Those are of the new store: its schema, and who may come in.
_OWN = frozenset({"duly_migrations", "keys", "sessions", "login_links"})


def live_through(app: App, span: timedelta, store: Path, *, seed: int = 7, until: datetime | None = None) -> int:
    """Let the application live for so long until now, and write what came of it into a new store; how many executions that is.

    The store is there already and empty: whoever opened it has made its tables.
    """
    end = until or datetime.now(UTC).replace(microsecond=0)
    with TestApp(app, at=end - span, seed=seed, slots=16) as past:
        past.travel(to=end)
        return _copy(past.world.database.connection, store)


def _copy(past: sqlite3.Connection, store: Path) -> int:
    """Every row of every table; of the shards, that of the past in the place of the new one."""
    with closing(sqlite3.connect(store)) as new:
        new.execute("PRAGMA foreign_keys = OFF")
        new.execute("BEGIN IMMEDIATE")
        tables = [name for (name,) in new.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
        for table in tables:
            if table in _OWN:
                continue
            columns = [row[1] for row in new.execute(f"PRAGMA table_info({table})")]
            names, places = ", ".join(columns), ", ".join("?" * len(columns))
            rows = past.execute(f"SELECT {names} FROM {table}")  # noqa: S608 names of our own tables
            new.executemany(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({places})", rows)  # noqa: S608
        (count,) = new.execute("SELECT count(*) FROM executions").fetchone()
        new.execute("COMMIT")
        return int(count)
