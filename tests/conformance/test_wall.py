"""The second wall on PostgreSQL: behind it nothing of another tenant is there, even when a statement forgets to name its own."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from duly.adapters.sql.engine import Lane
from duly.adapters.sql.engine_postgres import SCHEMA, WALLED, PostgresEngine
from duly.adapters.sql.listing import LAST_ID
from duly.adapters.sql.migrate import upgrade
from duly.adapters.sql.statements import statements
from duly.domain.instants import HOUR
from duly.domain.lifecycle import JobState, Outcome
from duly.ports.store import ExecutionFilter
from duly.ports.wall import behind_wall
from tests.conformance.conftest import opened
from tests.conformance.workflows import Works, step
from tests.conformance.world import START, World
from tests.services.postgres import Postgres

# Numbers and ids only; the same list stands in duly_build_wall.
SHARED = {
    "audit_progress",
    "routes",
    "shards",
    "dispatchers",
    "waits",
    "places",
    "gate_waits",
    "slots",
    "uniques",
    "leases",
    "duly_migrations",
}
US, THEM = 1, 2


@pytest.fixture
async def walled(postgres_store: str) -> AsyncIterator[World]:
    async with opened(PostgresEngine(postgres_store)) as engine:
        await engine.script("INSERT INTO tenants (tenant, name) VALUES (2, 'them');")
        yield World(engine)


async def fill(world: World) -> Any:
    """A job of ours with a run that failed once, a log line and a checkpoint."""
    job = await world.job()
    [run] = await world.enqueue(job)
    worker = await world.worker()
    claimed = await world.claimed(worker)
    await world.store.checkpoints.save(worker, claimed.lease, run, 1, '{"at": 1}', START)
    await world.store.outcomes.finish(worker, await world.ended(claimed, Outcome.FAILED), [claimed.lease], START)
    return run


async def tables(connection: asyncpg.Connection[asyncpg.Record]) -> dict[str, bool]:
    ours = "relnamespace = $1::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition"
    found = await connection.fetch(f"SELECT relname, relrowsecurity FROM pg_class WHERE {ours}", SCHEMA)
    return {row["relname"]: row["relrowsecurity"] for row in found}


async def test_every_table_is_walled_or_shared(postgres_store: str) -> None:
    connection = await asyncpg.connect(postgres_store)
    found = await tables(connection)
    await connection.close()

    assert {name for name, is_walled in found.items() if not is_walled} == SHARED


async def test_behind_the_wall_no_table_has_a_row_of_another(walled: World, postgres_store: str) -> None:
    await fill(walled)
    connection = await asyncpg.connect(postgres_store, server_settings={"search_path": SCHEMA})
    seen: dict[int, dict[str, int]] = {}
    hidden = [name for name, is_walled in (await tables(connection)).items() if is_walled]
    for tenant in (US, THEM):
        async with connection.transaction():
            await connection.execute(f"SET LOCAL ROLE duly_tenant; SET LOCAL duly.tenant = '{tenant}'")
            seen[tenant] = {name: await connection.fetchval(f"SELECT count(*) FROM {name}") for name in hidden}
    await connection.close()

    assert {"jobs", "job_versions", "executions", "attempts", "checkpoints", "timers"} <= {name for name, rows in seen[US].items() if rows}
    assert {name: rows for name, rows in seen[THEM].items() if rows} == {"tenants": 1, "workers": 1}


async def test_a_forgotten_tenant_is_no_hole(walled: World) -> None:
    run = await fill(walled)
    with behind_wall(THEM):
        # The statement asks for tenant 1, as one would that takes the tenant from the wrong place.
        assert await walled.store.insights.execution(US, run) is None
        assert await walled.store.insights.executions(ExecutionFilter(tenant=US, limit=10)) == []
        assert await walled.store.insights.attempts(run) == []
        assert await walled.store.keys.keys(US) == []
    with behind_wall(US):
        assert await walled.store.insights.execution(US, run) is not None
        assert len(await walled.store.insights.attempts(run)) == 1
    assert await walled.store.insights.execution(US, run) is not None


async def test_nothing_is_written_through_the_wall(walled: World) -> None:
    job = await walled.job()
    with behind_wall(THEM), pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        await walled.job(name="smuggled")
    with behind_wall(THEM):
        assert await walled.store.definitions.job(US, job.id) is None


@pytest.mark.usefixtures("postgres_store")
async def test_a_user_without_the_right_to_make_roles_goes_without(postgres_server: Postgres) -> None:
    """Somebody who has it made the role before. The statements keep tenants apart as before, and `has_wall` says that they are alone."""
    postgres_server.execute("CREATE ROLE modest LOGIN NOSUPERUSER NOCREATEROLE")
    dsn = postgres_server.create_database("modest")
    postgres_server.execute("ALTER DATABASE modest OWNER TO modest")
    postgres_server.execute("REVOKE duly_tenant FROM modest")
    modest = re.sub(r"//\w+@", "//modest@", dsn)
    engine = PostgresEngine(modest)
    try:
        await upgrade(engine)
        assert not await engine.has_wall()
        world = World(engine)
        job = await world.job()
        with behind_wall(US):
            assert await world.store.definitions.job(US, job.id) is not None
    finally:
        await engine.close()
        postgres_server.drop_database("modest")
        postgres_server.execute("DROP ROLE modest")


async def test_what_looks_past_the_wall_asks_whose_a_run_is(walled: World) -> None:
    """The run grid's functions read as the owner does."""
    run = await fill(walled)
    works = Works(walled)
    flow = await works.begin(await works.workflow(step("a")))

    for tenant, is_ours in ((US, True), (THEM, False)):
        with behind_wall(tenant):
            assert bool(await works.plain.grids.tries([run])) is is_ours
            assert bool(await works.plain.grids.steps([flow])) is is_ours
    assert await works.plain.grids.tries([run])
    assert await works.plain.grids.steps([flow])


# What is asked for of our jobs past the wall, and what is said when there is nothing.
PAST = {
    "job_ids_like": ({"before": LAST_ID, "search": "%our%", "looked_at": 10, "quota": 10}, []),
    "job_ids_of_source": ({"before": LAST_ID, "source": "code:shop", "quota": 10}, []),
    "waiting_of_few": ({"before": START + HOUR, "few": 10, "quota": 10}, []),
    "count_jobs_in_state": ({"state": JobState.ACTIVE, "most": 10}, [(0,)]),
}


@pytest.mark.parametrize("name", PAST)
async def test_who_asks_for_anothers_jobs_is_told_of_none(walled: World, name: str) -> None:
    """The walks along a tenant's jobs read as the owner does, once it is known that they are his."""
    await walled.job("ours", every=HOUR, source="code:shop")
    params, nothing = PAST[name]

    async def asked() -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await walled.engine.fetch(name, {"tenant": US, **params})]

    with behind_wall(THEM):
        assert await asked() == nothing
    with behind_wall(US):
        assert len(ours := await asked()) == 1
    assert ours != nothing
    assert await asked() == ours


@pytest.mark.parametrize("call", ["duly_count_jobs(1, 0::smallint, 10)", "count(*) FROM duly_waiting_of_few(1, (1::bigint << 62), 10, 10)"])
async def test_who_stands_behind_the_wall_and_says_not_for_whom_is_told_of_none(walled: World, call: str) -> None:
    await walled.job("ours", every=HOUR)

    async with walled.engine._pools[Lane.GENERAL].connection() as line, line.transaction():
        before = await line.fetchval(f"SELECT {call}")
        await line.execute(f"SET LOCAL ROLE {WALLED}")
        assert (before, await line.fetchval(f"SELECT {call}")) == (1, 0)


async def test_how_to_read_by_a_key_is_planned_once(walled: World) -> None:
    """Planning anew, partition by partition and wall by wall, takes several times as long as reading."""
    run = await fill(walled)
    read = statements("postgres")["execution"].text

    for _ in range(3):
        with behind_wall(US):
            assert await walled.store.insights.execution(US, run) is not None

    async with walled.engine._pools[Lane.GENERAL].connection(read) as line:
        [plans] = await line.fetch("SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement = $1", read)
        assert await line.fetchval("SHOW plan_cache_mode") == "force_custom_plan", "for what comes after it"
        assert line._stmt_cache.get_max_lifetime() == 0, "for as long as the line is there"  # type: ignore[attr-defined]
    assert tuple(plans) == (3, 0)
