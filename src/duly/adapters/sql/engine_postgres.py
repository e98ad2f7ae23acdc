"""PostgreSQL over asyncpg: a small pool per lane, planner settings pinned by lane, a deadline on every call.

How a line is opened, what a pooler changes and how a dead one is noticed: postgres/lines.py and postgres/watch.py.

Why lanes: a claim whose generic plan was cached while the tables were near empty took 595 ms at
100,000 ready rows. With the plan pinned to a walk along the key it takes 5 ms, whatever the
statistics say; the finish wants the opposite joins. `jit=off` everywhere: compiling costs more
than any of these statements. Reads by key keep their plans on the lines of everything else (decision 37).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeVar

import asyncpg

from duly.adapters.sql.engine import Action, Call, Lane, Rows
from duly.adapters.sql.postgres.lines import AWAY, Line, Way, translation
from duly.adapters.sql.postgres.watch import Watch
from duly.adapters.sql.statements import Statement, statements
from duly.domain.errors import DulyError
from duly.domain.homes import on_its_way
from duly.domain.instants import Instant
from duly.ports.wall import walled_tenant

T = TypeVar("T")

SCHEMA = "duly"
# The role behind the wall: see migration 0008.
WALLED = "duly_tenant"
ACQUIRE_TIMEOUT = 10.0
# A migration may rewrite a table; the watch says whether the server is still at it.
MIGRATION_DEADLINE = 3600.0
REPEATS = 5
# A process that stands still, or was cut off, in the middle of a transaction holds its locks for no longer. Others may stand still behind
# it with locks of their own, and their time begins when it ends.
LONGEST_PAUSE = "10s"

_WALKS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
_HASHES = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_nestloop": "off", "enable_mergejoin": "off"}
# Reads of any size, each along keys. Whatever reads a whole table to join it (hash, merge, a copy to walk along) is chosen when the
# planner misjudges how much is wanted, and it does: each partition may have one of everything.
_CUSTOM = {"plan_cache_mode": "force_custom_plan", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_material": "off"}
# … and where a key is all that is asked for, one plan is as good as the next. To plan a page's statements anew, partition by partition and
# with what the wall adds to each, takes several times as long as to run them. A line keeps plans; a pooler's does not.
_KEYED = "SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off"
# … and what is written in batches joins what it has written with what it was given: thousands with thousands.
_WRITES = "SET LOCAL enable_hashjoin = on"
# Nothing here is worth the time that it takes to start others who help.
_SESSION = {
    "search_path": SCHEMA,
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "timezone": "UTC",
    "idle_in_transaction_session_timeout": LONGEST_PAUSE,
}
_SETTINGS: dict[Lane, dict[str, str]] = {Lane.CLAIM: _WALKS, Lane.FINISH: _HASHES, Lane.GENERAL: _CUSTOM}

# What the guard of a tenant that leaves answers (migration 0014).
MOVING = "DU405"
_GOODBYES = (asyncpg.AdminShutdownError, asyncpg.CrashShutdownError, asyncpg.CannotConnectNowError, asyncpg.PostgresConnectionError)
_REPEATABLE = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)


class Pool:
    """At most `size` lines of one lane, opened when needed, reused last in first out, dropped when they break."""

    def __init__(self, way: Way, watch: Watch, lane: Lane, size: int) -> None:
        self._way = way
        self._watch = watch
        self._lane = lane
        self._room = asyncio.Semaphore(size)
        self._idle: list[Line] = []
        self._is_closed = False

    @contextlib.asynccontextmanager
    async def connection(self, text: str = "") -> AsyncIterator[Line]:
        """Borrow a line, if possible one that has been sent this text before: to parse and plan a large one anew takes longer than to run
        it. One that was interrupted in the middle of something does not come back."""
        async with self._placed():
            line = await self._open(text)
            self._watch.add(line)
            clean = False
            try:
                yield line
                clean = True
            except (asyncpg.ReadOnlySQLTransactionError, *_GOODBYES):
                # The primary of a moment ago is a standby now, and the next line goes to whoever takes writes; or the server has said
                # goodbye. It has said so to others as well, who may not have heard it yet.
                self._watch.distrust_idle()
                raise
            except (asyncpg.PostgresError, DulyError):
                # The server refused a statement, or an action changed its mind: the line itself is as good as before.
                clean = not line.is_closed() and not line.is_in_transaction()
                raise
            finally:
                self._watch.remove(line)
                if clean and not line.is_closed() and not self._is_closed:
                    self._idle.append(line)
                else:
                    line.terminate()

    @contextlib.asynccontextmanager
    async def _placed(self) -> AsyncIterator[None]:
        """A place among the lane's lines. Waiting is bounded: behind a server that accepts and says nothing,
        the thousandth caller would wait for minutes."""
        async with asyncio.timeout(ACQUIRE_TIMEOUT):
            await self._room.acquire()
        try:
            yield
        finally:
            self._room.release()

    async def _open(self, text: str) -> Line:
        self._idle = [line for line in self._idle if not line.is_closed()]
        if self._idle:
            known = (nth for nth in range(len(self._idle) - 1, -1, -1) if text in self._idle[nth].texts)
            line = self._idle.pop(next(known, -1))
            line.texts.add(text)
            return line
        line = await self._way.open(f"duly-{self._lane.value}", _SESSION | _SETTINGS[self._lane])
        line.texts.add(text)
        return line

    async def close(self) -> None:
        """Close what is idle; what is borrowed is cut when it comes back."""
        self._is_closed = True
        idle, self._idle = self._idle, []
        for line in idle:
            with contextlib.suppress(*AWAY):
                await line.close(timeout=2.0)

    def abandon(self) -> None:
        """The same without waiting, also when the event loop has ended."""
        self._is_closed = True
        self.drop_idle()

    def drop_idle(self) -> None:
        """Let go of what is idle; whoever comes next opens a line anew."""
        idle, self._idle = self._idle, []
        for line in idle:
            # It says goodbye to the server, and then that the loop which would close its socket has ended; the socket goes with it.
            with contextlib.suppress(RuntimeError):
                line.terminate()


class PostgresEngine:
    """A PostgreSQL database."""

    name = "postgres"

    def __init__(self, dsn: str, *, general: int = 8) -> None:
        self.dsn = dsn
        self.way = Way(dsn)
        self._watch = Watch(self.way, self._drop_idle)
        self._statements = statements("postgres")
        # Known once somebody has asked.
        self._has_wall: bool | None = None
        shared = Pool(self.way, self._watch, Lane.GENERAL, general)
        self._pools = {
            Lane.GENERAL: shared,
            Lane.KEYED: shared,
            Lane.CLAIM: Pool(self.way, self._watch, Lane.CLAIM, 4),
            Lane.FINISH: Pool(self.way, self._watch, Lane.FINISH, 4),
        }

    async def run(self, action: Callable[[], Action[T]], lane: Lane = Lane.GENERAL) -> T:
        for repeat in range(REPEATS):
            try:
                with translated():
                    async with self._pools[lane].connection() as connection, self._transaction(connection, settings=_WRITES):
                        return await self._drive(connection, action())
            except (*_REPEATABLE, asyncpg.UniqueViolationError):
                # Two transactions met in an unlucky order and the server undid ours entirely: again, from the top. A key that
                # somebody took between our look and our write is there at the second look, so the action itself says what it means.
                if repeat == REPEATS - 1:
                    raise
        raise AssertionError("unreachable")

    async def read(self, action: Callable[[], Action[T]], lane: Lane = Lane.GENERAL) -> T:
        with translated():
            async with (
                self._pools[lane].connection() as connection,
                self._transaction(connection, "ISOLATION LEVEL REPEATABLE READ READ ONLY", _planning(lane, connection)),
            ):
                return await self._drive(connection, action())

    async def fetch(self, name: str, params: Mapping[str, Any], lane: Lane = Lane.GENERAL) -> Rows:
        statement = self._statements[name]
        for repeat in range(REPEATS):
            try:
                with translated():
                    async with self._pools[lane].connection(statement.text) as connection:
                        if connection.local or walled_tenant() is not None:
                            async with self._transaction(connection, settings=_planning(lane, connection)):
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
            async with self._pools[Lane.GENERAL].connection() as connection, self._transaction(connection):
                await connection.execute(text, timeout=MIGRATION_DEADLINE)

    async def store_now(self) -> Instant:
        with translated():
            async with self._pools[Lane.GENERAL].connection() as connection:
                now: Instant = await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
                return now

    async def close(self) -> None:
        self._watch.close()
        for pool in self._pools.values():
            await pool.close()

    def abandon(self) -> None:
        for pool in self._pools.values():
            pool.abandon()

    def _drop_idle(self) -> None:
        """One line was dead: whatever lay idle beside it is not to be trusted either."""
        for pool in self._pools.values():
            pool.drop_idle()

    async def has_wall(self) -> bool:
        """Whether the server keeps tenants apart as well (migration 0008)."""
        with translated():
            async with self._pools[Lane.GENERAL].connection() as connection:
                return await self._is_walled(connection)

    async def _is_walled(self, connection: Line) -> bool:
        if self._has_wall is None:
            self._has_wall = await _can_build_wall(connection)
        return self._has_wall

    @contextlib.asynccontextmanager
    async def _transaction(self, connection: Line, mode: str = "", settings: str = "") -> AsyncIterator[None]:
        """A transaction, behind the tenant's wall when the task asks on behalf of one; beginning it costs one round trip either way."""
        tenant = walled_tenant()
        wall = ""
        if tenant is not None and await self._is_walled(connection):
            wall = f"SET LOCAL ROLE {WALLED}; SET LOCAL duly.tenant = '{tenant:d}'"
        await connection.execute(f"BEGIN {mode}; {connection.local} {settings}; {wall}")
        try:
            yield
        except (asyncpg.PostgresError, DulyError):
            await connection.execute("ROLLBACK")
            raise
        await connection.execute("COMMIT")

    async def _drive(self, connection: Line, action: Action[T]) -> T:
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


def _planning(lane: Lane, line: Line) -> str:
    """What a transaction sets for its lane beside what the line has set."""
    return _KEYED if lane is Lane.KEYED and not line.local else ""


async def _can_build_wall(connection: Line) -> bool:
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


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Driver errors that mean "the server is away" leave as Unavailable."""
    try:
        yield
    except AWAY as error:
        raise translation(error) from error
    except asyncpg.PostgresError as error:
        if error.sqlstate == MOVING:
            raise on_its_way() from error
        raise
