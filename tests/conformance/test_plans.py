"""Hot statements walk along their keys, however many rows there are and whatever the statistics say."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from duly.adapters.sql.engine import Lane
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.postgres.work import WORTH_IT
from duly.adapters.sql.statements import statements
from duly.domain import heads
from duly.domain.decide import Firing
from duly.domain.instants import HOUR, MINUTE
from duly.domain.job import Job
from duly.domain.lifecycle import Outcome
from duly.domain.shards import SHARDS
from tests.conformance.conftest import inline_engine
from tests.conformance.ledger import raw
from tests.conformance.plans import Watch, pages_touched, rows_read
from tests.conformance.tenants import tenant
from tests.conformance.world import START, World

BIG = ("executions", "outcomes", "attempts", "ready", "timers", "schedules", "jobs", "job_versions", "places", "waits", "blocked", "logs")
ROWS = 50_000
BATCH = 100

# ------------------------------------------------------------ PostgreSQL


class Captured(Exception):
    """What a port was about to send."""


async def captured(engine: PostgresEngine, call: Callable[[], Awaitable[Any]]) -> tuple[str, dict[str, Any], Lane]:
    """The statement that a call sends first, with its parameters and lane; it is not sent. Nothing is in its way."""

    async def fetch(name: str, params: dict[str, Any], lane: Lane = Lane.GENERAL) -> list[dict[str, int]]:
        if name == "dead_rows":
            return [{"dead": 0}]
        raise Captured(name, params, lane)

    engine.fetch = fetch
    try:
        await call()
    except Captured as found:
        return found.args
    finally:
        del engine.fetch
    raise AssertionError("nothing was sent")


def literal(value: Any) -> str:
    """A parameter as text; the statement's own casts say what it is."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, list):
        return "'{" + ",".join("NULL" if item is None else _element(item) for item in value) + "}'"
    return f"'{_element(value)}'"


def _element(value: Any) -> str:
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, str):
        return json.dumps(value).replace("'", "''")
    return str(value) if isinstance(value, UUID) else str(int(value))


class Explainer:
    """Prepared statements on a connection of each lane, as the engine keeps them: planned once, kept whatever comes."""

    def __init__(self, engine: PostgresEngine) -> None:
        self.engine = engine
        self.prepared: set[str] = set()

    async def plan(self, name: str, params: dict[str, Any], lane: Lane) -> dict[str, Any]:
        """The plan as it ran. Nothing that it wrote stays."""
        statement = statements("postgres")[name]
        arguments = ", ".join(literal(params[parameter]) for parameter in statement.names)
        async with self.engine._pools[lane].connection() as connection:
            if name not in self.prepared:
                await connection.execute(f"PREPARE plan_of_{name} AS {statement.text}")
                self.prepared.add(name)
            transaction = connection.transaction()
            await transaction.start()
            answer = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE plan_of_{name} ({arguments})")
            await transaction.rollback()
        return json.loads(answer)[0]["Plan"]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def faults(plan: dict[str, Any]) -> list[str]:
    """Where the plan reads a big table from end to end, or more than its batch accounts for."""
    found = []
    for node in nodes(plan):
        relation = node.get("Relation Name", "")
        if not relation.startswith(BIG):
            continue
        rows = (
            node["Actual Rows"] * node["Actual Loops"]
            + node.get("Rows Removed by Filter", 0)
            + node.get("Rows Removed by Index Recheck", 0)
        )
        if node["Node Type"] == "Seq Scan" and node["Actual Loops"]:
            found.append(f"reads all of {relation}")
        elif rows > 12 * BATCH:
            found.append(f"reads {rows:.0f} rows of {relation} by {node['Node Type']}")
    buffers = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    if buffers > 60 * BATCH:
        found.append(f"touches {buffers} buffers")
    return found


SERIES = f"FROM generate_series(1, {ROWS}) n"
HEADERS = "INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, due_at, rank, created_at)"


async def fill(world: World, job: Job) -> None:
    """50,000 headers that are ready, as many that wait, as many schedules and ended ones; none of it analyzed."""
    version, route = job.version.number, job.version.route
    ready, timer, ended = (f"md5('{kind}' || n)::uuid" for kind in ("ready", "timer", "ended"))
    header = f"'{job.id}', {version}, 1, {route}, 1, {START}, {START}, {START} {SERIES}"
    later = f"{START} + n * 1000000::bigint"
    for text in (
        f"{HEADERS} SELECT {ready}, {header}",
        f"{HEADERS} SELECT {timer}, {header}",
        f"INSERT INTO ready SELECT {route}, 1, {START} + n, {ready}, 1, 0 {SERIES}",
        f"INSERT INTO timers SELECT {timer}, n % {SHARDS}, {later}, {route}, 1, {START}, 1, 0 {SERIES}",
        f"INSERT INTO schedules SELECT md5('job' || n)::uuid, n % {SHARDS}, {later}, {version} {SERIES}",
        f"INSERT INTO outcomes (id, state, attempt, finished_at) SELECT {ended}, 4, 1, 0 {SERIES}",
        f"INSERT INTO attempts (id, attempt, outcome, lease_id, worker, finished_at) SELECT {ended}, 1, 2, 1, 1, 0 {SERIES}",
        f"INSERT INTO jobs (id, tenant, name, version, created_at) SELECT md5('job' || n)::uuid, 1, 'job ' || n, {version}, 0 {SERIES}",
    ):
        await raw(world.engine, text)


@pytest.fixture
async def cold(migrated_dsn: str) -> Any:
    """A store of its own, thrown away unsound: rows are made by the thousand."""
    engine = PostgresEngine(migrated_dsn)
    yield World(engine)
    await engine.close()


@pytest.mark.slow
async def test_plans_made_on_an_empty_store_still_walk_when_it_is_full(cold: World) -> None:
    world, engine, store = cold, cold.engine, cold.store
    await store.retention.prepare(world.now, HOUR)
    job = await world.job(every=MINUTE)
    await world.own_shards()
    worker = await world.worker(ttl=100 * HOUR)
    explainer = Explainer(engine)
    route = job.version.route

    async def hot_calls() -> dict[str, tuple[str, dict[str, Any], Lane]]:
        claimed = await world.claimed(worker, BATCH, of=[job])
        due = await world.decide(limit=2)
        firing = Firing(due.advances, [fire for fire in due.fires if fire.skip is None])
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "work": lambda: store.ready.work([route], 10),
            "claim": lambda: world.claim(worker, BATCH, of=[job]),
            "versions": lambda: store.definitions.versions([job.version.number]),
            "due_schedules": lambda: store.schedules.due_schedules(range(SHARDS), world.now, 2),
            "upcoming": lambda: store.schedules.upcoming(range(SHARDS), world.now, world.now + HOUR, 2),
            "fire": lambda: world.fire(firing),
            "promote": lambda: world.promote(limit=2),
            "finish_whole": lambda: world.finish(worker, claimed),
            "finish": lambda: world.finish(worker, claimed, only=claimed.ids[: WORTH_IT - 1]),
            "finish_mixed": lambda: world.finish(worker, claimed, Outcome.FAILED),
        }
        await world.ended(claimed, Outcome.SUCCEEDED)
        sent = {name: await captured(engine, call) for name, call in calls.items()}
        assert {name for name in sent if sent[name][0] != name} <= {"finish_whole"}, "a lease of two is not worth it"
        return sent

    await world.enqueue(job, 2)
    for call in (await hot_calls()).values():
        await explainer.plan(*call)
    await fill(world, job)
    world.turn(ROWS * 1_000_000)

    found = {name: faults(await explainer.plan(*call)) for name, call in (await hot_calls()).items()}

    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.slow
async def test_the_auditor_reads_the_versions_of_a_page_of_jobs_and_no_others(cold: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs have come by the thousand, and no statistics know of them: each page would read, and take apart, the definitions of all."""
    world, watch = cold, Watch()
    watch.attach(monkeypatch)
    job = await world.job(every=MINUTE)
    series = "FROM generate_series(1, 10000) n"
    for text in (
        f"INSERT INTO jobs (id, tenant, name, version, created_at) SELECT md5('job' || n)::uuid, 1, 'job ' || n, n + 1000, 0 {series}",
        f"""INSERT INTO job_versions (job_id, version, route, max_attempts, definition, created_at)
            SELECT md5('job' || n)::uuid, 1, v.route, 1, v.definition, 0 {series}, job_versions v WHERE v.id = {job.version.number}""",
    ):
        await raw(world.engine, text)

    lives, _ = await world.store.fire_audit.lives(None, world.now, BATCH)

    assert len(lives) == BATCH
    [plan] = watch.plans["audited_versions"]
    assert "job_versions" not in rows_read(plan)
    assert pages_touched(plan) < 60 * BATCH


BURST = 200_000


@pytest.mark.slow
async def test_a_worker_that_idled_on_an_empty_store_claims_from_a_burst_along_the_key(cold: World) -> None:
    """Its plans were made while nothing was there; then 200,000 come at once, and no statistics know of them."""
    world, engine, store = cold, cold.engine, cold.store
    await store.retention.prepare(world.now, HOUR)
    job = await world.job()
    worker = await world.worker(ttl=HOUR)
    explainer = Explainer(engine)
    route = job.version.route

    async def claim() -> dict[str, Any]:
        return await explainer.plan(*(await captured(engine, lambda: world.claim(worker, BATCH, of=[job]))))

    async def work() -> dict[str, Any]:
        return await explainer.plan(*(await captured(engine, lambda: store.ready.work([route], 64))))

    for _ in range(10):
        await claim()
        await work()
    ids = f"overlay(md5('burst' || n) placing left(replace(duly_id_floor({START})::text, '-', ''), 12) from 1)::uuid"
    series = f"FROM generate_series(1, {BURST}) n"
    await raw(engine, f"{HEADERS} SELECT {ids}, '{job.id}', {job.version.number}, 1, {route}, 1, {START}, {START}, {START} {series}")
    await raw(engine, f"INSERT INTO ready SELECT {route}, 1, {START}, {ids}, 1, 0 {series}")

    for plan in (await claim(), await work()):
        assert faults(plan) == []
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 20 * BATCH
    # … and so does whoever really claims, and finishes.
    claimed = await world.claimed(worker, BATCH, of=[job])
    assert len(claimed.ids) == BATCH
    ended = await world.ended(claimed, Outcome.SUCCEEDED)
    finish = await captured(engine, lambda: store.outcomes.finish(worker, ended, [claimed.lease], world.now))
    assert faults(await explainer.plan(*finish)) == []


DEAD = 50_000


@pytest.mark.slow
async def test_what_is_dead_at_the_head_of_a_queue_is_walked_along_once(cold: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood that is being drained leaves its claimed rows at the head until vacuum comes; somebody else has work beside it."""
    monkeypatch.setattr(heads, "LONG", -1)
    monkeypatch.setattr(heads, "LONG_LOOKS", 1)
    monkeypatch.setattr(heads, "WHOLE_LOOKS_IN", 1_000_000)
    world, engine, store = cold, cold.engine, cold.store
    await raw(engine, "ALTER TABLE ready SET (autovacuum_enabled = off)")
    jobs = [await world.job(), await world.job(tenant=(await tenant(world)).number)]
    (route,) = {job.version.route for job in jobs}
    for job in jobs:
        ids = f"overlay(md5('{job.id}' || n) placing left(replace(duly_id_floor({START})::text, '-', ''), 12) from 1)::uuid"
        await raw(
            engine, f"INSERT INTO ready SELECT {route}, {job.version.tenant}, n, {ids}, 1, 0 FROM generate_series(1, {DEAD + 1000}) n"
        )
    await raw(engine, f"DELETE FROM ready WHERE rank <= {DEAD}")
    explainer = Explainer(engine)

    async def buffers(call: Callable[[], Awaitable[Any]]) -> int:
        plan = await explainer.plan(*(await captured(engine, call)))
        assert faults(plan) == []
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    def look() -> Awaitable[Any]:
        return store.ready.work([route], 64, roughly=True)

    whole = await buffers(look)
    found = await look()

    assert [(item.head, item.depth) for item in found] == [(DEAD + 1, 64)] * 2
    assert whole > 4 * DEAD // 1000, "nothing dead was in the way"
    worker = await world.worker(ttl=HOUR)
    assert await buffers(look) < whole / 4
    assert await buffers(lambda: world.claim(worker, 10, of=jobs)) < 50 * 2 * 10


# ------------------------------------------------------------ SQLite

WALKS = [
    "known_executions",
    "add_execution",
    "make_ready",
    "make_timer",
    "due_schedules",
    "advance_schedule",
    "complete_job",
    "take_place",
    "take_only_place",
    "taken_places",
    "waiters_of",
    "count_slots",
    "next_at_gate",
    "drop_slots",
    "stuck_gates",
    "due_timers",
    "drop_timer",
    "upcoming",
    "work_on_route",
    "pick",
    "take",
    "held_by",
    "members",
    "member",
    "finished_under",
    "queue_key",
    "drop_member",
    "drop_members",
    "close_lease",
    "free_place",
    "next_waiter",
    "drop_waits",
    "drop_blocked",
    "cancels_of_worker",
    "lost_executions",
    "drop_lease",
    "ask_cancel",
    "where_it_waits",
    "take_from_ready",
    "take_from_timers",
    "old_finished",
    "drop_execution",
    "drop_outcome",
    "drop_attempts",
    "drop_logs",
    "place_of",
    "execution",
    "executions_of_job",
    "attempts",
    "logs",
    "job",
    "job_named",
    "versions",
    "lock_job",
    "replaced_version",
    "use_key",
    "used_key",
    "take_shard",
    "renew_worker",
    "key",
]


@pytest.mark.parametrize("name", WALKS)
async def test_on_sqlite_every_hot_statement_searches_by_a_key(name: str) -> None:
    engine = await inline_engine()
    statement = statements("sqlite")[name]

    rows = engine._connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", [None] * len(statement.names)).fetchall()

    scans = [row["detail"] for row in rows if row["detail"].startswith("SCAN ")]
    assert [scan for scan in scans if scan.split()[1] in big_names(statement.text)] == []
    await engine.close()


def big_names(text: str) -> set[str]:
    """The big tables, and what this statement calls them."""
    words = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
    names = set(BIG)
    for table, alias in pairwise(words):
        if table in BIG and alias.islower() and len(alias) == 1:
            names.add(alias)
    return names
