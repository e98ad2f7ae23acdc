"""Behind PgBouncer in transaction mode, where every transaction may come by another session."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg

from duly import config
from duly.adapters.sql.engine_postgres import _SESSION, _SETTINGS, PostgresEngine, _planning
from duly.adapters.sql.migrate import upgrade
from duly.adapters.sql.postgres.address import Pooler
from duly.adapters.sql.postgres.lines import _FOLLOWED, _SERVER_KEEPALIVES
from duly.adapters.sql.postgres.transactions import PostgresTransactions
from duly.adapters.sql.transport_postgres import PostgresTransport
from duly.compose import Service, open_node
from duly.domain.lifecycle import State
from duly.sdk.context import Context
from duly.services.pgbouncer import PgBouncer
from duly.usecases.executions import Wanted
from tests.connections.conftest import pooler_of
from tests.connections.fleet import ACTOR, echo_job, ended
from tests.roles.test_transactions import opened
from tests.services.postgres import Postgres


async def sessions(pgbouncer: PgBouncer, database: str, question: str) -> set[str]:
    """What the sessions behind the pooler answer, asked one after the other until each has been asked."""
    found: set[str] = set()
    lines = [await asyncpg.connect(pgbouncer.dsn(database), statement_cache_size=0) for _ in range(4)]
    for line in lines:
        # Kept open, so that the next one gets another session.
        await line.execute("BEGIN")
        found.add(str(await line.fetchval(question)))
    for line in lines:
        await line.execute("ROLLBACK")
        await line.close()
    return found


class TestWhatIsFound:
    async def test_a_pooler_that_refuses_our_settings_shows_itself(self, pooled_dsn: str) -> None:
        engine = PostgresEngine(pooled_dsn)

        await engine.store_now()

        assert engine.way.pooler is Pooler.TRANSACTION
        await engine.close()

    async def test_a_pooler_that_ignores_our_settings_is_known_by_its_numbers(
        self, postgres_server: Postgres, pgbouncer: PgBouncer
    ) -> None:
        ignored = {**_SERVER_KEEPALIVES, **_SESSION}.keys() | {name for settings in _SETTINGS.values() for name in settings}
        with pooler_of(postgres_server, {"ignore_startup_parameters": ",".join(sorted(ignored - set(_FOLLOWED)))}) as lenient:
            engine = PostgresEngine(lenient.dsn())
            line = await engine.way._connect(engine.way.address.hosts[0], "asked", {**_SERVER_KEEPALIVES, **_SESSION}, 5.0, 5.0)
            await line.close()

            await engine.store_now()

            assert engine.way.pooler is Pooler.TRANSACTION
            await engine.close()

    async def test_nothing_between_is_found_too(self, shared_dsn: str) -> None:
        engine = PostgresEngine(shared_dsn)

        await engine.store_now()

        assert engine.way.pooler is Pooler.NONE
        await engine.close()

    async def test_a_pooler_of_sessions_gets_our_settings_by_set(
        self, postgres_server: Postgres, pgbouncer: PgBouncer, shared_dsn: str
    ) -> None:
        with pooler_of(postgres_server, {"pool_mode": "session"}) as pooler:
            engine = PostgresEngine(f"{pooler.dsn(shared_dsn.rpartition('/')[2])}?pooler=session")

            assert await engine.fetch("migrations_applied", {})

            async with engine._pools[next(iter(engine._pools))].connection() as line:
                assert line.local == ""
                assert await line.fetchval("SHOW plan_cache_mode") == "force_custom_plan"
            await engine.close()


class TestWhatIsLeft:
    async def test_a_new_store_is_made_through_the_pooler(self, pgbouncer: PgBouncer, postgres_dsn: str) -> None:
        engine = PostgresEngine(pgbouncer.dsn(postgres_dsn.rpartition("/")[2]))

        assert await upgrade(engine)
        assert await engine.has_wall()
        assert await upgrade(engine) == []

        await engine.close()
        # It would keep the database from being dropped.
        pgbouncer.stop()
        pgbouncer.start()

    async def test_nothing_of_ours_stays_on_the_shared_sessions(
        self, pooled_dsn: str, pgbouncer: PgBouncer, postgres_server: Postgres
    ) -> None:
        database = pooled_dsn.rpartition("/")[2]
        engine = PostgresEngine(pooled_dsn)
        await asyncio.gather(*(engine.fetch("migrations_applied", {}) for _ in range(20)), engine.script("SELECT 1"))

        assert await sessions(pgbouncer, database, "SHOW search_path") == {'"$user", public'}
        assert await sessions(pgbouncer, database, "SHOW plan_cache_mode") == {"auto"}
        assert await sessions(pgbouncer, database, "SELECT count(*) FROM pg_prepared_statements WHERE name <> ''") == {"0"}
        await engine.close()

    async def test_each_transaction_has_the_plans_of_its_lane(self, pooled_dsn: str) -> None:
        engine = PostgresEngine(pooled_dsn)
        found = {}
        for lane, pool in engine._pools.items():
            async with pool.connection() as line, engine._transaction(line, settings=_planning(lane, line)):
                found[lane.value] = await line.fetchval("SELECT current_setting('plan_cache_mode') || ' ' || current_setting('jit')")

        custom, generic = "force_custom_plan off", "force_generic_plan off"
        # A pooler's session keeps no plan, so none is made to be kept.
        assert found == {"general": custom, "keyed": custom, "claim": generic, "finish": generic}
        await engine.close()


class TestHints:
    async def test_whoever_cannot_listen_still_tells(self, pooled_dsn: str, shared_dsn: str) -> None:
        near, far = PostgresTransport(pooled_dsn), PostgresTransport(shared_dsn)
        await far.wait_ready(0.01)
        async with asyncio.timeout(30):
            await far._connected.wait()
        await far.wait_ready(0.01)

        heard = asyncio.create_task(far.wait_ready(10.0))
        await near.announce([1])

        assert await heard
        await near.close()
        await far.close()

    async def test_a_session_that_others_get_does_not_listen(
        self, pooled_dsn: str, pgbouncer: PgBouncer, postgres_server: Postgres
    ) -> None:
        transport = PostgresTransport(pooled_dsn)
        await transport.announce([1])
        async with asyncio.timeout(30):
            await transport._connected.wait()

        database = pooled_dsn.rpartition("/")[2]
        question = "SELECT count(*) FROM pg_listening_channels()"

        assert await sessions(pgbouncer, database, question) == {"0"}
        await transport.close()


async def test_everything_runs_through_a_pooler(pooled_dsn: str, tmp_path: Path) -> None:
    """Every role in one process, by polling alone: what is enqueued is drained, and a schedule fires."""
    flags = {"home": tmp_path, "store": pooled_dsn, "port": 0}
    node = await open_node(config.load({}, **flags))
    stop = asyncio.Event()
    service = asyncio.create_task(Service(node, ("dispatcher", "sweeper", "pruner", "worker")).run(stop))
    job, firing = await echo_job(node, "drained"), await echo_job(node, "firing", type="INTERVAL", intervalSec=1)

    await node.executions.enqueue_for(job, [Wanted()] * 300)

    assert await ended(node, job, 300) == {State.SUCCEEDED: 300}
    assert (await ended(node, firing, 2))[State.SUCCEEDED] >= 2
    assert (await node.jobs.show(ACTOR, job.id)).id == job.id
    stop.set()
    await service
    await node.close()


async def test_a_handlers_transaction_commits_or_rolls_back_with_its_attempt(pgbouncer: PgBouncer, postgres_dsn: str) -> None:
    pooled = PostgresTransactions(pgbouncer.dsn(postgres_dsn.rpartition("/")[2]))
    async with opened(PostgresEngine(postgres_dsn), pooled) as bank:

        async def keeps(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await bank.write(connection)
                ctx.result({"moved": 5})

        async def breaks(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await bank.write(connection)
                raise ValueError("no")

        kept, _ = await bank.run(keeps)
        broken, _ = await bank.run(breaks, retryPolicy={"maxAttempts": 1})

        assert ((await bank.show(kept)).state, (await bank.show(broken)).state) == (State.SUCCEEDED, State.DEAD)
        assert await bank.effects() == 1
    # What it keeps open would keep the database from being dropped.
    pgbouncer.stop()
    pgbouncer.start()
