"""Transactions for handlers on SQLite: a connection of the handler's own on the same file, inside BEGIN IMMEDIATE.

SQLite has one writer: while such a block is open, Duly's own writer waits for it, the heartbeat included, so it should be short.
Blocks of one process queue here, because SQLite itself lets those who wait starve one another.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from duly.adapters.sql.engine import Action, Call, one
from duly.adapters.sql.engine_sqlite import BUSY_TIMEOUT_MS, SqliteEngine, translate
from duly.adapters.sql.sqlite.places import leave
from duly.domain.errors import Invalid, LeaseLost, Unavailable
from duly.domain.ids import execution_text
from duly.domain.lifecycle import State
from duly.ports.handlers import Attempt

T = TypeVar("T")

# How long a handler waits for the blocks before its own, in seconds.
PATIENCE = 60.0


class SqliteTransactions:
    """See ports.transactions.Transactions."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine
        self._turn = threading.Lock()
        self._loop_turn = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def open(self, attempt: Attempt, result: Callable[[], str | None]) -> AsyncIterator[sqlite3.Connection]:
        """A sqlite3 connection. Waiting for the file is done in a thread; the handler's own statements run where it runs."""
        block = _Block(self._engine, self._turn, attempt)
        # One at a time, or those who wait would take every thread that the first one needs to commit.
        async with self._loop_turn:
            try:
                yield await _to_the_end(block.begin)
                encoded = result()
                await _to_the_end(lambda: block.commit(encoded))
            finally:
                await _to_the_end(block.end)

    @contextlib.contextmanager
    def open_blocking(self, attempt: Attempt, result: Callable[[], str | None]) -> Iterator[sqlite3.Connection]:
        """The same in a thread."""
        block = _Block(self._engine, self._turn, attempt)
        try:
            yield block.begin()
            block.commit(result())
        finally:
            block.end()

    async def close(self) -> None:
        """Nothing is kept."""


class _Block:
    """One transaction: `begin`, perhaps `commit`, always `end`."""

    def __init__(self, engine: SqliteEngine, turn: threading.Lock, attempt: Attempt) -> None:
        if engine.path == ":memory:":
            raise Invalid("DULY-E132", "A store in memory has no second connection.", hint="Use a file: sqlite:///duly.db.")
        self._engine = engine
        self._turn = turn
        self._attempt = attempt
        self._has_turn = False
        self._connection: sqlite3.Connection | None = None

    def begin(self) -> sqlite3.Connection:
        """Raises LeaseLost at once when there is nothing to end: nobody can take the lease away while we hold the file."""
        self._has_turn = self._turn.acquire(timeout=PATIENCE)
        if not self._has_turn:
            raise Unavailable("DULY-E501", f"Other transactions of this worker have held the SQLite file for {PATIENCE:g} s.")
        try:
            connection = self._connection = sqlite3.connect(
                self._engine.path, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000, check_same_thread=False
            )
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise translate(error) from error
        if not self._drive(_is_held(self._attempt)):
            raise LeaseLost.of(execution_text(self._attempt.id))
        connection.set_authorizer(_no_end)
        return connection

    def commit(self, result: str | None) -> None:
        connection = self._connection
        assert connection is not None
        connection.set_authorizer(None)
        try:
            if not self._drive(_end(self._attempt, result)):
                raise LeaseLost.of(execution_text(self._attempt.id))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise translate(error) from error

    def end(self) -> None:
        """Closing rolls back what was not committed."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._has_turn:
            self._has_turn = False
            self._turn.release()

    def _drive(self, action: Action[T]) -> T:
        connection = self._connection
        assert connection is not None
        # The handler may have chosen other shapes for its own rows.
        own = connection.row_factory, connection.text_factory
        connection.row_factory, connection.text_factory = sqlite3.Row, str
        try:
            return self._engine.drive(connection, action)
        finally:
            connection.row_factory, connection.text_factory = own


def _no_end(action: int, *about: Any) -> int:
    """The handler may set savepoints; BEGIN, COMMIT and ROLLBACK are not its own, or its effect would commit alone."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK


def _is_held(attempt: Attempt) -> Action[bool]:
    return bool((yield Call("open_member", {"lease": attempt.fence, "id": attempt.id})))


def _end(attempt: Attempt, result: str | None) -> Action[bool]:
    """What a finish writes for one success. False, and nothing written: the lease no longer holds it."""
    held = one((yield Call("open_member", {"lease": attempt.fence, "id": attempt.id})))
    if held is None:
        return False
    outcome = {
        "id": attempt.id,
        "state": State.SUCCEEDED,
        "attempt": held["attempt"],
        "lease": attempt.fence,
        "worker": held["worker"],
        "started_at": attempt.started_at,
        "finished_at": attempt.clock(),
        "result": result,
        "error": None,
    }
    yield Call("add_outcome", outcome)
    yield Call("drop_member", {"lease": attempt.fence, "id": attempt.id})
    yield Call("close_lease", {"lease": attempt.fence})
    now = outcome["finished_at"]
    yield from leave(attempt.id, held["job_id"], now, attempt=held["attempt"], started_at=attempt.started_at, final=True)
    return True


async def _to_the_end(work: Callable[[], T]) -> T:
    """In a thread, waited for even by a task that is cancelled meanwhile: nobody may touch the connection before it is done."""
    thread = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        await asyncio.wait({thread})
        if not thread.cancelled():
            thread.exception()
        raise
