"""A store that was put back from a backup goes on: what was final stays final, what was fired is not fired again."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.adapters.sql.migrate import require_current, upgrade
from duly.domain.instants import MINUTE
from duly.domain.lifecycle import State
from tests.conformance.ledger import assert_ledger_is_sound
from tests.conformance.world import TTL, World
from tests.services.postgres import Postgres


class SqliteBackup:
    """The online backup of a file that is in use."""

    def __init__(self, directory: Path) -> None:
        self.original, self.copy = directory / "duly.db", directory / "restored.db"

    def open(self) -> Engine:
        return SqliteEngine(str(self.original))

    def take(self) -> None:
        with contextlib.closing(sqlite3.connect(self.original)) as source, contextlib.closing(sqlite3.connect(self.copy)) as target:
            source.backup(target)

    def restore(self) -> Engine:
        return SqliteEngine(str(self.copy))


class PostgresBackup:
    """pg_dump of the database, restored into another one."""

    def __init__(self, directory: Path, server: Postgres, dsn: str) -> None:
        self.file, self.server, self.dsn = directory / "duly.dump", server, dsn

    def open(self) -> Engine:
        return PostgresEngine(self.dsn)

    def take(self) -> None:
        self._run("pg_dump", "--format=custom", f"--file={self.file}", self.dsn)

    def restore(self) -> Engine:
        restored = self.server.create_database(f"restored_{os.getpid()}")
        self._run("pg_restore", "--exit-on-error", "--no-owner", f"--dbname={restored}", str(self.file))
        return PostgresEngine(restored)

    def _run(self, command: str, *arguments: str) -> None:
        subprocess.run([self.server.binaries / command, *arguments], check=True, capture_output=True)


class BaseBackup:
    """pg_basebackup of the whole server, started as a server of its own."""

    def __init__(self, server: Postgres, dsn: str) -> None:
        self.server, self.dsn = server, dsn
        self.copy = Postgres(follows=server)

    def open(self) -> Engine:
        return PostgresEngine(self.dsn)

    def take(self) -> None:
        self.copy.start()
        self.copy.promote()

    def restore(self) -> Engine:
        return PostgresEngine(self.copy.dsn(self.dsn.rsplit("/", 1)[-1]))


@pytest.fixture(params=["sqlite", "postgres", "basebackup"])
def backup(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteBackup | PostgresBackup | BaseBackup]:
    if request.param == "sqlite":
        yield SqliteBackup(tmp_path)
        return
    server, dsn = request.getfixturevalue("postgres_server"), request.getfixturevalue("postgres_dsn")
    if request.param == "postgres":
        yield PostgresBackup(tmp_path, server, dsn)
        return
    taken = BaseBackup(server, dsn)
    with taken.copy:
        yield taken


@contextlib.asynccontextmanager
async def opened(engine: Engine) -> AsyncIterator[Engine]:
    try:
        yield engine
    finally:
        await engine.close()


async def test_a_restored_store_goes_on_without_firing_anything_twice(backup: Any) -> None:
    async with opened(backup.open()) as engine:
        await upgrade(engine)
        before = World(engine)
        job = await before.job(every=MINUTE)
        await before.fire()
        final = await before.run()
        before.turn(MINUTE)
        await before.fire()
        worker = await before.worker()
        held = await before.claimed(worker)

        backup.take()
        # This happens after the backup, and is forgotten with the disk.
        assert await before.finish(worker, held) == set()
        before.turn(MINUTE)
        await before.fire()
        forgotten = await before.run()

    async with opened(backup.restore()) as engine:
        await require_current(engine)
        after = World(engine, now=before.now + TTL)
        await after.own_shards("another")
        await after.fire()
        await after.lose()
        after.turn(MINUTE // 2)
        await after.promote()
        again = await after.run()

        fired = await after.of_job(job)
        assert [one.id for one in fired] == [*final, *held.ids, *forgotten], "the same instants have the same ids"
        assert sorted(again) == sorted([*held.ids, *forgotten]), "what was final is not run again, what was not is"
        assert {one.state for one in fired} == {State.SUCCEEDED}
        assert all(one.fence > held.lease for one in fired if one.id in again), "fences go on growing"
        await assert_ledger_is_sound(engine)
