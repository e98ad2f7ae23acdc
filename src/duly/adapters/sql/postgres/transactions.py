"""Transactions for handlers on PostgreSQL: connections of the worker's own, beside the lanes of the engine.

They have the user's settings, not ours: no search_path, no pinned plans. What is set on them is a bound: between the end of the
attempt and the COMMIT its lease is locked and the sweeper leaves it alone, so a process that stands still there must not do so
for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any

import asyncpg

from duly.adapters.sql.engine_postgres import translated
from duly.adapters.sql.postgres.address import Pooler
from duly.adapters.sql.postgres.lines import DEADLINE, Line, Way
from duly.adapters.sql.statements import statements
from duly.domain.errors import Invalid, LeaseLost, Unavailable
from duly.domain.ids import execution_text
from duly.ports.handlers import Attempt

# Connections of one worker; who comes when all are taken waits, for as long as his own timeout lets him.
MOST = 16
# How long a transaction may stand idle before the server ends it.
LONGEST_PAUSE = "60s"
# How long a rollback may take before the connection is dropped, which has the same effect.
PATIENCE = 5.0
IDLE_CONNECTION_LIVES = 60.0


class PostgresTransactions:
    """See ports.transactions.Transactions."""

    def __init__(self, dsn: str, *, most: int = MOST) -> None:
        self._way = Way(dsn)
        self._most = most
        self._opening = asyncio.Lock()
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._end = statements("postgres")["end_in_transaction"]

    @contextlib.asynccontextmanager
    async def open(self, attempt: Attempt, result: Callable[[], str | None]) -> AsyncIterator[Any]:
        """An asyncpg connection. Transactions that the handler opens on it are savepoints."""
        with translated():
            pool = await self._opened()
            connection: Any = await pool.acquire()
        try:
            transaction = connection.transaction()
            try:
                with translated():
                    await transaction.start()
                    if connection.local:
                        await connection.execute(connection.local)
                yield connection
                await self._end_attempt(connection, attempt, result())
            except BaseException:
                await _roll_back(connection, transaction)
                raise
            await _commit(connection, transaction)
        finally:
            await pool.release(connection)

    def open_blocking(self, attempt: Attempt, result: Callable[[], str | None]) -> AbstractContextManager[Any]:
        """There is none: asyncpg needs the event loop."""
        raise Invalid(
            "DULY-E132",
            "On PostgreSQL ctx.transaction() is for async handlers.",
            hint="Use ctx.complete_with(connection) on a connection of your own, or make the handler `async def`.",
        )

    async def close(self) -> None:
        """What is idle is closed; a handler that was left behind loses its connection."""
        if self._pool is not None:
            self._pool.terminate()

    async def _opened(self) -> asyncpg.Pool[asyncpg.Record]:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    min_size=0,
                    max_size=self._most,
                    max_inactive_connection_lifetime=IDLE_CONNECTION_LIVES,
                    connect=self._connect,
                    reset=self._reset,
                    connection_class=Line,
                )
            return self._pool

    async def _connect(self, *words: Any, **more: Any) -> Line:
        """A line without a deadline of ours: what the handler asks for may take as long as its own timeout lets it."""
        return await self._way.open("duly-transaction", {"idle_in_transaction_session_timeout": LONGEST_PAUSE}, deadline=None)

    async def _reset(self, connection: Any) -> None:
        """What the handler set on the session goes. Through a pooler there is nothing of the kind, and the session is not ours."""
        if self._way.pooler is not Pooler.TRANSACTION:
            await connection.execute(connection.get_reset_query())

    async def _end_attempt(self, connection: Any, attempt: Attempt, result: str | None) -> None:
        params = {"lease": attempt.fence, "id": str(attempt.id), "result": result, "started_at": attempt.started_at}
        with translated():
            if not connection.is_in_transaction():
                raise Invalid(
                    "DULY-E132",
                    "The transaction was ended inside its block.",
                    hint="Leave BEGIN, COMMIT and ROLLBACK to ctx.transaction().",
                )
            ended = await connection.fetchval(self._end.text, *(params[name] for name in self._end.names), timeout=DEADLINE)
        if not ended:
            raise LeaseLost.of(execution_text(attempt.id))


async def _commit(connection: Any, transaction: Any) -> None:
    try:
        with translated():
            async with asyncio.timeout(DEADLINE):
                await transaction.commit()
    except Unavailable as error:
        _drop(connection)
        raise Unavailable(
            error.code,
            f"Whether the transaction was committed is not known. {error.message}",
            hint="The attempt is tried again only if it was not.",
        ) from error
    except asyncio.CancelledError:
        # It may be committed or not; the report that follows waits until the server knows.
        _drop(connection)
        raise


async def _roll_back(connection: Any, transaction: Any) -> None:
    """Whatever happens here, the transaction is over: a connection that cannot say so is dropped."""
    try:
        async with asyncio.timeout(PATIENCE):
            await transaction.rollback()
    except BaseException as error:
        _drop(connection)
        if isinstance(error, asyncio.CancelledError):
            raise


def _drop(connection: Any) -> None:
    """End the session without a word. One that has ended already is no longer the pool's to drop."""
    with contextlib.suppress(asyncpg.InterfaceError):
        connection.terminate()
