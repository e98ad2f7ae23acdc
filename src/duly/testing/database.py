"""The real SQLite store in memory, migrated once and used again and again.

Whoever uses it works inside one transaction that is rolled back in the end, so that the next one finds the migrated, empty store, and every
prepared statement is still prepared. Nothing is ever written to a disk. Nor does every action have a savepoint of its own, for which SQLite
would keep a copy of each page that it touches, only to throw it away: an action that fails is undone by going back to a mark, and doing
again what has been written since that and stays.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from duly.adapters.sql.engine import Action, Call, Lane, Rows
from duly.adapters.sql.engine_sqlite import PLAIN, InlineSqliteEngine, SqliteEngine, answer, bound, bound_rows, made_plain, translate
from duly.adapters.sql.migrate import upgrade
from duly.adapters.sql.statements import statements
from duly.domain.ids import new_id
from duly.domain.instants import Instant
from duly.domain.shards import shard_of
from duly.ports.clock import Clock, Entropy

# What is asked again and again: the answer is kept until a statement writes to one of these tables.
KEPT = {
    "routes": {"routes"},
    "awaited_jobs": {"awaited", "jobs"},
    "next_fire": {"schedules"},
    "next_instant": {"timers", "gates", "awaited", "flow_waits"},
    "anything_waits": {"blocked", "flows"},
    "anything_runs": {"leases"},
    "due_timers": {"timers"},
    "gates_to_look_at": {"gates"},
    "has_slots": {"slots"},
    "next_waiter": {"waits"},
}
# Of these only that there is nothing, whatever they ask for: while the table that they look into is empty, which that statement tells.
IN_VAIN = {
    "due_timers": "anything_timed",
    "gates_to_look_at": "anything_gated",
    "has_slots": "anything_limited",
    "next_waiter": "anything_queued",
}
_FILLS, _EMPTIES = re.compile(r"insert into\s+ready\b"), re.compile(r"delete from\s+ready\b")
_WRITTEN = re.compile(r"(?:insert into|update|delete from)\s+(\w+)", re.IGNORECASE)

# After so many statements that write the mark is set anew.
MOST_SINCE_MARK = 1_000

# A statement: where its parameters are, whether it only reads, whether it answers rows, whether each row that it writes is one more (1) or
# one less (-1) in `ready`, and which kept answers it outdates. A tuple, as it is taken apart for every call.
_Text = tuple[str, Callable[[Mapping[str, Any]], tuple[Any, ...]], bool, bool, int, tuple[str, ...]]

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
        self._texts = _texts
        self._cursor = database.connection.cursor()
        # What was written since the mark: each text with its values, or with those of every row.
        self._since_mark: list[tuple[str, Sequence[Any], bool]] = []
        database.connection.execute("SAVEPOINT mark")
        # What the statements in KEPT have answered; always the same dictionary.
        self.kept: dict[str, Rows] = {}
        # How many rows `ready` has, as far as that is known: it is asked for after everything that happens.
        self._ready: int | None = None
        self._in_memory = True
        self._now = now
        # Whoever is tested may enqueue from a thread of its own.
        self._turn = threading.RLock()

    _writes = _reads = None  # type: ignore[assignment]

    async def run(self, action: Callable[[], Action[T]], lane: Lane = Lane.GENERAL) -> T:
        if self.pause is not None:
            await self.pause()
        with self._turn:
            before = len(self._since_mark)
            try:
                return self.drive(self.database.connection, action())
            except BaseException as error:
                if len(self._since_mark) > before:
                    self._undo(before)
                    self.writes += 1
                if isinstance(error, sqlite3.Error):
                    raise translate(error) from error
                raise
            finally:
                if len(self._since_mark) > before:
                    self.writes += 1
                    if len(self._since_mark) > MOST_SINCE_MARK:
                        self._mark()

    def _undo(self, stays: int) -> None:
        """Forget what was written since the mark, but for so many statements. They come to the same again: nobody was there in between."""
        connection = self.database.connection
        connection.execute("ROLLBACK TO mark")
        del self._since_mark[stays:]
        self.kept.clear()
        self._ready = None
        for text, values, are_many in self._since_mark:
            if are_many:
                connection.executemany(text, values)
            else:
                connection.execute(text, values).fetchall()

    def _mark(self) -> None:
        self.database.connection.execute("RELEASE mark")
        self.database.connection.execute("SAVEPOINT mark")
        self._since_mark.clear()

    def drive(self, connection: sqlite3.Connection, action: Action[T]) -> T:
        """As everywhere; what writes is noted before it is done, since it may fail halfway."""
        rows: Rows = ()
        texts, kept, send, note, is_plain = self._texts, self.kept, action.send, self._since_mark.append, PLAIN.issuperset
        # Always the same cursor: nobody else reads from it meanwhile.
        execute = self._cursor.execute
        try:
            wanted = next(action)
            while True:
                # No call that could be spared: this is a fifth of what a run of a job costs.
                if isinstance(wanted, Call):
                    name = wanted.name
                    text, values, only_reads, returns, fills, outdates = texts[name]
                    if only_reads and (known := kept.get(name)) is not None:
                        wanted = send(known)
                        continue
                    given: Sequence[Any] = values(wanted.params)
                    if not is_plain(map(type, given)):
                        given = made_plain(given)
                    if only_reads:
                        rows = execute(text, given).fetchall()
                        if not rows and name in IN_VAIN:
                            self._note_in_vain(name)
                    else:
                        for outdated in outdates:
                            kept.pop(outdated, None)
                        note((text, given, False))
                        cursor = execute(text, given)
                        rows = answer(cursor) if returns else ((cursor.lastrowid,),) if cursor.rowcount > 0 else ()
                        if fills and self._ready is not None:
                            self._ready += fills * (len(rows) if returns else cursor.rowcount)
                else:
                    if wanted.params:
                        *_, fills, outdates = texts[wanted.name]
                        self._forget(outdates)
                        statement = self._statements[wanted.name]
                        note((statement.text, given := list(bound_rows(statement, wanted)), True))
                        cursor = connection.executemany(statement.text, given)
                        if fills and self._ready is not None:
                            self._ready += fills * cursor.rowcount
                    rows = ()
                wanted = send(rows)
        except StopIteration as end:
            result: T = end.value
            return result

    @property
    def has_no_timer(self) -> bool:
        """Whether it is known that there is no timer, and no gate that is to be looked at. Nobody knows while the store is disturbed."""
        return self.pause is None and "due_timers" in self.kept and "gates_to_look_at" in self.kept

    def _note_in_vain(self, name: str) -> None:
        [(found,)] = self._execute(self.database.connection, self._statements[IN_VAIN[name]], {})
        if not found:
            self.kept[name] = ()

    async def read(self, action: Callable[[], Action[T]], lane: Lane = Lane.GENERAL) -> T:
        if self.pause is not None:
            await self.pause()
        with self._turn:
            return self.drive(self.database.connection, action())

    async def fetch(self, name: str, params: Mapping[str, Any], lane: Lane = Lane.GENERAL) -> Rows:
        if self.pause is not None:
            await self.pause()
        if (kept := self.kept.get(name)) is not None:
            return kept
        with self._turn:
            text, values, only_reads, _, fills, outdates = self._texts[name]
            self.writes += not only_reads
            self._forget(outdates)
            if fills:
                self._ready = None
            try:
                # One statement is all or nothing by itself.
                rows = self._asked(name, params)
            except sqlite3.Error as error:
                raise translate(error) from error
            if not only_reads:
                self._since_mark.append((text, bound(values(params)), False))
            return rows

    def _asked(self, name: str, params: Mapping[str, Any]) -> Rows:
        text, values, only_reads, *_ = self._texts[name]
        cursor = self.database.connection.execute(text, bound(values(params)))
        rows = cursor.fetchall() if only_reads else answer(cursor)
        if name in KEPT and name not in IN_VAIN:
            self.kept[name] = rows
        return rows

    def _forget(self, outdated: Sequence[str]) -> None:
        for name in outdated:
            self.kept.pop(name, None)

    def look(self, name: str, params: Mapping[str, Any]) -> Rows:
        """The rows of a statement that only reads, at once and past every fault: for whoever stands outside."""
        if (kept := self.kept.get(name)) is not None:
            return kept
        with self._turn:
            return self._asked(name, params)

    def has_ready(self) -> bool:
        """Whether anything is ready, as `look` would tell."""
        if self._ready is None:
            self._ready = self.look("how_many_ready", {})[0][0]
        return self._ready > 0

    async def _submit(self, where: Any, work: Work[Any]) -> Any:
        if self.pause is not None:
            await self.pause()
        with self._turn:
            self.writes += 1
            self.kept.clear()
            self._ready = None
            result, error = self.database.transact(work)
            self._mark()
        if error is not None:
            raise error
        return result

    async def store_now(self) -> Instant:
        return self._now()

    async def close(self) -> None:
        """The connection is not ours."""

    def abandon(self) -> None:
        """The connection is not ours."""


class _Texts(dict[str, _Text]):
    """Statements by name, each looked through when it is first asked for."""

    def __missing__(self, name: str) -> _Text:
        statement = statements("sqlite")[name]
        written = set() if statement.only_reads else set(_WRITTEN.findall(statement.text))
        outdates = tuple(kept for kept, tables in KEPT.items() if written & tables)
        text = statement.text.lower()
        fills = 1 if _FILLS.search(text) else -1 if _EMPTIES.search(text) else 0
        self[name] = found = statement.text, statement.values, statement.only_reads, "returning" in text, fills, outdates
        return found


_texts = _Texts()


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
