"""The real SQLite store, in memory, on a simulated machine behind a simulated network.

One connection serves a process for all its seeds: see `duly.testing.database`.

A call goes to the store, is executed there at one instant, and its answer comes back. In between, anything may be lost:
the request, the commit, the answer. A caller that hears nothing gets Unavailable at its deadline, and what it asked for may
still be done after that.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from duly.adapters.sql.engine import Action, Lane, Rows
from duly.adapters.sql.engine_sqlite import SqliteEngine, answer, bound, translate
from duly.adapters.sql.statements import Statement, statements
from duly.domain.errors import Unavailable
from duly.domain.instants import Instant
from duly.testing.clocks import StoreClock
from duly.testing.database import Database
from duly.testing.loop import Node, SimulatedLoop
from duly.verify.recording import install_sqlite

T = TypeVar("T")
TENANTS = {1: "default", 2: "acme", 3: "zoo"}


class Recorded(Database):
    """The migrated store of this process, with three tenants and recording triggers."""

    def __init__(self) -> None:
        super().__init__()
        self.now: Callable[[], Instant] = lambda: 0
        self.actor = ""
        for number, name in TENANTS.items():
            self.connection.execute("INSERT OR IGNORE INTO tenants (tenant, name) VALUES (?, ?)", (number, name))
        self.connection.create_function("sim_now", 0, lambda: self.now())
        self.connection.create_function("sim_actor", 0, lambda: self.actor)
        install_sqlite(self.connection, now="sim_now()", actor="sim_actor()")

        # Whether the call that is executed has a savepoint to go back to.
        self._has_savepoint = False

    def begin_at(self, now: Callable[[], Instant], shards: int) -> None:
        """A new store whose clock is this one."""
        self.now = now
        self.begin(shards)

    def perform(self, work: Callable[[], T], *, commits: bool = True) -> tuple[T | None, Exception | None]:
        """As `transact`. The savepoint comes with the first statement that writes: most calls find nothing to do, and undo nothing."""
        self._has_savepoint = False
        result: T | None = None
        error: Exception | None = None
        try:
            result = work()
        except sqlite3.Error as failed:
            error = translate(failed)
        except Exception as failed:
            error = failed
        if self._has_savepoint:
            if error is not None or not commits:
                self.connection.execute("ROLLBACK TO job")
            self.connection.execute("RELEASE job")
        return result, error

    def save(self) -> None:
        """Something is about to be written: from here on it can be undone."""
        if not self._has_savepoint:
            self.connection.execute("SAVEPOINT job")
            self._has_savepoint = True

    def executemany(self, text: str, rows: Iterable[Sequence[Any]]) -> None:
        """What `drive` asks of a connection for statements that run once for each row: they all write."""
        self.save()
        self.connection.executemany(text, rows)


@cache
def database() -> Recorded:
    """Migrating takes longer than a seed, so it is done once."""
    return Recorded()


@dataclass(slots=True)
class Wire:
    """How one node reaches the store at this moment. Chances are per call."""

    latency: float = 0.001
    drop: float = 0.0
    loses_requests: bool = False
    loses_replies: bool = False
    # Seconds that whatever is sent takes longer; it arrives all the same.
    clog: float = 0.0
    # The same for requests alone, and all by the same time: they arrive in their order, long after their senders gave up.
    stall: float = 0.0


@dataclass(slots=True)
class Server:
    """The machine that the store runs on."""

    loop: SimulatedLoop
    node: Node
    clock: StoreClock
    database: Recorded
    chance: random.Random
    is_up: bool = True
    disk: float = 0.0
    connections: int = 1000
    # Seconds until a caller gives up.
    deadline: float = 3.0
    in_flight: int = 0
    # Counts up with every restart: an answer from before it never arrives.
    life: int = 0
    met: Counter[str] = field(default_factory=Counter)

    def execute(self, actor: str, work: Callable[[], Any], *, commits: bool = True) -> tuple[Any, Exception | None]:
        """Run it now, in a transaction of its own; without `commits` it is undone, as in a crash before the commit."""
        self.database.actor = actor
        return self.database.perform(work, commits=commits)

    def crash(self) -> None:
        """Whatever is on its way is lost; what was committed stays."""
        self.is_up = False
        self.life += 1

    def restart(self) -> None:
        """It answers again."""
        self.is_up = True


class NodeEngine(SqliteEngine):
    """What a node has for an engine: the product's own, but for the way to the database."""

    def __init__(self, server: Server, node: Node, wire: Wire) -> None:
        self.path = ":memory:"
        self._statements = statements("sqlite")
        self._in_memory = True
        self._server = server
        self._database: Any = server.database
        self._node = node
        self.wire = wire
        # Told what the store answers to the next call, whether the answer arrives or not.
        self.overheard: Callable[[Any], None] | None = None

    async def run(self, action: Callable[[], Action[T]], lane: Lane = Lane.GENERAL) -> T:
        result: T = await self._call(lambda: self.drive(self._database, action()))
        return result

    read = run

    async def fetch(self, name: str, params: Mapping[str, Any], lane: Lane = Lane.GENERAL) -> Rows:
        statement = self._statements[name]
        rows: Rows = await self._call(lambda: self._execute(self._database, statement, params))
        return rows

    def _execute(self, database: Any, statement: Statement, params: Mapping[str, Any]) -> Rows:
        given = bound(statement.values(params))
        if statement.only_reads:
            rows: Rows = database.connection.execute(statement.text, given).fetchall()
            return rows
        database.save()
        return answer(database.connection.execute(statement.text, given))

    async def store_now(self) -> Instant:
        now: Instant = await self._call(self._server.clock.now)
        return now

    async def close(self) -> None:
        """The connection is not ours."""

    def abandon(self) -> None:
        """The connection is not ours."""

    async def _call(self, work: Callable[[], Any]) -> Any:
        server, wire = self._server, self.wire
        overheard, self.overheard = self.overheard, None
        loop, draw = server.loop, server.chance.random
        if loop.is_over:
            raise asyncio.CancelledError
        reply: asyncio.Future[Any] = loop.create_future()
        there = wire.latency * (0.25 + draw())
        if server.in_flight >= server.connections:
            server.met["refused for want of a connection"] += 1
            loop.add_timer(self._node, loop.now + there, _fail, (reply, "too many connections"))
            return await reply
        breaks = 0.0
        if wire.drop and (breaks := draw()) < wire.drop:
            # Before, during or after the commit; who waits learns of it when the connection breaks.
            breaks /= wire.drop
        else:
            breaks = 1.0
        if wire.clog:
            there += wire.clog * draw()
        there += wire.stall
        server.in_flight += 1
        call = _Asked(server, self._node, work, reply, wire, breaks, overheard)
        if wire.loses_requests or there + server.disk + wire.clog >= server.deadline:
            loop.add_timer(self._node, loop.now + server.deadline, _fail, (reply, "no answer in time"))
        if wire.loses_requests:
            server.met["request lost"] += 1
            loop.add_timer(server.node, loop.now + server.deadline, call.leave, ())
        else:
            loop.add_timer(server.node, loop.now + there, call.arrive, ())
        return await reply


class _Asked:
    """One call on its way."""

    __slots__ = ("breaks", "life", "node", "overheard", "reply", "server", "wire", "work")

    def __init__(
        self,
        server: Server,
        node: Node,
        work: Callable[[], Any],
        reply: asyncio.Future[Any],
        wire: Wire,
        breaks: float,
        overheard: Callable[[Any], None] | None,
    ) -> None:
        self.server = server
        self.node = node
        self.work = work
        self.reply = reply
        self.wire = wire
        self.breaks = breaks
        self.overheard = overheard
        self.life = server.life

    def leave(self) -> None:
        self.server.in_flight -= 1

    def arrive(self) -> None:
        server = self.server
        self.leave()
        if not server.is_up or self.life != server.life:
            self._fail("the store is away")
        elif self.breaks < 0.34:
            server.met["connection lost before the commit"] += 1
            self._fail("connection lost")
        elif self.breaks < 0.5:
            server.execute(self.node.name, self.work, commits=False)
            server.met["connection lost in the commit"] += 1
            self._fail("connection lost")
        else:
            result, error = server.execute(self.node.name, self.work)
            if self.overheard is not None and error is None:
                self.overheard(result)
            back = self.wire.latency * (0.25 + server.chance.random()) + server.disk * server.chance.random()
            if self.wire.clog:
                back += self.wire.clog * server.chance.random()
            if self.breaks < 1.0:
                server.met["commit unknown"] += 1
                self._fail("connection lost")
            elif self.wire.loses_replies:
                server.met["commit unknown"] += 1
                server.met["reply lost"] += 1
                server.loop.add_timer(self.node, server.loop.now + server.deadline, _fail, (self.reply, "no answer in time"))
            else:
                server.loop.add_timer(server.node, server.loop.now + back, self._answer, (result, error))

    def _answer(self, result: Any, error: Exception | None) -> None:
        if self.reply.done():
            self.server.met["answer after the deadline"] += 1
        elif self.life != self.server.life:
            self.server.met["commit unknown"] += 1
            _fail(self.reply, "the store went away")
        elif error is not None:
            self.reply.set_exception(error)
        else:
            self.reply.set_result(result)

    def _fail(self, why: str) -> None:
        back = self.wire.latency * (0.25 + self.server.chance.random())
        self.server.loop.add_timer(self.server.node, self.server.loop.now + back, _fail, (self.reply, why))


def _fail(reply: asyncio.Future[Any], why: str) -> None:
    if not reply.done():
        with suppress(asyncio.InvalidStateError):
            reply.set_exception(Unavailable("DULY-E501", f"The simulated store does not answer: {why}."))
