"""SQLite: one writer thread with group commit, and reader threads beside it (WAL).

The writer takes every action that waits, runs each in a savepoint, and commits them together:
n callers share one fsync, and each is answered after the commit that holds its work. Another
process on the same file is another writer; BEGIN IMMEDIATE and the busy timeout order them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from duly.adapters.sql.engine import Action, Call, Lane, Many, Rows
from duly.adapters.sql.statements import Statement, statements
from duly.domain.errors import Unavailable
from duly.domain.homes import on_its_way
from duly.domain.instants import Instant

T = TypeVar("T")

BUSY_TIMEOUT_MS = 10_000
LARGEST_GROUP = 256
READERS = 2
# Page caches: without a bound of their own they grow to the size of the history.
WRITER_CACHE_KIB = 32_768
READER_CACHE_KIB = 8_192
# A reader with an old snapshot keeps the write-ahead log from starting again, so it grows; afterwards it is cut to this many bytes.
LARGEST_LOG = 32 << 20

_SETTINGS = f"""
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA busy_timeout = {BUSY_TIMEOUT_MS};
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = {LARGEST_LOG};
PRAGMA temp_store = MEMORY;
PRAGMA foreign_keys = OFF;
"""


@dataclass(slots=True)
class _Work:
    """Work on a connection, and what came of it."""

    work: Callable[[sqlite3.Connection], Any]
    result: Any = None
    error: BaseException | None = None


@dataclass(slots=True, kw_only=True)
class _Job(_Work):
    """Work for a thread, and whom to tell."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


# What the guard of a tenant that leaves answers (sql/homes.sqlite.sql).
MOVING = "DULY-E405"


class SqliteEngine:
    """A SQLite file, or a database in memory (path `:memory:`), which has the writer's connection only."""

    name = "sqlite"
    # Whether its connections stay in the threads that opened them.
    _is_of_one_thread = True

    def __init__(self, path: str) -> None:
        self.path = path
        self._statements = statements("sqlite")
        self._in_memory = path == ":memory:"
        if not self._in_memory:
            _create_private(path)
        self._writes: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        started: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._write_loop, args=(started,), name="duly-sqlite-writer", daemon=True)]
        if not self._in_memory:
            self._threads += [threading.Thread(target=self._read_loop, name=f"duly-sqlite-reader-{n}", daemon=True) for n in range(READERS)]
        self._closed = False
        self._threads[0].start()
        failure = started.get()
        if failure is not None:
            raise Unavailable("DULY-E501", f"The SQLite file {path} cannot be opened: {failure}.") from failure
        for thread in self._threads[1:]:
            thread.start()

    async def run(self, action: Callable[[], Action[T]], lane: Lane = Lane.GENERAL) -> T:
        result: T = await self._submit(self._writes, lambda connection: self.drive(connection, action()))
        return result

    async def read(self, action: Callable[[], Action[T]], lane: Lane = Lane.GENERAL) -> T:
        where = self._writes if self._in_memory else self._reads
        result: T = await self._submit(where, lambda connection: self._in_one_snapshot(connection, action()))
        return result

    async def fetch(self, name: str, params: Mapping[str, Any], lane: Lane = Lane.GENERAL) -> Rows:
        statement = self._statements[name]
        where = self._reads if statement.only_reads and not self._in_memory else self._writes
        rows: Rows = await self._submit(where, lambda connection: self._execute(connection, statement, params))
        return rows

    async def script(self, text: str) -> None:
        def apply(connection: sqlite3.Connection) -> None:
            # executescript would commit the transaction that holds us, so the statements go one by one.
            for statement in _split(text):
                connection.execute(statement)

        await self._submit(self._writes, apply)

    async def store_now(self) -> Instant:
        return time.time_ns() // 1000

    async def has_wall(self) -> bool:
        return False

    async def close(self) -> None:
        if self._closed:
            return
        self.abandon()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def abandon(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._writes.put(None)
        for _ in range(READERS):
            self._reads.put(None)

    # ------------------------------------------------------------ on the caller's side

    async def _submit(self, where: queue.SimpleQueue[_Job | None], work: Callable[[sqlite3.Connection], Any]) -> Any:
        if self._closed:
            raise Unavailable("DULY-E502", "The store is closed.")
        loop = asyncio.get_running_loop()
        job = _Job(work, loop=loop, future=loop.create_future())
        where.put(job)
        return await job.future

    # ------------------------------------------------------------ on the threads

    def _connect(self, cache_kib: int = WRITER_CACHE_KIB) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            isolation_level=None,
            cached_statements=400,
            timeout=BUSY_TIMEOUT_MS / 1000,
            check_same_thread=self._is_of_one_thread,
        )
        connection.row_factory = sqlite3.Row
        connection.executescript(f"{_SETTINGS} PRAGMA cache_size = -{cache_kib};")
        return connection

    def _write_loop(self, started: queue.SimpleQueue[BaseException | None]) -> None:
        try:
            connection = self._connect()
        except sqlite3.Error as error:
            started.put(error)
            return
        started.put(None)
        with contextlib.closing(connection):
            while (first := self._writes.get()) is not None:
                group, ends = self._gather(first)
                self._commit_together(connection, group)
                _answer(group)
                if ends:
                    break
            # Last of all: only the last connection to close brings the log home, and of two at once neither is.
            for reader in self._threads[1:]:
                reader.join()

    def _gather(self, first: _Job) -> tuple[list[_Job], bool]:
        group = [first]
        while len(group) < LARGEST_GROUP:
            try:
                job = self._writes.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return group, True
            group.append(job)
        return group, False

    def _commit_together(self, connection: sqlite3.Connection, group: Sequence[_Work]) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in group:
                connection.execute("SAVEPOINT job")
                try:
                    job.result = job.work(connection)
                except sqlite3.OperationalError:
                    raise
                except BaseException as error:
                    job.error = on_its_way() if str(error) == MOVING else error
                    connection.execute("ROLLBACK TO job")
                connection.execute("RELEASE job")
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if len(group) > 1 and not _is_away(error):
                # One action's mistake must not fail its neighbours: nothing was committed, so each goes alone.
                for job in group:
                    job.error = job.result = None
                    self._commit_together(connection, [job])
                return
            for job in group:
                job.error = translate(error)

    def _read_loop(self) -> None:
        connection: sqlite3.Connection | None = None
        while (job := self._reads.get()) is not None:
            try:
                connection = connection or self._connect(READER_CACHE_KIB)
                job.result = job.work(connection)
            except sqlite3.Error as error:
                job.error = translate(error)
            except BaseException as error:
                job.error = error
            _answer([job])
        if connection is not None:
            connection.close()

    def _in_one_snapshot(self, connection: sqlite3.Connection, action: Action[T]) -> T:
        if connection.in_transaction:
            return self.drive(connection, action)
        connection.execute("BEGIN")
        try:
            return self.drive(connection, action)
        finally:
            connection.execute("ROLLBACK")

    def drive(self, connection: sqlite3.Connection, action: Action[T]) -> T:
        """Run an action on a connection, in whatever transaction is open there."""
        rows: Rows = ()
        try:
            wanted = next(action)
            while True:
                if isinstance(wanted, Call):
                    rows = self._execute(connection, self._statements[wanted.name], wanted.params)
                elif wanted.params:
                    statement = self._statements[wanted.name]
                    connection.executemany(statement.text, bound_rows(statement, wanted))
                    rows = ()
                else:
                    rows = ()
                wanted = action.send(rows)
        except StopIteration as end:
            result: T = end.value
            return result

    def _execute(self, connection: sqlite3.Connection, statement: Statement, params: Mapping[str, Any]) -> Rows:
        return answer(connection.execute(statement.text, bound(statement.values(params))))


class InlineSqliteEngine(SqliteEngine):
    """The same engine without threads: calls run on the loop, so a run of it is deterministic. For tests and simulation."""

    # Whoever calls it from several threads sees to it that they take turns.
    _is_of_one_thread = False

    def __init__(self, path: str = ":memory:") -> None:
        self.path = path
        self._statements = statements("sqlite")
        self._in_memory = True
        self._connection = self._connect()

    async def _submit(self, where: queue.SimpleQueue[_Job | None], work: Callable[[sqlite3.Connection], Any]) -> Any:
        job = _Work(work)
        self._commit_together(self._connection, [job])
        if job.error is not None:
            raise job.error
        return job.result

    _writes = _reads = queue.SimpleQueue()

    async def close(self) -> None:
        self._connection.close()

    def abandon(self) -> None:
        self._connection.close()


def _answer(group: list[_Job]) -> None:
    """Tell the callers, loop by loop: one wake-up for all of a loop's."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in group:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        # A loop that has ended has nobody left to tell.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, jobs)


def _resolve(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


# What the driver takes as it is.
PLAIN = frozenset({int, str, float, bool, bytes, type(None)})


def answer(cursor: sqlite3.Cursor) -> Rows:
    """The rows of a statement. Of one that has written something and returns nothing, one row with the number of the last row that it
    inserted, where that has one: a RETURNING, to know only that, would take as long again."""
    return cursor.fetchall() or (((cursor.lastrowid,),) if cursor.rowcount > 0 else ())


def bound(values: tuple[Any, ...]) -> Sequence[Any]:
    """Values as the driver takes them."""
    return values if PLAIN.issuperset(map(type, values)) else made_plain(values)


def made_plain(values: Sequence[Any]) -> list[Any]:
    """The same for values of which some are not plain."""
    # Most of what is not plain is an id; its `bytes` are a call more for each.
    return [each.int.to_bytes(16) if each.__class__ is UUID else each if each.__class__ in PLAIN else _plain(each) for each in values]


def bound_rows(statement: Statement, many: Many) -> Iterable[Sequence[Any]]:
    """The same for a statement that is run once for each."""
    rows = map(statement.values, many.params)
    return rows if many.is_bound else map(bound, rows)


def _plain(value: Any) -> Any:
    """A list of ids is one after another, 16 bytes each. Of a kind the number: the driver would look long for who adapts it."""
    if isinstance(value, UUID):
        # Of another driver's kind.
        return value.bytes
    if isinstance(value, int):
        return int(value)
    return b"".join([id.bytes for id in value]) if isinstance(value, list) else value


def _is_away(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_CORRUPT,
    )


def translate(error: sqlite3.Error) -> Exception:
    """An error that means "the store is away" as Unavailable; any other as it is."""
    if _is_away(error):
        away = Unavailable("DULY-E501", f"The SQLite store does not answer: {error}.")
        away.__cause__ = error
        return away
    return error


def _create_private(path: str) -> None:
    """The file holds payloads and key hashes: nobody else may read it."""
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise Unavailable(
            "DULY-E501", f"The SQLite file {path} cannot be opened: {error.strerror}.", hint="Check the path and its permissions."
        ) from error


def _split(text: str) -> list[str]:
    """The statements of a script; sqlite3 itself knows where each ends."""
    found: list[str] = []
    current = ""
    for line in text.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            if current.strip():
                found.append(current)
            current = ""
    # A last one without its semicolon is one as well.
    return [*found, current] if current.strip() else found
