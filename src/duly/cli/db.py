"""`duly db`: the store's schema and its backup."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from duly.adapters.sql.engine import Engine
from duly.adapters.sql.migrate import Migration, migrations, pending, upgrade
from duly.adapters.sql.store import open_engine
from duly.cli import output
from duly.cli.errors import FAILURE, OK
from duly.cli.output import GREEN, YELLOW, Column, paint
from duly.cli.parsing import Arguments, Command, Group, Parser, output_options
from duly.cli.places import masked, near
from duly.cli.serve import settings_of, store_options
from duly.domain.errors import Conflict, NotFound, Unavailable

T = TypeVar("T")

PAGES_PER_STEP = 4096


def on_store(store: str, work: Callable[[Engine], Coroutine[Any, Any, T]]) -> T:
    """Open the store, do something with it, and let it go. A SQLite file that is not there is not made."""
    path = sqlite_file(store)
    if path is not None and not path.exists():
        raise NotFound(
            "DULY-E501", f"There is no store at {near(path)}.", hint="`duly up` makes one; DULY_STORE or DULY_HOME name another."
        )

    async def run() -> T:
        engine = open_engine(store)
        try:
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(run())


def sqlite_file(store: str) -> Path | None:
    """The file of a SQLite store; None for any other."""
    if not store.startswith("sqlite:///"):
        return None
    return Path(unquote(store.removeprefix("sqlite:///")))


def _configure(parser: Parser) -> None:
    store_options(parser)
    output_options(parser)


def _status(arguments: Arguments) -> int:
    out = output.of(arguments)
    store = settings_of(arguments).store

    async def look(engine: Engine) -> tuple[str, list[Migration], list[Migration]]:
        return engine.name, migrations(engine.name), await pending(engine)

    name, known, waiting = on_store(store, look)
    numbers = {migration.number for migration in waiting}
    rows = [{"migration": f"{one.number:04d}_{one.name}", "state": "waiting" if one.number in numbers else "applied"} for one in known]
    out.rows(_COLUMNS, rows, name=lambda row: row["migration"])
    where = sqlite_file(store)
    out.say(f"\n{name} at {near(where) if where is not None else masked(store)}")
    out.say("The schema is current." if not waiting else f"{_count(waiting)} waiting: `duly db upgrade` applies them.")
    return OK if not waiting else FAILURE


def _configure_upgrade(parser: Parser) -> None:
    parser.add_argument("--plan", action="store_true", help="print the SQL that would be run, and change nothing")
    parser.add_argument("--dry-run", action="store_true", help="say which migrations would be applied, and change nothing")
    _configure(parser)


def _upgrade(arguments: Arguments) -> int:
    out = output.of(arguments)
    store = settings_of(arguments).store
    if arguments.plan or arguments.dry_run:
        waiting = on_store(store, pending) if (path := sqlite_file(store)) is None or path.exists() else migrations("sqlite")
        for migration in waiting:
            print(
                f"-- {migration.number:04d}_{migration.name}\n{migration.text}"
                if arguments.plan
                else f"{migration.number:04d}_{migration.name}"
            )
        out.say(f"{_count(waiting)} would be applied." if waiting else "Nothing to do: the schema is current.")
        return OK
    applied = asyncio.run(_upgrade_store(store))
    for migration in applied:
        out.say(f"{paint('✓', GREEN)} {migration.number:04d}_{migration.name}")
    out.say(f"{_count(applied)} applied." if applied else "Nothing to do: the schema is current.")
    return OK


async def _upgrade_store(store: str) -> list[Migration]:
    engine = open_engine(store)
    try:
        return await upgrade(engine)
    finally:
        await engine.close()


def _count(waiting: list[Migration]) -> str:
    return f"{len(waiting)} migration{'s' if len(waiting) != 1 else ''}"


def _configure_backup(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="where to; it must not exist yet")
    _configure(parser)


def _backup(arguments: Arguments) -> int:
    out = output.of(arguments)
    store = settings_of(arguments).store
    path = sqlite_file(store)
    if path is None:
        out.say(f"{paint('!', YELLOW)} The store is PostgreSQL, which has its own tools:")
        out.say(f"  pg_dump --format=custom --schema=duly --file={arguments.file} '{masked(store)}'")
        out.say(f"  pg_basebackup --checkpoint=fast --wal-method=stream --pgdata={arguments.file}.base   (the whole server)")
        return FAILURE
    if not path.exists():
        raise NotFound("DULY-E501", f"There is no store at {near(path)}.", hint="DULY_STORE or DULY_HOME name another.")
    size = backup_sqlite(path, Path(arguments.file))
    out.say(f"{paint('✓', GREEN)} {near(path)} → {arguments.file} ({size / 1_048_576:,.1f} MiB, readable by you only)")
    out.say(f"  Use it with: duly up --store sqlite:///{arguments.file}")
    return OK


def backup_sqlite(source: Path, target: Path) -> int:
    """Copy a SQLite file while others write to it: one consistent moment, checked, in a file of mode 0600. Returns its size.

    It is written beside the target and renamed, so that a backup that was cut off is never taken for one.
    """
    if target.exists():
        raise Conflict("DULY-E604", f"{target} exists already.", hint="A backup never overwrites: choose another name.")
    part = target.with_name(f".{target.name}.part")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
        try:
            with closing(sqlite3.connect(source, timeout=30)) as origin, closing(sqlite3.connect(part)) as copy:
                origin.backup(copy, pages=PAGES_PER_STEP)
                # The copy is one file: it must open without a write-ahead log beside it.
                copy.execute("PRAGMA journal_mode = DELETE")
                verdict = copy.execute("PRAGMA quick_check").fetchone()[0]
            if verdict != "ok":
                raise Unavailable(
                    "DULY-E501", f"The copy is damaged: {verdict}.", hint="Check the disk, then the store: PRAGMA integrity_check."
                )
            with part.open("rb") as file:
                os.fsync(file.fileno())
            os.link(part, target)
        finally:
            part.unlink(missing_ok=True)
    except FileExistsError as error:
        raise Conflict("DULY-E604", f"{target} exists already.", hint="A backup never overwrites: choose another name.") from error
    except OSError as error:
        raise Unavailable("DULY-E501", f"{target} cannot be written: {error.strerror}.") from error
    except sqlite3.Error as error:
        raise Unavailable("DULY-E501", f"The store cannot be copied: {error}.") from error
    return target.stat().st_size


_COLUMNS: list[Column[dict[str, str]]] = [
    Column("migration", lambda row: row["migration"]),
    Column("state", lambda row: row["state"], colour=lambda row: YELLOW if row["state"] == "waiting" else GREEN),
]

COMMANDS = {
    "db": Group(
        "The store: its schema and its backup.",
        "duly db",
        {
            "status": Command("which migrations are applied", _configure, _status, "duly db status"),
            "upgrade": Command("bring the schema up to date", _configure_upgrade, _upgrade, "duly db upgrade"),
            "backup": Command("copy a SQLite store to a file while it is in use", _configure_backup, _backup, "duly db backup"),
        },
    )
}
