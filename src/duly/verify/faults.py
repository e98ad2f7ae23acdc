"""What can be broken, one function per kind. Each breaks something, waits, mends it, and has it noted from when to when.

`seconds` is the unit of everything that lasts: the lease of a worker. Who is hit is drawn from `chance`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from duly.verify.fleet import Node, descendants
from duly.verify.history import SECOND
from duly.verify.stage import SLOWEST, STORE, Stage
from duly.verify.stores import PostgresStore, SqliteStore, StoreUnderTest, admin_url

NEEDS_POSTGRES, NEEDS_SQLITE = "needs PostgreSQL", "needs SQLite"

# Of the nodes, and of nobody else who may use this server.
_SESSIONS = """SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name ~ '^(api|scheduler|worker)-' ORDER BY pid"""

Break = Callable[[Stage, random.Random, float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault: its weight among the others, how to do it, what it needs, and what it does in words.

    `needs` says why a store cannot have it; None when it can."""

    name: str
    weight: float
    breaks: Break
    says: str
    needs: Callable[[StoreUnderTest], str | None] = lambda _: None


# ---------------------------------------------------------------- processes


async def kill(stage: Stage, chance: random.Random, seconds: float) -> None:
    """SIGKILL. Of a worker of several processes: one of them, or all."""
    node = _any(stage, chance)
    starts = node.starts
    async with stage.broken("kill", [node.name]):
        children = descendants(node.process.pid) if node.process is not None else []
        if node.kind == "worker" and children and chance.random() < 0.3:
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(children), signal.SIGKILL)
            await stage.hold(1)
            return
        node.kill()
        await stage.fleet.until_up(node, starts)


async def kill_api(stage: Stage, chance: random.Random, seconds: float) -> None:
    """SIGKILL an API node, in the middle of requests."""
    node = chance.choice(stage.fleet.of("api"))
    starts = node.starts
    async with stage.broken("kill-api", [node.name]):
        node.kill()
        await stage.fleet.until_up(node, starts)


async def pause(stage: Stage, chance: random.Random, seconds: float) -> None:
    """SIGSTOP a node, then SIGCONT: it does not know that time has passed. Mostly all its processes, else the first alone."""
    node = _any(stage, chance)
    # A dispatcher's lease is longer than a worker's.
    lease = stage.timing.leader_ttl / SECOND if node.kind == "scheduler" else seconds
    length = lease * chance.uniform(0.2, 3 if node.kind != "scheduler" else 2)
    whole = chance.random() < 0.7
    async with stage.broken("pause", [node.name], seconds=round(length, 3), outlastsLease=length > lease, whole=whole):
        node.signal(signal.SIGSTOP, whole=whole)
        try:
            await stage.hold(length)
        finally:
            node.signal(signal.SIGCONT)


async def drain(stage: Stage, chance: random.Random, seconds: float) -> None:
    """SIGTERM: it may end what it runs and gives the rest back."""
    node = _any(stage, chance)
    starts = node.starts
    async with stage.broken("drain", [node.name]):
        node.signal(signal.SIGTERM, whole=False)
        await stage.fleet.until_up(node, starts)


async def turn_clock(stage: Stage, chance: random.Random, seconds: float) -> None:
    """The wall clock of a node jumps, by a second or by two hours, and back."""
    node = _any(stage, chance)
    step = chance.choice((-1, 1)) * chance.choice((1, 30, 600, 7200)) * chance.uniform(0.5, 1)
    async with stage.broken("clock", [node.name], harmless=True, step=round(step, 3)):
        file = node.directory / "clock"
        file.write_text(str(step), encoding="ascii")
        try:
            await stage.hold(seconds * chance.uniform(1, 4))
        finally:
            file.unlink(missing_ok=True)


# ---------------------------------------------------------------- links


async def cut(stage: Stage, chance: random.Random, seconds: float) -> None:
    """Nothing passes between a node and what it talks to: both ways, or one."""
    name = _any_link(stage, chance)
    ways = chance.choice((["up", "down"], ["up", "down"], ["up"], ["down"]))
    async with stage.broken("cut", [name.split("/")[0]], link=name, ways=ways), _mended(stage, name):
        await stage.links.set(name, cut=ways)
        await stage.hold(seconds * chance.uniform(0.3, 3))


async def freeze(stage: Stage, chance: random.Random, seconds: float) -> None:
    """The open connections of a node fall silent and are never closed: half-open. New ones work."""
    name = _any_link(stage, chance)
    async with stage.broken("freeze", [name.split("/")[0]], link=name) as fault:
        fault.about["connections"] = await stage.links.freeze(name)
        await stage.hold(seconds * chance.uniform(1, 4))
        # A real network would have forgotten them after a while, too.
        await stage.links.reset(name)


async def reset(stage: Stage, chance: random.Random, seconds: float) -> None:
    """The open connections of a node are reset."""
    name = _any_link(stage, chance)
    async with stage.broken("reset", [name.split("/")[0]], link=name) as fault:
        fault.about["connections"] = await stage.links.reset(name)


async def slow_link(stage: Stage, chance: random.Random, seconds: float) -> None:
    """Everything comes late, connections end late, or end after some bytes."""
    name = _any_link(stage, chance)
    toxics: dict[str, Any] = chance.choice(
        (
            {"latency": chance.uniform(0.05, SLOWEST)},
            {"latency": chance.uniform(0.02, SLOWEST / 2), "slow_close": 1.0},
            {"limit_data": chance.randrange(500, 20_000)},
        )
    )
    async with stage.broken("latency", [name.split("/")[0]], link=name, **toxics), _mended(stage, name):
        await stage.links.set(name, **toxics)
        await stage.hold(seconds * chance.uniform(0.5, 3))


# ---------------------------------------------------------------- PostgreSQL


async def crash_store(stage: Stage, chance: random.Random, seconds: float) -> None:
    """`pg_ctl stop -m immediate`, and a start that recovers."""
    store = stage.store
    assert isinstance(store, PostgresStore)
    async with stage.store_turn, stage.broken("store-crash", ["store"]):
        await store.on_thread(store.duo.crash)
        await stage.hold(chance.uniform(0, seconds))
        await store.on_thread(store.duo.start_again)


async def fail_over(stage: Stage, chance: random.Random, seconds: float) -> None:
    """The primary is lost, the standby is promoted, and a new standby is made."""
    store = stage.store
    assert isinstance(store, PostgresStore)
    async with stage.store_turn:
        async with stage.broken("failover", ["store"]):
            await store.on_thread(store.duo.fail_over)
            await stage.links.point(STORE, store.address)
        await store.on_thread(store.duo.follow)


async def terminate(stage: Stage, chance: random.Random, seconds: float) -> None:
    """`pg_terminate_backend` of some sessions of the nodes."""
    async with stage.broken("terminate", ["store"]) as fault, _admin(stage) as connection:
        pids = [row["pid"] for row in await connection.fetch(_SESSIONS)]
        hit = chance.sample(pids, min(len(pids), chance.randrange(1, 6)))
        for pid in hit:
            await connection.fetchval("SELECT pg_terminate_backend($1)", pid)
        fault.about["sessions"] = len(hit)


async def hold_snapshot(stage: Stage, chance: random.Random, seconds: float) -> None:
    """A transaction that stays open, so that nothing it might still see can be cleaned up."""
    async with stage.broken("snapshot", ["store"], harmless=True), _admin(stage) as connection:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await connection.fetchval("SELECT count(*) FROM duly.jobs")
        await stage.hold(seconds * chance.uniform(3, 10))


async def fill_connections(stage: Stage, chance: random.Random, seconds: float) -> None:
    """All connections that the server has are taken."""
    async with stage.store_turn, stage.broken("connections", ["store"]) as fault, contextlib.AsyncExitStack() as stack:
        opened = 0
        with contextlib.suppress(Exception):
            for _ in range(200):
                await stack.enter_async_context(_admin(stage))
                opened += 1
        fault.about["connections"] = opened
        # With all of them taken, nobody can even renew; and who has a connection goes on.
        await stage.hold(seconds * chance.uniform(0.3, 1.5))


# ---------------------------------------------------------------- SQLite


async def hog_lock(stage: Stage, chance: random.Random, seconds: float) -> None:
    """Another process holds the write lock of the file."""
    store = stage.store
    assert isinstance(store, SqliteStore)
    length = seconds * chance.uniform(0.3, 2)

    async with stage.broken("lock", ["store"], seconds=round(length, 3)):
        with contextlib.closing(sqlite3.connect(store.path, timeout=20, isolation_level=None, check_same_thread=False)) as connection:
            await asyncio.to_thread(connection.execute, "BEGIN IMMEDIATE")
            await stage.hold(length)
            connection.execute("ROLLBACK")


async def hold_reader(stage: Stage, chance: random.Random, seconds: float) -> None:
    """A reader that stays, so that the journal cannot be taken back into the file."""
    store = stage.store
    assert isinstance(store, SqliteStore)
    async with stage.broken("reader", ["store"], harmless=True):
        with contextlib.closing(sqlite3.connect(store.path, timeout=20, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM jobs").fetchone()
            await stage.hold(seconds * chance.uniform(2, 8))
            connection.execute("ROLLBACK")


async def fill_disk(stage: Stage, chance: random.Random, seconds: float) -> None:
    """The disk of the store is full."""
    store = stage.store
    assert isinstance(store, SqliteStore)
    filler = store.directory / "filler"
    async with stage.store_turn, stage.broken("disk-full", ["store"]) as fault:
        try:
            fault.about["bytes"] = await asyncio.to_thread(_fill, str(filler))
            await stage.hold(seconds * chance.uniform(0.3, 1.5))
        finally:
            filler.unlink(missing_ok=True)


def _fill(path: str) -> int:
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    written, piece = 0, 1 << 20
    try:
        while piece >= 512:
            try:
                written += os.write(descriptor, b"\0" * piece)
            except OSError:
                piece //= 2
    finally:
        os.close(descriptor)
    return written


# ---------------------------------------------------------------- load


async def flood(stage: Stage, chance: random.Random, seconds: float) -> None:
    """Hundreds of runs at once."""
    async with stage.broken("flood", []) as fault:
        fault.about["runs"] = await stage.workload.flood()


# ---------------------------------------------------------------- insides


def _any(stage: Stage, chance: random.Random) -> Node:
    """Workers most often: there are more of them, and they have the most to lose."""
    return chance.choice(list(stage.fleet.nodes.values()))


def _any_link(stage: Stage, chance: random.Random) -> str:
    """A link of a node; a client's now and then."""
    clients = [name for name in stage.links.names if name.startswith("client-")]
    others = [name for name in stage.links.names if not name.startswith("client-")]
    return chance.choice(clients if not others or chance.random() < 0.15 else others)


@contextlib.asynccontextmanager
async def _mended(stage: Stage, link: str) -> Any:
    try:
        yield
    finally:
        await stage.links.heal(link)


@contextlib.asynccontextmanager
async def _admin(stage: Stage) -> Any:
    import asyncpg

    url = admin_url(stage.store)
    connection = await asyncpg.connect(url, timeout=5, command_timeout=30)
    try:
        yield connection
    finally:
        connection.terminate()


def _on_postgres(store: StoreUnderTest) -> str | None:
    return NEEDS_POSTGRES if admin_url(store) is None else None


def _on_own_server(store: StoreUnderTest) -> str | None:
    return _on_postgres(store) or (None if isinstance(store, PostgresStore) else "needs a server that the test may stop")


def _on_sqlite(store: StoreUnderTest) -> str | None:
    return None if isinstance(store, SqliteStore) else NEEDS_SQLITE


def _on_own_disk(store: StoreUnderTest) -> str | None:
    if not isinstance(store, SqliteStore):
        return NEEDS_SQLITE
    return None if store.has_own_disk else "needs a small disk of its own: the right to mount one (root)"


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("kill", 26, kill, "a process ends without warning (SIGKILL) and is started again a second later"),
        Kind("kill-api", 4, kill_api, "an API node ends without warning, in the middle of requests"),
        Kind("pause", 20, pause, "a process is stopped for 0.2 to 3 leases (SIGSTOP) and goes on as if nothing had happened"),
        Kind("drain", 5, drain, "a process is told to end in order (SIGTERM)"),
        Kind("clock", 5, turn_clock, "a node's wall clock jumps by up to two hours, and back", _on_postgres),
        Kind("cut", 13, cut, "nothing passes between a node and what it talks to, one way or both"),
        Kind("freeze", 5, freeze, "a node's connections fall silent without ending (half-open)"),
        Kind("reset", 5, reset, "a node's connections are reset"),
        Kind("latency", 5, slow_link, "a node's connection is slow, ends late, or ends after some bytes"),
        Kind("store-crash", 4.5, crash_store, "PostgreSQL ends as in a crash (pg_ctl stop -m immediate) and recovers", _on_own_server),
        Kind("failover", 1.5, fail_over, "the primary is lost and its standby promoted", _on_own_server),
        Kind("terminate", 4, terminate, "sessions are ended by the server (pg_terminate_backend)", _on_postgres),
        Kind("snapshot", 2, hold_snapshot, "a transaction stays open for a long time", _on_postgres),
        Kind("connections", 2, fill_connections, "every connection that the server has is taken", _on_own_server),
        Kind("lock", 5, hog_lock, "another process holds the write lock of the file", _on_sqlite),
        Kind("reader", 2, hold_reader, "another process reads the file and does not end", _on_sqlite),
        Kind("disk-full", 2.5, fill_disk, "the disk of the store is full", _on_own_disk),
        Kind("flood", 2, flood, "hundreds of runs are asked for at once"),
    )
}
