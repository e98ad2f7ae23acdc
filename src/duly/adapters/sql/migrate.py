"""Migrations: numbered SQL files, applied in order, each in one transaction, under a lock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

from duly.adapters.sql.engine import Engine
from duly.domain.errors import Unavailable

_FILE = re.compile(r"(\d{4})_(\w+)\.(sqlite|postgres)\.sql\Z")

_BOOKKEEPING = {
    "sqlite": "CREATE TABLE IF NOT EXISTS duly_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL);",
    "postgres": """
        SELECT pg_advisory_xact_lock(3859);
        CREATE SCHEMA IF NOT EXISTS duly;
        CREATE TABLE IF NOT EXISTS duly.duly_migrations (number integer PRIMARY KEY, name text NOT NULL, applied_at bigint NOT NULL);
    """,
}


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    number: int
    name: str
    text: str


def migrations(engine: str) -> list[Migration]:
    """All migrations of an engine, in order."""
    found: list[Migration] = []
    for file in files("duly.adapters.sql").joinpath("migrations").iterdir():
        match = _FILE.match(file.name)
        if match is not None and match[3] == engine:
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda migration: migration.number)


async def pending(engine: Engine) -> list[Migration]:
    """What `upgrade` would apply. Raises Unavailable (DULY-E503) when the store is newer than this version."""
    known = migrations(engine.name)
    applied = await _applied(engine)
    newest = known[-1].number
    if applied and max(applied) > newest:
        raise Unavailable("DULY-E503", f"The store is at schema {max(applied)}, this version knows {newest}.", hint="Update Duly.")
    return [migration for migration in known if migration.number not in applied]


async def upgrade(engine: Engine) -> list[Migration]:
    """Apply what is pending; returns what was applied. Safe to run from many processes at once."""
    await engine.script(_BOOKKEEPING[engine.name])
    done: list[Migration] = []
    for migration in await pending(engine):
        if await _apply(engine, migration):
            done.append(migration)
    if engine.name == "postgres":
        await engine.fetch("build_wall", {})
    return done


async def require_current(engine: Engine) -> None:
    """Raise Unavailable (DULY-E503) unless the store's schema is this version's."""
    waiting = await pending(engine)
    if waiting:
        raise Unavailable(
            "DULY-E503", f"The store lacks migration {waiting[0].number:04d}_{waiting[0].name}.", hint="Run `duly db upgrade`."
        )


async def _applied(engine: Engine) -> set[int]:
    exists = await engine.fetch("migrations_table", {})
    if not exists:
        return set()
    return {row["number"] for row in await engine.fetch("migrations_applied", {})}


async def _apply(engine: Engine, migration: Migration) -> bool:
    """One migration in one transaction, with its bookkeeping. False when another process was faster."""
    values = f"({migration.number}, '{migration.name}', {await engine.store_now()})"
    record = f"INSERT INTO duly_migrations (number, name, applied_at) VALUES {values};"  # noqa: S608 (our own file's name and two numbers)
    lock = "SELECT pg_advisory_xact_lock(3859);" if engine.name == "postgres" else ""
    # The record comes first: the second of two processes fails on its primary key before it changes anything.
    try:
        await engine.script("\n".join((lock, record, migration.text)))
    except Exception:
        if migration.number in await _applied(engine):
            return False
        raise
    return True
