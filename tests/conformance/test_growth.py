"""What runs all the time reads a bounded number of rows, however much is at rest."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest

from benchmarks.rest import DAYS, Rest, prepare, rest_id
from benchmarks.rest import statements as rest_statements
from duly.adapters.sql.engine import Lane
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.adapters.sql.statements import statements
from duly.domain.execution import LogLine
from duly.domain.ids import id_floor
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import JobState, Outcome, State
from duly.domain.schedule import next_fire
from duly.domain.shards import SHARDS
from duly.ports.audit import AuditFilter
from duly.ports.search import ExecutionSearch
from duly.ports.store import ExecutionFilter, JobFilter
from duly.ports.wall import behind_wall
from tests.conformance.conftest import inline_engine
from tests.conformance.ledger import raw
from tests.conformance.plans import Watch, faults, foreseen, long_tables, table_of, whole_tables
from tests.conformance.test_plans import big_names
from tests.conformance.world import START, World

ROWS = 30_000
LIVE = 8_000
BATCH = 100
# A list looks at 5,000 of the newest at most (`lately`); a scan of anything that is filled here reads more.
MOST = 6_000
US, THEM = 1, 2


async def fill(world: World) -> Rest:
    """History, schedules, and as much as lives: what waits, holds a place, is unique, was asked with a key, was recorded."""
    rest = await prepare(world)
    for text in rest_statements(rest, world.engine.name, 1, ROWS, 0, ROWS):
        await raw(world.engine, text)
    job, version, route = rest.busy.id, rest.busy.version.number, rest.busy.version.route
    series, start = f"FROM generate_series(1, {LIVE}) n", f"duly_id_floor({START - HOUR})"
    later = f"{START} + n * 1000000::bigint"
    ids = {
        kind: f"overlay(md5('{kind}' || n) placing left(replace({start}::text, '-', ''), 12) from 1)::uuid" for kind in ("ready", "timer")
    }
    header = "INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, due_at, rank, created_at, gates)"
    gate = "md5('gate' || n % 50)::uuid"
    for text in (
        f"{header} SELECT {ids['ready']}, '{job}', {version}, 1, {route}, 1, {START}, {START}, {START}, NULL {series}",
        f"{header} SELECT {ids['timer']}, '{job}', {version}, 1, {route}, 1, {later}, {later}, {START}, NULL {series}",
        f"INSERT INTO ready SELECT {route}, 1, {START}, {ids['ready']}, 1, 0 {series}",
        f"INSERT INTO timers SELECT {ids['timer']}, n % {SHARDS}, {later}, {route}, 1, {later}, 1, 0 {series}",
        f"INSERT INTO idempotency SELECT 1, 'key ' || n, '', '[]', {START} + {DAY} {series}",
        f"""INSERT INTO workers (name, started_at, expires_at, lost_at, about)
            SELECT 'gone', 0, 0, {START} - {2 * HOUR} - n, '{{"ttl": 1}}' {series}""",
        f"INSERT INTO settled SELECT id, {START}, 'somebody', 2, NULL FROM outcomes WHERE state = 5",
        f"INSERT INTO checkpoints (id, attempt) SELECT id, 1 FROM outcomes WHERE state = 4 ORDER BY id DESC LIMIT {LIVE}",
        f"INSERT INTO batches SELECT md5('batch' || n)::uuid, 1, md5('job' || n)::uuid, 'bulk', {START}, 'somebody', 0, '{{}}' {series}",
        f"INSERT INTO gates SELECT {gate}, 1, n % {SHARDS}, 1, NULL, NULL, '{{}}', true FROM generate_series(1, 50) n",
        f"""INSERT INTO audit (tenant, at, actor, role, channel, action, kind, subject)
            SELECT 1, {START} - n, 'key', 'ADMIN', 'api', 'job.create', 'job', 'job_' || n FROM generate_series(1, {ROWS}) n""",
        "INSERT INTO audit_links SELECT 1, place, place, '' FROM audit",
        "INSERT INTO audit_heads (tenant, seq, hash, anchor_hash) SELECT 1, max(place), '', '' FROM audit",
        "UPDATE audit_progress SET xid = (SELECT max(xid) FROM audit), place = (SELECT max(place) FROM audit)",
        "INSERT INTO audit_progress (xid, place) SELECT max(xid), max(place) FROM audit ON CONFLICT DO NOTHING",
        "ANALYZE",
    ):
        await raw(world.engine, text)
    return rest


@pytest.fixture
async def full(migrated_dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[World, Rest, Watch]]:
    """A full store, and who hears what is sent to it."""
    engine = PostgresEngine(migrated_dsn)
    world = World(engine)
    await world.add_tenant(THEM)
    rest = await fill(world)
    await engine.close()
    watch = Watch()
    watch.attach(monkeypatch)
    yield world, rest, watch
    await engine.close()


async def dispatch_and_work(world: World) -> None:
    """Fire, promote, claim, run, fail, finish, beat, log, save, cancel, enqueue with a key."""
    store = world.store
    jobs = await world.jobs(BATCH, every=MINUTE, handler="growth")
    one_off = await world.job(at=world.now, handler="growth")
    worker = await world.worker(ttl=HOUR)
    await world.own_shards()
    await store.schedules.upcoming(range(SHARDS), world.now, world.now + HOUR, BATCH)
    assert (await world.fire()).fired == BATCH + 1
    await world.promote(BATCH)
    routes = [route.number for route in await store.ready.routes()]
    await store.ready.work(routes, 64)
    claimed = await world.claimed(worker, BATCH, of=[one_off])
    await store.outcomes.append_logs(worker, [(claimed.lease, claimed.ids[0], 1, LogLine(world.now, "INFO", "line"))])
    await store.checkpoints.save(worker, claimed.lease, claimed.ids[0], 1, "{}", world.now)
    await store.checkpoints.report(worker, [(claimed.lease, claimed.ids[0], "{}")], world.now)
    await store.liveness.renew(worker, world.now, HOUR)
    await world.cancel(claimed.ids[1])
    await world.finish(worker, claimed, only=claimed.ids[2:])
    await world.finish(worker, claimed, Outcome.FAILED, only=claimed.ids[:2])
    await store.ready.held_by(worker)
    made = world.new_executions(jobs[0], 2)
    await store.intake.enqueue_once(US, made, world.key("asked"), world.now)
    await world.enqueue(jobs[0], 3, due_in=MINUTE)
    await world.cancel(made[0].id)
    await world.claimed(worker, 1, of=[one_off])
    lost = await world.worker("lost", ttl=SECOND)
    await world.claimed(lost, 1, of=jobs[:1])
    world.turn(2 * SECOND)
    await world.lose()


async def audit_and_survey(world: World) -> None:
    """What looks at everything, some at a time: a page in the middle of all jobs, and a batch of what has ended."""
    audit, figures, now = world.store.fire_audit, world.store.figures, world.now
    assert await audit.take("auditor", now, MINUTE) is not None
    lives, last = await audit.lives(None, now - HOUR, BATCH)
    assert lives
    assert last is not None
    lives, last = await audit.lives(last, now - HOUR, BATCH)
    assert lives
    assert last is not None
    await audit.flaws([(life.job_id, now) for life in lives])
    await audit.open_ones(BATCH)
    await figures.counted_to(0)
    await figures.ends(id_floor(now - DAY), id_floor(now), now - DAY, BATCH)


async def sweep_and_prune(world: World, rest: Rest) -> None:
    """What comes by every few seconds, every minute, every ten."""
    store = world.store
    await store.losses.unstick(world.now, 200)
    await store.losses.reconcile(world.now)
    await audit_and_survey(world)
    await store.retention.prepare(world.now, 3 * DAY)
    await store.retention.prune(world.now - DAYS * DAY, world.now, BATCH)
    # … and with something to do, bite by bite.
    while await store.retention.prune(rest.first + 3 * HOUR, world.now, BATCH):
        pass
    await store.tenants.bounded()
    await store.tenants.prune(US, rest.first + 6 * HOUR, world.now, None, BATCH)
    await store.audit.link(BATCH)
    await store.audit.forget(START - DAY, BATCH)
    shards = await store.leases.shards()
    await store.leases.renew("dispatcher", world.epochs, world.now, HOUR)
    assert len(shards) == SHARDS


async def look(world: World, job: Job, tenant: int) -> None:
    """Everything that people and dashboards look at."""
    store, now = world.store, world.now
    await store.insights.standing_counts(tenant)
    await store.insights.job_counts(tenant, now)
    await store.insights.ready_by_pool(tenant)
    await store.insights.workers(now, tenant)
    await store.search.lately(tenant, now - HOUR, 5_000)
    await store.search.newest(tenant, 500, 500)
    await store.insights.executions(ExecutionFilter(tenant, job_id=job.id, limit=10))
    for state in State:
        await store.search.step(ExecutionSearch(tenant=tenant, state=state), None, 50)
        await store.search.step(ExecutionSearch(tenant=tenant, state=state, job_id=job.id), None, 50)
    await store.search.step(ExecutionSearch(tenant=tenant), None, 50)
    step = await store.search.step(ExecutionSearch(tenant=tenant, job_name=f"rest-{ROWS - 77}"), None, 50)
    for execution in step.found[:1]:
        await store.insights.execution(tenant, execution.id)
        await store.insights.attempts(execution.id)
        await store.insights.logs(execution.id, None, 0, 100)
    await store.letters.open_letters(tenant, None, None, 1000)
    await store.letters.open_letters(tenant, job.id, None, 1000)
    definitions = store.definitions
    for wanted in ({}, {"name": f"rest-{ROWS - 77}"}, {"search": "est-777"}, {"pool": "none"}, {"next_fire_before": now}):
        await definitions.job_step(JobFilter(tenant, now=now, **wanted), 1000)
    for standing in JobState:
        await definitions.job_step(JobFilter(tenant, now=now, state=standing), 1000)
    await definitions.jobs_of_source(tenant, "code:shop", None, 100)
    await definitions.waiting(tenant, now + 30 * DAY, 2_000)
    await definitions.changed_jobs(tenant, now - HOUR, 1000)
    await definitions.job(tenant, job.id)
    await definitions.job_named(tenant, f"rest-{ROWS - 77}")
    await store.audit.records(AuditFilter(tenant=tenant, limit=50))
    await store.search.changes(tenant, now - HOUR, 200)


# Who may read all of a table that lives: what is counted, or walked because it waits. None of them reads history.
ALLOWED = {
    # Up to a million are counted where they stand.
    "count_scheduled": frozenset({"timers"}),
    "count_pending": frozenset({"ready"}),
    "ready_by_pool": frozenset({"ready"}),
    "(SELECT count(*) FROM (SELECT FROM jobs j WHERE j.tenant = a": frozenset({"jobs"}),
    # A page of what is ready is in the order of the ids, and `ready` has no index but the order of the claims.
    "ids_pending": frozenset({"ready"}),
    # A hundred probes cost as much as a short table; a longer one is probed.
    "drop_finished": frozenset({"checkpoints"}),
    # A hundred thousand names are looked at in one step, and where it ended.
    "SELECT w.id, TRUE FROM (SELECT j.id, j.name FROM jobs j WHER": frozenset({"jobs"}),
    "SELECT j.id, FALSE FROM jobs j WHERE j.tenant = asked AND j.": frozenset({"jobs"}),
}


# Statements that are not looked at, and why.
EXEMPT = {
    "renew_queue": "a block: it moves a short queue under a lock, test_old_snapshots.py",
    "build_wall": "once an upgrade",
    "awaited_gates": "walks along who waits for a limit, by an index that has nobody else; asked when limits are idle",
    **dict.fromkeys(
        ("clear_batch", "clear_promise", "moved_counts", "moved_strays", "moving_batch", "moving_promise"),
        "when a tenant moves to another store: all of it is read",
    ),
}


@pytest.mark.slow
async def test_what_runs_all_the_time_reads_a_bounded_number_of_rows(full: tuple[World, Rest, Watch]) -> None:
    world, rest, watch = full

    await dispatch_and_work(world)
    await sweep_and_prune(world, rest)
    theirs = await world.job(tenant=THEM)
    await world.enqueue(theirs, 3)
    await look(world, rest.busy, US)
    for tenant, job in ((US, rest.busy), (THEM, theirs)):
        with behind_wall(tenant):
            await look(world, job, tenant)

    found = faults(watch.plans, MOST, ALLOWED)
    assert not found, "\n".join(found)

    # The rest is asked for by people, or once in a while: it goes along its keys as well, as far as can be foreseen.
    unseen = statements("postgres").keys() - watch.plans.keys() - EXEMPT.keys()
    wrong: dict[str, set[str]] = {}
    async with world.engine._pools[Lane.GENERAL].connection() as connection:
        long = await long_tables(connection)
        for name in sorted(unseen):
            if whole := whole_tables(await foreseen(connection, name)) & long:
                wrong[name] = {table_of(relation) for relation in whole}
    assert not wrong, "\n".join(map(str, sorted(wrong.items())))
    assert EXEMPT.keys() <= statements("postgres").keys() - watch.plans.keys(), "exempt, but gone or guarded by now"


# ------------------------------------------------------------ SQLite

# Statements that may go through a whole table, and why.
SQLITE_EXEMPT = {
    "awaited_gates": "walks along who waits for a limit, by an index that has nobody else; asked when limits are idle",
    "clear_ready": "the queue, when a tenant has moved away: it has no index but the order of the claims",
    "count_dead": "the newest of a small index, so many and no more",
    "ids_of_all": "the newest, so many and no more",
    "how_many_ready": "asked for once, while there is little; for virtual time in tests of users",
    "anything_gated": "one row says whether there is any; for virtual time in tests of users",
    "anything_limited": "one row says whether there is any; for virtual time in tests of users",
    "anything_queued": "one row says whether there is any; for virtual time in tests of users",
    "anything_runs": "one row says whether there is any; for virtual time in tests of users",
    "anything_timed": "one row says whether there is any; for virtual time in tests of users",
    "anything_waits": "one row says whether there is any; for virtual time in tests of users",
    "open_letters_of_all": "the newest of a small index, so many and no more",
    "standing_of_all": "so many of each and no more",
    "why_ended": "the newest, so many and no more",
    "stale_places": "walks along who holds a place, once a minute",
    "stale_cancels": "walks along what was asked to stop, once a minute",
    "stuck_queues": "walks along who waits for a place",
}


@pytest.fixture(scope="module")
def filled_sqlite() -> Iterator[sqlite3.Connection]:
    """A store with history and statistics, in memory."""
    loop = asyncio.new_event_loop()
    engine = loop.run_until_complete(inline_engine())
    world = World(engine)
    rest = loop.run_until_complete(prepare(world))
    engine._connection.create_function("rest_id", 2, rest_id, deterministic=True)
    for text in rest_statements(rest, "sqlite", 1, 5_000, 0, 5_000):
        engine._connection.execute(text)
    engine._connection.execute("ANALYZE")
    yield engine._connection
    loop.run_until_complete(engine.close())
    loop.close()


@pytest.mark.parametrize("name", sorted(statements("sqlite").keys() - SQLITE_EXEMPT.keys()))
def test_on_sqlite_no_statement_goes_through_a_long_table(filled_sqlite: sqlite3.Connection, name: str) -> None:
    statement = statements("sqlite")[name]

    rows = filled_sqlite.execute(f"EXPLAIN QUERY PLAN {statement.text}", [None] * len(statement.names)).fetchall()

    names = big_names(statement.text)
    # A filter that is built before the first look is built from the whole table.
    passes = [row["detail"] for row in rows if row["detail"].startswith(("SCAN ", "BLOOM FILTER ON "))]
    assert [told for told in passes if told.removeprefix("BLOOM FILTER ON ").removeprefix("SCAN ").split()[0] in names] == []


def test_what_is_exempt_is_there() -> None:
    assert SQLITE_EXEMPT.keys() <= statements("sqlite").keys()


# ------------------------------------------------------------ what the rows are


async def test_what_is_made_by_sql_is_what_the_product_would_have_written(world: World) -> None:
    rest = await prepare(world)
    if isinstance(world.engine, SqliteEngine):
        await world.engine._submit(world.engine._writes, lambda file: file.create_function("rest_id", 2, rest_id, deterministic=True))
    for text in rest_statements(rest, world.engine.name, 1, 400, 0, 400):
        await raw(world.engine, text)

    found = await world.store.search.step(ExecutionSearch(tenant=US), None, 1_000)
    assert Counter(execution.state for execution in found.found) == {
        State.SUCCEEDED: 392,
        State.DEAD: 4,
        State.CANCELLED: 2,
        State.SKIPPED: 2,
    }
    job = await world.store.definitions.job_named(US, "rest-7")
    assert job is not None
    assert job.next_fire_at == rest.fires + 49 * MINUTE
    assert job.version.schedule is not None
    assert next_fire(job.version.schedule, rest.fires) == job.next_fire_at
    # The fixture's end looks at every table: each execution stands in exactly one place.
