"""PostgreSQL over asyncpg: a small pool per lane, planner settings pinned by lane, a deadline on every call.

Why lanes: a claim whose generic plan was cached while the tables were near empty took 595 ms at
100,000 ready rows. With the plan pinned to a walk along the key it takes 5 ms, whatever the
statistics say; the finish wants the opposite joins. `jit=off` everywhere: compiling costs more
than any of these statements.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from duly.adapters.sql.engine import Action, Call, Lane, Rows
from duly.adapters.sql.statements import Statement, statements
from duly.domain.errors import DulyError, Unavailable
from duly.domain.instants import Instant
from duly.ports.wall import walled_tenant

T = TypeVar("T")

SCHEMA = "duly"
# The role behind the wall: see migration 0008.
WALLED = "duly_tenant"
DEADLINE = 30.0
CONNECT_TIMEOUT = 5.0
ACQUIRE_TIMEOUT = 10.0
REPEATS = 5

_WALKS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
_HASHES = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_nestloop": "off", "enable_mergejoin": "off"}
_CUSTOM = {"plan_cache_mode": "force_custom_plan"}
_SETTINGS: dict[Lane, dict[str, str]] = {Lane.CLAIM: _WALKS, Lane.FINISH: _HASHES, Lane.GENERAL: _CUSTOM}

# The server is away, going away or coming up; or it refused us for want of room. The outcome of what was sent is unknown.
_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)
_REPEATABLE = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)


class Pool:
    """At most `size` connections of one lane, opened when needed, reused last in first out, dropped when they break."""

    def __init__(self, dsn: str, lane: Lane, size: int) -> None:
        self._dsn = dsn
        self._lane = lane
        self._room = asyncio.Semaphore(size)
        self._idle: list[asyncpg.Connection[asyncpg.Record]] = []

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        """Borrow a connection. One that was interrupted in the middle of something does not come back."""
        async with self._placed():
            connection = await self._open()
            clean = False
            try:
                yield connection
                clean = True
            except (asyncpg.PostgresError, DulyError):
                # The server refused a statement, or an action changed its mind: the connection itself is as good as before.
                clean = not connection.is_in_transaction()
                raise
            finally:
                if clean and not connection.is_closed():
                    self._idle.append(connection)
                else:
                    connection.terminate()

    @contextlib.asynccontextmanager
    async def _placed(self) -> AsyncIterator[None]:
        """A place among the lane's connections. Waiting is bounded: behind a server that accepts and says nothing,
        the thousandth caller would wait for minutes."""
        async with asyncio.timeout(ACQUIRE_TIMEOUT):
            await self._room.acquire()
        try:
            yield
        finally:
            self._room.release()

    async def _open(self) -> asyncpg.Connection[asyncpg.Record]:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        settings = {"search_path": SCHEMA, "jit": "off", "timezone": "UTC"}
        return await asyncpg.connect(
            self._dsn,
            timeout=CONNECT_TIMEOUT,
            command_timeout=DEADLINE,
            statement_cache_size=200,
            server_settings=named(self._dsn, f"duly-{self._lane.value}") | settings | _SETTINGS[self._lane],
        )

    async def close(self) -> None:
        """Close what is idle; what is borrowed breaks at its next use."""
        idle, self._idle = self._idle, []
        for connection in idle:
            with contextlib.suppress(*_AWAY):
                await connection.close(timeout=2.0)

    def abandon(self) -> None:
        """The same when the event loop has ended."""
        idle, self._idle = self._idle, []
        for connection in idle:
            # It says goodbye to the server, and then that the loop which would close its socket has ended; the socket goes with it.
            with contextlib.suppress(RuntimeError):
                connection.terminate()


class PostgresEngine:
    """A PostgreSQL database."""

    name = "postgres"

    def __init__(self, dsn: str, *, general: int = 8) -> None:
        self.dsn = dsn
        self._statements = statements("postgres")
        # Known once somebody has asked.
        self._has_wall: bool | None = None
        self._pools = {
            Lane.GENERAL: Pool(dsn, Lane.GENERAL, general),
            Lane.CLAIM: Pool(dsn, Lane.CLAIM, 4),
            Lane.FINISH: Pool(dsn, Lane.FINISH, 4),
        }

    async def run(self, action: Callable[[], Action[T]], lane: Lane = Lane.GENERAL) -> T:
        for repeat in range(REPEATS):
            try:
                with translated():
                    async with self._pools[lane].connection() as connection, self._transaction(connection):
                        return await self._drive(connection, action())
            except (*_REPEATABLE, asyncpg.UniqueViolationError):
                # Two transactions met in an unlucky order and the server undid ours entirely: again, from the top. A key that
                # somebody took between our look and our write is there at the second look, so the action itself says what it means.
                if repeat == REPEATS - 1:
                    raise
        raise AssertionError("unreachable")

    async def read(self, action: Callable[[], Action[T]]) -> T:
        with translated():
            async with (
                self._pools[Lane.GENERAL].connection() as connection,
                self._transaction(connection, "ISOLATION LEVEL REPEATABLE READ READ ONLY"),
            ):
                return await self._drive(connection, action())

    async def fetch(self, name: str, params: Mapping[str, Any], lane: Lane = Lane.GENERAL) -> Rows:
        statement = self._statements[name]
        for repeat in range(REPEATS):
            try:
                with translated():
                    async with self._pools[lane].connection() as connection:
                        if walled_tenant() is not None:
                            async with self._transaction(connection):
                                return await connection.fetch(statement.text, *_arguments(statement, params))
                        return await connection.fetch(statement.text, *_arguments(statement, params))
            except _REPEATABLE:
                if repeat == REPEATS - 1:
                    raise
        raise AssertionError("unreachable")

    async def fetch_or_again(self, name: str, params: Mapping[str, Any], lane: Lane) -> Rows:
        """Send the plain text; on a unique violation (part of it was written before, and its answer lost) the tolerant one."""
        try:
            return await self.fetch(name, params, lane)
        except asyncpg.UniqueViolationError:
            return await self.fetch(f"{name}_again", params, lane)

    async def script(self, text: str) -> None:
        with translated():
            async with self._pools[Lane.GENERAL].connection() as connection, connection.transaction():
                await connection.execute(text)

    async def store_now(self) -> Instant:
        with translated():
            async with self._pools[Lane.GENERAL].connection() as connection:
                now: Instant = await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
                return now

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.close()

    def abandon(self) -> None:
        for pool in self._pools.values():
            pool.abandon()

    async def has_wall(self) -> bool:
        """Whether the server keeps tenants apart as well (migration 0008)."""
        with translated():
            async with self._pools[Lane.GENERAL].connection() as connection:
                return await self._is_walled(connection)

    async def _is_walled(self, connection: asyncpg.Connection[asyncpg.Record]) -> bool:
        if self._has_wall is None:
            self._has_wall = await _can_build_wall(connection)
        return self._has_wall

    @contextlib.asynccontextmanager
    async def _transaction(self, connection: asyncpg.Connection[asyncpg.Record], mode: str = "") -> AsyncIterator[None]:
        """A transaction, behind the tenant's wall when the task asks on behalf of one; beginning it costs one round trip either way."""
        tenant = walled_tenant()
        wall = ""
        if tenant is not None and await self._is_walled(connection):
            wall = f"SET LOCAL ROLE {WALLED}; SET LOCAL duly.tenant = '{tenant:d}'"
        await connection.execute(f"BEGIN {mode}; {wall}")
        try:
            yield
        except (asyncpg.PostgresError, DulyError):
            await connection.execute("ROLLBACK")
            raise
        await connection.execute("COMMIT")

    async def _drive(self, connection: asyncpg.Connection[asyncpg.Record], action: Action[T]) -> T:
        rows: Rows = ()
        try:
            wanted = next(action)
            while True:
                statement = self._statements[wanted.name]
                if isinstance(wanted, Call):
                    rows = await connection.fetch(statement.text, *_arguments(statement, wanted.params))
                else:
                    await connection.executemany(statement.text, [_arguments(statement, params) for params in wanted.params])
                    rows = ()
                wanted = action.send(rows)
        except StopIteration as end:
            result: T = end.value
            return result


async def _can_build_wall(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    """The role and its policies exist, and we may take it on; the right to make roles is not everybody's."""
    try:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL ROLE {WALLED}")
            walled: bool | None = await connection.fetchval(
                "SELECT relrowsecurity FROM pg_class WHERE oid = to_regclass('duly.executions')"
            )
            return bool(walled)
    except (asyncpg.UndefinedObjectError, asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError):
        return False


def _arguments(statement: Statement, params: Mapping[str, Any]) -> list[Any]:
    return [params[name] for name in statement.names]


def named(dsn: str, name: str) -> dict[str, str]:
    """What a connection is called on the server: as the store's URL says with `application_name`, else by what it is for."""
    given = dict(parse_qsl(urlsplit(dsn).query)).get("application_name")
    return {"application_name": given or name}


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Driver errors that mean "the server is away" leave as Unavailable."""
    try:
        yield
    except _AWAY as error:
        raise Unavailable(
            "DULY-E501", f"PostgreSQL does not answer: {_words(error)}", hint="Check DULY_STORE, and that the server runs."
        ) from error


def _words(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0]
    return text or type(error).__name__
