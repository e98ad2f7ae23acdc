"""Lines that say nothing any more are noticed within five seconds, whoever uses them; and those that merely take long are left alone."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from duly import config
from duly.adapters.remote.liveness import open_remote
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.postgres import watch
from duly.adapters.sql.postgres.lines import DEADLINE, Way
from duly.adapters.sql.transport_postgres import PostgresTransport
from duly.adapters.system.clock import SystemClock
from duly.compose import Service, bootstrap_key, open_node
from duly.domain.errors import Unavailable
from duly.ports.handlers import Registry
from duly.services.pgbouncer import PgBouncer
from duly.verify.proxy import Link
from tests.connections.conftest import through
from tests.services.postgres import Postgres

# The promise is five seconds, and the first test adds up what it is made of. The others ask that it is the watch which notices and
# not a statement's own deadline of half a minute: a machine with much else to do is slow, not wrong.
NOTICED = 15.0
# A second line that ends the session of the first.
LAG = 3.0


def test_noticing_takes_less_than_five_seconds_in_all() -> None:
    assert watch.SUSPICIOUS + watch.EVERY + watch.LOOK_TIMEOUT + watch.LAST_MOMENT < 5.0
    assert NOTICED < DEADLINE


async def test_who_waits_beside_a_suspicious_line_is_looked_at_with_it(linked: PostgresEngine) -> None:
    seen = linked._watch
    lines = [await linked.way.open("duly-test", {}) for _ in range(3)]
    for line, waits in zip(lines, (watch.SUSPICIOUS + 0.1, watch.BESIDE + 0.1, watch.BESIDE - 0.1), strict=True):
        line.asked = 100.0 - waits
        seen._lines.add(line)

    together = seen._suspects(100.0)
    seen._lines.remove(lines[0])
    without_it = seen._suspects(100.0)

    assert set(together) == set(lines[:2])
    assert without_it == {}
    seen._lines.clear()
    for line in lines:
        line.asked = None
        await line.close()


async def test_a_line_that_fell_silent_is_cut_and_others_go_on(linked: PostgresEngine, link: Link) -> None:
    await asyncio.gather(*(linked.store_now() for _ in range(6)))
    assert link.freeze() > 2

    began = time.monotonic()
    with pytest.raises(Unavailable) as refused:
        await linked.store_now()
    # What lay idle beside it was let go: nobody waits for each of them in turn.
    again = await linked.store_now()

    assert time.monotonic() - began < NOTICED
    assert refused.value.code == "DULY-E501"
    assert again > 0


async def test_what_a_silent_line_had_locked_is_free_again(linked: PostgresEngine, link: Link, shared_dsn: str) -> None:
    holding, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with linked._pools[next(iter(linked._pools))].connection() as line, linked._transaction(line):
            await line.execute("SELECT FROM shards WHERE shard = 1 FOR UPDATE")
            holding.set()
            await go_on.wait()
            await line.execute("SELECT 1")

    holder = asyncio.create_task(hold())
    await holding.wait()
    link.freeze()
    go_on.set()
    other = await Way(shared_dsn).open("other", {"search_path": "duly"})

    await other.execute("SELECT FROM shards WHERE shard = 1 FOR UPDATE", timeout=NOTICED + LAG)

    await other.close()
    assert isinstance((await asyncio.gather(holder, return_exceptions=True))[0], Exception)


async def test_a_server_that_answers_nobody_is_away(linked: PostgresEngine, link: Link) -> None:
    await linked.store_now()
    link.set(cut=["up", "down"])

    began = time.monotonic()
    with pytest.raises(Unavailable):
        await linked.store_now()

    assert time.monotonic() - began < NOTICED
    link.heal()
    assert await linked.store_now() > 0


async def test_a_statement_that_takes_long_is_waited_for(linked: PostgresEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.adapters.sql.postgres.watch.SUSPICIOUS", 0.2)
    monkeypatch.setattr("duly.adapters.sql.postgres.watch.TRUSTED_FOR", 0.2)

    async with linked._pools[next(iter(linked._pools))].connection() as line:
        assert await line.fetchval("SELECT 42 FROM pg_sleep(1.5)") == 42


async def test_whoever_waits_for_a_lock_is_waited_for(linked: PostgresEngine, shared_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.adapters.sql.postgres.watch.SUSPICIOUS", 0.2)
    other = await Way(shared_dsn).open("other", {"search_path": "duly"})
    await other.execute("BEGIN; LOCK TABLE duly_migrations IN ACCESS EXCLUSIVE MODE")
    waiting = asyncio.create_task(linked.fetch("migrations_applied", {}))

    await asyncio.wait([waiting], timeout=1.5)
    await other.execute("COMMIT")

    assert await waiting
    await other.close()


async def test_a_silent_line_to_a_pooler_is_cut_too(pgbouncer: PgBouncer, shared_dsn: str) -> None:
    link = Link("test/pooler", "127.0.0.1", pgbouncer.port)
    await link.listen()
    engine = PostgresEngine(f"postgresql://duly@127.0.0.1:{link.port}/{shared_dsn.rpartition('/')[2]}?pooler=transaction")
    await engine.store_now()
    assert link.freeze() == 1

    began = time.monotonic()
    with pytest.raises(Unavailable):
        await engine.fetch("migrations_applied", {})

    assert time.monotonic() - began < NOTICED
    assert await engine.fetch("migrations_applied", {})
    await engine.close()
    await link.close()


async def test_whoever_listens_notices_and_hears_again(link: Link, shared_dsn: str, postgres_server: Postgres) -> None:
    near, far = PostgresTransport(shared_dsn), PostgresTransport(through(link, shared_dsn, postgres_server))
    await far.wait_ready(0.01)
    async with asyncio.timeout(10):
        await far._connected.wait()
    before = far._connection
    link.freeze()

    began = time.monotonic()
    while far._connection is before:
        await asyncio.sleep(0.05)
    assert time.monotonic() - began < NOTICED
    async with asyncio.timeout(10):
        await far._connected.wait()
    await far.wait_ready(0.01)
    heard = asyncio.create_task(far.wait_ready(10.0))
    await asyncio.sleep(0)
    await near.announce([1])

    assert await heard
    await near.close()
    await far.close()


async def test_a_worker_over_http_asks_again_by_another_line(tmp_path: Path) -> None:
    node = await open_node(config.load({}, home=tmp_path, port=0))
    key = await bootstrap_key(node)
    stop, started = asyncio.Event(), asyncio.Event()
    service = Service(node, ("api",))
    serving = asyncio.create_task(service.run(stop, lambda _: started.set()))
    await started.wait()
    assert service.api is not None
    assert key is not None
    link = Link("test/api", "127.0.0.1", service.api.port)
    await link.listen()
    remote = open_remote(f"http://127.0.0.1:{link.port}", key, SystemClock(), Registry(), agent="test")
    await remote.probe()
    await remote.probe()
    # The second one came by the same connection.
    assert link.freeze() == 1

    began = time.monotonic()
    await remote.probe()

    assert time.monotonic() - began < NOTICED
    await remote.close()
    await link.close()
    stop.set()
    await serving
    await node.close()
