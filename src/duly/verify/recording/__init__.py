"""The store's own account: triggers that write every change of the ledger down, in the transaction that makes it.

They are installed on a store that is about to be tested and on no other: production pays nothing for them.
A commit whose answer was lost, a write that raced, a failover that rolled back: the account follows the tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any
from uuid import UUID

import msgspec

from duly.domain.ids import execution_text, job_text
from duly.verify.history import Event

READ = "SELECT seq, at, kind, actor, tenant, job, run, attempt, fence, worker, shard, epoch, data FROM {table} ORDER BY seq"
# Milliseconds, rounded up: an event is never recorded before it happened.
_NOW = "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 999"

_FUNCTIONS = r"SELECT proname FROM pg_proc WHERE pronamespace = 'duly'::regnamespace AND proname LIKE 'verify\_%'"

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def install_sqlite(connection: sqlite3.Connection, *, now: str = _NOW, actor: str = "NULL") -> None:
    """Begin to record on a migrated SQLite store. `now` and `actor` are SQL expressions; every connection that writes must know them."""
    connection.executescript(_script("sqlite").replace("{now}", now).replace("{actor}", actor))


def read_sqlite(connection: sqlite3.Connection) -> list[Event]:
    """What was recorded, in order."""
    cursor = connection.execute(READ.format(table="verify_events"))
    names = [column[0] for column in cursor.description]
    return [_event(dict(zip(names, row, strict=True))) for row in cursor]


async def install_postgres(dsn: str) -> None:
    """Begin to record on a migrated PostgreSQL store."""
    connection = await _connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute(_script("postgres"))
    finally:
        await connection.close()


async def read_postgres(dsn: str) -> list[Event]:
    """What was recorded, in order."""
    connection = await _connect(dsn)
    try:
        return events_of(await connection.fetch(READ.format(table="duly.verify_events")))
    finally:
        await connection.close()


async def remove_postgres(dsn: str) -> None:
    """Record no more, and leave nothing of the recording behind."""
    connection = await _connect(dsn)
    try:
        async with connection.transaction():
            # The triggers go with their functions.
            for row in await connection.fetch(_FUNCTIONS):
                await connection.execute(f"DROP FUNCTION duly.{row['proname']} CASCADE")
            await connection.execute("DROP TABLE IF EXISTS duly.verify_events")
    finally:
        await connection.close()


def events_of(rows: Iterable[Mapping[str, Any]]) -> list[Event]:
    """Rows of the table as events."""
    return [_event(row) for row in rows]


async def _connect(dsn: str) -> Any:
    import asyncpg

    return await asyncpg.connect(dsn)


def _script(engine: str) -> str:
    return files(__package__).joinpath(f"{engine}.sql").read_text()


def _event(row: Mapping[str, Any]) -> Event:
    job, run = row["job"], row["run"]
    return Event(
        seq=row["seq"],
        at=row["at"],
        kind=row["kind"],
        actor=row["actor"],
        tenant=row["tenant"],
        job=None if job is None else job_text(_uuid(job)),
        run=None if run is None else execution_text(_uuid(run)),
        attempt=row["attempt"],
        fence=row["fence"],
        worker=row["worker"],
        shard=row["shard"],
        epoch=row["epoch"],
        data=_decode(row["data"]),
    )


def _uuid(value: Any) -> UUID:
    return UUID(bytes=value) if isinstance(value, bytes) else UUID(int=value.int)
