"""The real SQLite store in memory, migrated once and used again and again.

Whoever uses it works inside one transaction that is rolled back in the end, so that the next one finds the migrated, empty store, and every
prepared statement is still prepared. What the engine would commit is a savepoint that is released: nothing is ever written to a disk.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Coroutine, Mapping
from functools import cache
from typing import Any, TypeVar

from duly.adapters.sql.engine import Action, Lane, Rows
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine, SqliteEngine, translate
from duly.adapters.sql.migrate import upgrade
from duly.adapters.sql.statements import Statement, statements
from duly.domain.ids import new_id
from duly.domain.instants import Instant
from duly.domain.shards import shard_of
from duly.ports.clock import Clock, Entropy

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


class Database:
    """A migrated store. `begin` and `rewind` enclose what one user does with it."""

    def __init__(self) -> None:
        self._engine = InlineSqliteEngine()
        self.connection = self._engine._connection
        at_once(upgrade(self._engine))

    def begin(self, shards: int = 1) -> None:
        """A new store with the first so many shards: each costs every dispatcher a look."""
        self.connection.execute("BEGIN")
        self.connection.execute("DELETE FROM shards WHERE shard >= ?", (shards,))

    def rewind(self) -> None:
        """Forget everything that was written since `begin`."""
        self.connection.execute("ROLLBACK")

    def transact(self, work: Work[T], *, commits: bool = True) -> tuple[T | None, Exception | None]:
        """Run it now, in a transaction of its own; without `commits` it is undone, as in a crash before the commit."""
        connection = self.connection
        connection.execute("SAVEPOINT job")
        result: T | None = None
        error: Exception | None = None
        try:
            result = work(connection)
        except sqlite3.Error as failed:
            error = translate(failed)
        except Exception as failed:
            error = failed
        if error is not None or not commits:
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return result, error


_idle: list[Database] = []


def lend() -> Database:
    """A database that nobody uses. Migrating takes longer than most tests, so those that were given back serve again."""
    return _idle.pop() if _idle else Database()


def give_back(database: Database) -> None:
    """Nobody uses it any more, and it is as new."""
    database.rewind()
    _idle.append(database)


class VirtualEngine(SqliteEngine):
    """The product's own engine on such a database. `pause` is awaited before every call: it may take its time, or raise Unavailable."""

    def __init__(self, database: Database, now: Callable[[], Instant]) -> None:
        self.path = ":memory:"
        self.database = database
        self.writes = 0
        self.pause: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._statements = statements("sqlite")
        self._in_memory = True
        self._now = now
        # Whoever is tested may enqueue from a thread of its own.
        self._turn = threading.RLock()

    _writes = _reads = None  # type: ignore[assignment]

    async def run(self, action: Callable[[], Action[T]], lane: Lane = Lane.GENERAL) -> T:
        result: T = await self._submit(self._writes, lambda connection: self.drive(connection, action()))
        return result

    async def read(self, action: Callable[[], Action[T]]) -> T:
        if self.pause is not None:
            await self.pause()
        with self._turn:
            return self.drive(self.database.connection, action())

    async def fetch(self, name: str, params: Mapping[str, Any], lane: Lane = Lane.GENERAL) -> Rows:
        if self.pause is not None:
            await self.pause()
        statement = self._statements[name]
        with self._turn:
            self.writes += not _only_reads(statement)
            try:
                # One statement is all or nothing by itself.
                return self._execute(self.database.connection, statement, params)
            except sqlite3.Error as error:
                raise translate(error) from error

    def look(self, name: str, params: Mapping[str, Any]) -> Rows:
        """The rows of a statement that only reads, at once and past every fault: for whoever stands outside."""
        with self._turn:
            return self._execute(self.database.connection, self._statements[name], params)

    async def _submit(self, where: Any, work: Work[Any]) -> Any:
        if self.pause is not None:
            await self.pause()
        with self._turn:
            self.writes += 1
            result, error = self.database.transact(work)
        if error is not None:
            raise error
        return result

    async def store_now(self) -> Instant:
        return self._now()

    async def close(self) -> None:
        """The connection is not ours."""

    def abandon(self) -> None:
        """The connection is not ours."""


@cache
def _only_reads(statement: Statement) -> bool:
    return statement.only_reads


def on_few_shards(entropy: Entropy, clock: Clock, shards: int) -> Entropy:
    """Chance for the ids of jobs: drawn again until the job falls on a shard that the store has."""
    start = 0

    def draw(bits: int, /) -> int:
        nonlocal start
        drawn = entropy(bits)
        if bits == 25:
            start = drawn
        while bits == 48 and shard_of(new_id(clock.now(), lambda asked: start if asked == 25 else drawn)) >= shards:  # noqa: B023
            drawn = entropy(bits)
        return drawn

    return draw


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that never has to wait. Whether an event loop runs here does not matter to it."""
    try:
        call.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    call.close()
    raise RuntimeError("it waits for something")
