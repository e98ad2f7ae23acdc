"""Several hosts in one URL: whoever takes writes is found, and a failover needs no change of the settings."""

from __future__ import annotations

import asyncio

import pytest

from duly.adapters.sql.engine import Lane
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.migrate import upgrade
from duly.adapters.sql.transport_postgres import PostgresTransport
from duly.domain.errors import Unavailable
from duly.services.service import free_port
from duly.verify.proxy import Link
from tests.services.postgres import Postgres


async def test_a_failover_is_survived_without_a_change_of_the_settings(postgres_server: Postgres) -> None:
    with Postgres() as primary, Postgres(follows=primary) as standby:
        primary.create_database("duly")
        # The standby stands first: it must be passed over for as long as it is one.
        url = f"postgresql://duly@127.0.0.1:{standby.port},127.0.0.1:{primary.port}/duly?target_session_attrs=read-write"
        engine, transport = PostgresEngine(url), PostgresTransport(url)
        await upgrade(engine)
        await transport.wait_ready(0.01)
        await until_followed(primary)

        primary.stop("immediate")
        standby.promote()

        await until_answered(engine)
        assert await engine.fetch("migrations_applied", {})
        await engine.script("CREATE TABLE written_after (nothing int)")
        async with asyncio.timeout(15):
            while transport._connection is None or transport._connection.is_closed():
                await asyncio.sleep(0.05)
        await transport.close()
        await engine.close()


async def until_followed(primary: Postgres) -> None:
    """Until the standby has all that there is."""
    async with asyncio.timeout(30):
        while primary.execute("SELECT bool_and(replay_lsn = pg_current_wal_lsn()) FROM pg_stat_replication") != "t":
            await asyncio.sleep(0.05)


async def until_answered(engine: PostgresEngine) -> None:
    """As a role does: ask until it is answered."""
    async with asyncio.timeout(20):
        while True:
            try:
                await engine.store_now()
            except Unavailable:
                await asyncio.sleep(0.1)
            else:
                return


async def test_a_host_that_swallows_everything_does_not_take_the_time_of_the_next(postgres_server: Postgres) -> None:
    swallowing = Link("test/store", "127.0.0.1", postgres_server.port)
    await swallowing.listen()
    swallowing.set(cut=["up", "down"])
    engine = PostgresEngine(f"postgresql://duly@127.0.0.1:{swallowing.port},127.0.0.1:{postgres_server.port}/postgres")

    assert await engine.store_now() > 0
    await asyncio.gather(*(engine.store_now() for _ in range(4)))

    # It is asked once, and then last.
    assert swallowing.freeze() == 1
    await engine.close()
    await swallowing.close()


async def test_when_nobody_takes_us_the_answer_says_why_for_each(postgres_server: Postgres) -> None:
    nobody = free_port()
    engine = PostgresEngine(f"postgresql://duly@127.0.0.1:{nobody},127.0.0.1:{postgres_server.port}/no_such_database")

    with pytest.raises(Unavailable, match=f"127.0.0.1:{nobody}: .*127.0.0.1:{postgres_server.port}: .*no_such_database") as refused:
        await engine.store_now()

    assert refused.value.code == "DULY-E501"
    await engine.close()


async def test_a_line_that_may_no_longer_write_is_not_used_again(postgres_dsn: str) -> None:
    engine = PostgresEngine(postgres_dsn)
    async with engine._pools[Lane.GENERAL].connection() as line:
        # As a primary does that has become a standby under us.
        await line.execute("SET default_transaction_read_only = on")

    with pytest.raises(Unavailable, match="read-only"):
        await engine.script("CREATE TABLE public.written (nothing int)")

    await engine.script("CREATE TABLE public.written (nothing int)")
    await engine.close()
