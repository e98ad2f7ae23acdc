"""What is counted, what the API says and what the ledger holds are the same numbers whenever nothing is under way."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from json import loads
from typing import Any

import pytest

from duly.adapters.metered.store import metered
from duly.adapters.prometheus.meter import Meter
from duly.adapters.sql.engine import Engine
from duly.adapters.sql.statements import statements
from duly.adapters.sql.store import store_on
from duly.adapters.sql.watching import TELLS
from duly.domain.access import Actor, Role
from duly.domain.catchup import CatchUpPolicy
from duly.domain.errors import Unavailable
from duly.domain.execution import LogLine
from duly.domain.expected import Sketch
from duly.domain.fire_audit import Flaw, Missed
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.domain.lifecycle import Outcome, State
from duly.domain.metrics import catalogue
from duly.domain.metrics.metric import Metric
from duly.domain.overlap import OverlapPolicy
from duly.domain.workflow.step import Step
from duly.ports.fire_audit import Found, Round
from duly.ports.letters import Settling
from duly.ports.store import WorkerAbout
from duly.usecases.inspect import Counts, Fleet
from duly.usecases.metrics import Metrics, StoreMetrics
from tests.conformance.ledger import raw, tables
from tests.conformance.workflows import HandClock, Works
from tests.conformance.world import START, World

ADMIN = Actor(1, "default", Role.ADMIN, "test")
LIVE = (State.SCHEDULED, State.BLOCKED, State.PENDING, State.RUNNING)
# Of a dead step its run is the letter.
LETTERS = """SELECT o.id FROM outcomes o JOIN executions e ON e.id = o.id
             WHERE o.state = 5 AND e.trigger <> 5 AND o.id NOT IN (SELECT id FROM settled)"""
ROUTES = "SELECT route, pool, labels, handler FROM routes"


class Counting:
    """A world whose store is listened to."""

    def __init__(self, engine: Engine) -> None:
        self.meter = Meter()
        self.engine = engine
        self.world = World(engine)
        self.clock = HandClock(self.world)
        self.world.store = metered(store_on(engine, self.meter), self.meter, self.clock)
        self.works = Works(self.world)
        self.tenants = [ADMIN.tenant]

    def counted(self, metric: Metric) -> dict[str, float]:
        found = next((family for family in self.meter.families() if family.metric is metric), None)
        return {} if found is None else {"/".join(sample.labels): sample.value for sample in found.samples if sample.value}

    def observed(self, metric: Metric) -> dict[str, int]:
        found = next((family for family in self.meter.families() if family.metric is metric), None)
        return {} if found is None else {"/".join(sample.labels): sum(sample.buckets) for sample in found.samples}

    async def gauges(self, metric: Metric, *, by_tenant: bool = False) -> dict[str, float]:
        store = self.world.store
        read = StoreMetrics(
            "default",
            store.readings,
            store.ready,
            store.loads,
            store.insights,
            store.leases,
            store.figures,
            store.health,
            self.clock,
            by_tenant=by_tenant,
        )
        families = await Metrics(self.meter, [read]).gather()
        found = next((family for family in families if family.metric is metric), None)
        return {} if found is None else {"/".join(sample.labels): sample.value for sample in found.samples}

    async def counts(self) -> list[Counts]:
        """What the API says to each tenant, and the dashboard with it."""
        store = self.world.store
        fleet = Fleet(store.insights, store.search, self.clock)
        return [await fleet.counts(replace(ADMIN, tenant=tenant)) for tenant in self.tenants]

    async def letters(self) -> int:
        """How many dead letters the API lists for all tenants."""
        found = [await self.world.store.letters.open_letters(tenant, None, None, 1000) for tenant in self.tenants]
        return sum(len(letters) for letters, _ in found)

    async def routes_of(self, waiting: list[dict[str, Any]]) -> list[str]:
        names = {row["route"]: "/".join((row["pool"], row["labels"], row["handler"])) for row in await raw(self.engine, ROUTES)}
        return [names[row["route"]] for row in waiting]


@pytest.fixture
def counting(engine: Engine) -> Counting:
    return Counting(engine)


async def ledger(engine: Engine) -> dict[Metric, dict[str, float]]:
    """The same counters, from the tables."""
    outcomes = await raw(engine, "SELECT state, worker, error FROM outcomes")
    attempts = await raw(engine, "SELECT outcome, retry_at FROM attempts")
    executions = await raw(engine, "SELECT trigger FROM executions")
    skipped = [row["error"] for row in outcomes if row["state"] == State.SKIPPED]
    reasons = [(loads(error) if isinstance(error, str) else error)["reason"] for error in skipped]
    succeeded = sum(row["state"] == State.SUCCEEDED and row["worker"] is not None for row in outcomes)
    retried = [row["outcome"] for row in attempts if row["retry_at"] is not None and row["outcome"] != Outcome.RELEASED]
    ended = Counter(Outcome(row["outcome"]).name for row in attempts) + Counter({Outcome.SUCCEEDED.name: succeeded})
    return {
        catalogue.CREATED: {"": len(executions)},
        catalogue.FIRES: {"": sum(row["trigger"] == 0 for row in executions)},
        catalogue.SKIPS: dict(Counter(reasons)),
        catalogue.OUTCOMES: dict(Counter(State(row["state"]).name for row in outcomes)),
        catalogue.ATTEMPTS: dict(ended),
        catalogue.RETRIES: dict(Counter(Outcome(outcome).name for outcome in retried)),
    }


async def assert_all_agree(counting: Counting) -> None:
    truth = await ledger(counting.engine)
    # What has not happened is 0 to one and nothing to the other.
    told = {metric.name: counting.counted(metric) for metric in truth}
    assert told == {metric.name: {key: count for key, count in found.items() if count} for metric, found in truth.items()}
    assert_nothing_was_born_late(counting)
    await assert_what_stands_agrees(counting)


def assert_nothing_was_born_late(counting: Counting) -> None:
    """Whatever was counted has been there as 0 from the start, where the values of the labels are a closed list."""
    for family in counting.meter.families():
        if (known := catalogue.FROM_THE_START.get(family.metric)) is not None:
            assert {sample.labels for sample in family.samples} == set(known), family.metric.name


async def assert_what_stands_agrees(counting: Counting) -> None:
    """Gauges, what the API counts for each tenant, and the tables. What was created has ended, stands somewhere, or is a run under way."""
    rows, counts = await tables(counting.engine), await counting.counts()
    held = dict(Counter(await counting.routes_of(rows["ready"])))
    stands = await counting.gauges(catalogue.STANDING)
    letters = await raw(counting.engine, LETTERS)
    running = len(running_of(rows))
    assert stands == {"SCHEDULED": len(rows["timers"]), "BLOCKED": len(rows["blocked"]), "PENDING": len(rows["ready"]), "RUNNING": running}
    assert stands == {state.name: sum(one.executions[state] for one in counts) for state in LIVE}
    dead = sum(row["state"] == State.DEAD for row in rows["outcomes"])
    assert sum(one.executions[State.DEAD] for one in counts) == dead
    assert await counting.gauges(catalogue.DEAD_LETTERS) == {"": len(letters)} == {"": await counting.letters()}
    assert await counting.gauges(catalogue.DEPTH) == held
    by_pool: Counter[str] = Counter()
    for route, depth in held.items():
        by_pool[route.partition("/")[0]] += depth
    pools = [pool for one in counts for pool in one.pools]
    for metric, found in (
        (catalogue.POOL_PENDING, [(pool.name, pool.pending) for pool in pools]),
        (catalogue.POOL_RUNNING, [(pool.name, pool.running) for pool in pools]),
    ):
        told = {pool: count for pool, count in (await counting.gauges(metric)).items() if count}
        shown: Counter[str] = Counter()
        for name, count in found:
            shown[name] += count
        assert told == {name: count for name, count in shown.items() if count}, metric.name
    assert {name: count for name, count in (await counting.gauges(catalogue.POOL_PENDING)).items() if count} == dict(by_pool)
    assert sum((await counting.gauges(catalogue.POOL_RUNNING)).values()) == running
    ended = sum(counting.counted(catalogue.OUTCOMES).values())
    assert counting.counted(catalogue.CREATED).get("", 0) == ended + sum(stands.values()) + len(rows["flows"])


def running_of(rows: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Members of leases whose attempt has not ended."""
    over = {(row["id"], row["attempt"]) for row in rows["attempts"]}
    final = {row["id"] for row in rows["outcomes"]}
    return [member for member in rows["members"] if member["id"] not in final and (member["id"], member["attempt"]) not in over]


async def test_metrics_the_api_and_the_ledger_agree_whatever_happens(counting: Counting) -> None:
    world = counting.world
    plain, failing = await world.job(), await world.job()
    await assert_all_agree(counting)

    # Successes, failures until the end, a release.
    await world.enqueue(plain, 5)
    assert len(await world.run(of=[plain])) == 5
    await world.enqueue(failing, 3)
    for outcome in (Outcome.FAILED, Outcome.TIMED_OUT, Outcome.FAILED):
        await assert_all_agree(counting)
        assert await world.run(outcome, of=[failing])
        world.turn(20 * SECOND)
        await world.promote()
    await world.enqueue(plain, 2)
    await world.run(Outcome.RELEASED, of=[plain])
    await world.promote()
    await assert_all_agree(counting)

    # Cancelled while it waits, asked twice, while it is scheduled, while it runs, and while it runs and fails.
    waiting, later = (await world.enqueue(plain))[0], (await world.enqueue(plain, due_in=HOUR))[0]
    for _ in range(2):
        await world.cancel(waiting, later)
    await assert_all_agree(counting)
    await world.run(of=[plain])
    running, failed = await world.enqueue(plain, 2)
    worker = await world.worker()
    claimed = await world.claimed(worker, of=[plain])
    await world.cancel(running, failed)
    await world.finish(worker, claimed, Outcome.CANCELLED, [running])
    await world.finish(worker, claimed, Outcome.FAILED, [failed])
    await world.store.liveness.retire(worker, world.now)
    wished = (await world.enqueue(plain, due_in=SECOND))[0]
    await world.wish(wished)
    world.turn(MINUTE)
    await world.promote()
    assert await world.states([running, failed, wished]) == [State.CANCELLED] * 3
    await assert_all_agree(counting)

    # Fires, of which some are missed and some overlap; one that replaces who waits.
    await world.job(every=MINUTE, catch_up=CatchUpPolicy.LATEST)
    await world.job(every=MINUTE, overlap=OverlapPolicy.SKIP)
    await world.job(every=MINUTE, overlap=OverlapPolicy.QUEUE_ONE)
    await world.job(every=MINUTE, overlap=OverlapPolicy.CANCEL_PREVIOUS)
    for minutes in (0, 1, 5, 1):
        world.turn(minutes * MINUTE)
        await world.fire()
        await assert_all_agree(counting)
    await world.run()

    # A worker is lost with its work, again and again until that is dead; one of its executions was cancelled meanwhile.
    await world.enqueue(plain, 2)
    for _ in range(4):
        lost = await world.worker()
        if (held := await world.claim(lost, of=[plain])) is None:
            break
        await world.cancel(held.ids[0])
        world.turn(MINUTE)
        await world.lose()
        assert await world.finish(lost, held) == set(held.ids)
        await assert_all_agree(counting)
        world.turn(MINUTE)
        await world.promote()
    assert counting.counted(catalogue.WORKERS_LOST)[""] == len(
        await raw(counting.engine, "SELECT DISTINCT worker FROM attempts WHERE outcome = 4")
    )

    assert set(counting.counted(catalogue.OUTCOMES)) == {"SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED"}
    assert set(counting.counted(catalogue.ATTEMPTS)) == {outcome.name for outcome in Outcome}
    assert set(counting.counted(catalogue.SKIPS)) == {"overlap", "misfire"}
    assert set(counting.counted(catalogue.RETRIES)) == {"FAILED", "TIMED_OUT", "WORKER_LOST"}


async def test_replays_discards_several_routes_and_tenants_and_pruning_leave_no_two_numbers_apart(counting: Counting) -> None:
    world, letters = counting.world, counting.world.store.letters
    counting.tenants.append(await world.add_tenant(2))
    jobs = [await world.job(), await world.job(pool="etl", requires={"region": "eu"}), await world.job(tenant=2, pool="etl")]
    for job in jobs:
        await world.enqueue(job, 4)
        await world.enqueue(job, 2, due_in=HOUR)
    await assert_all_agree(counting)

    # Half of what waits runs: of each route another number is left.
    live = [WorkerAbout(pool) for pool in ("default", "etl", "etl")]
    workers = [await world.store.liveness.register("w", about, world.now, HOUR) for about in live]
    claims = [await world.claimed(worker, 1 + nth, of=[job]) for nth, (worker, job) in enumerate(zip(workers, jobs, strict=True))]
    await assert_all_agree(counting)
    # One lease of several has ended in part.
    await world.finish(workers[2], claims[2], Outcome.SUCCEEDED, [claims[2].ids[0]])
    await world.finish(workers[2], claims[2], Outcome.FAILED, [claims[2].ids[1]])
    await assert_all_agree(counting)
    for worker, claimed, ended in zip(workers, claims, (0, 0, 2), strict=True):
        if claimed.ids[ended:]:
            await world.finish(worker, claimed, Outcome.FAILED, claimed.ids[ended:])
    await assert_all_agree(counting)

    # All of them die; some are replayed, some discarded, and nobody is counted twice for being asked twice.
    for _ in range(4):
        world.turn(20 * SECOND)
        await world.promote()
        await world.run(Outcome.FAILED)
        await assert_all_agree(counting)
    dead = [row["id"] for row in await raw(counting.engine, "SELECT id FROM outcomes WHERE state = 5 ORDER BY id")]
    assert len(dead) > 6
    mine = [id for id in dead if (await world.store.insights.execution(1, id)) is not None]
    (again,) = world.new_executions(jobs[0], 1)
    for _ in range(2):
        await letters.replay([(mine[0], again)], "test", world.now)
        await letters.settle(mine[1:3], Settling.DISCARDED, "test", world.now)
        await assert_all_agree(counting)
    await world.run(of=[jobs[0]])
    await assert_all_agree(counting)

    # What is scheduled is cancelled or comes due; then all that has ended is pruned, which no counter hears of and every gauge does.
    waiting = [row["id"] for row in (await tables(counting.engine))["timers"]]
    await world.cancel(*waiting[:2])
    world.turn(2 * HOUR)
    await world.promote()
    await assert_all_agree(counting)
    await world.run()
    await assert_all_agree(counting)
    before = counting.counted(catalogue.OUTCOMES)
    world.turn(3 * DAY)
    while await world.store.retention.prune(world.now - DAY, world.now, 100):
        pass
    assert (await raw(counting.engine, "SELECT count(*) AS n FROM outcomes"))[0]["n"] == 0
    assert counting.counted(catalogue.OUTCOMES) == before
    await assert_what_stands_agrees(counting)


async def test_workflows_are_counted_where_they_end(counting: Counting) -> None:
    works = counting.works
    target = works.world.spec().target
    job = await works.workflow(Step(name="first", target=target), Step(name="then", target=target, after=("first",)))
    for outcome in (Outcome.SUCCEEDED, Outcome.FAILED):
        await works.begin(job)
        while (taken := await works.take())[1] is not None:
            worker, claimed = taken
            assert claimed is not None
            reports = await works.reports(claimed, outcome, "1")
            await counting.world.store.outcomes.finish(worker, reports, [claimed.lease], counting.world.now)
        await assert_all_agree(counting)

    # Two runs and their steps: of the second the one failed and the other was never begun.
    assert counting.counted(catalogue.OUTCOMES) == {"SUCCEEDED": 3, "DEAD": 2, "SKIPPED": 1}
    assert await counting.world.store.alerts.letters(1, 0) == 1
    assert await counting.gauges(catalogue.DEAD_LETTERS) == {"": 1}


async def test_an_end_that_is_reported_twice_over_http_counts_once(counting: Counting) -> None:
    world = counting.world
    good, bad = await world.enqueue(await world.job(), 2)
    worker = await world.worker()
    claimed = await world.claimed(worker)
    reports = [*await world.ended(claimed, Outcome.SUCCEEDED, [good]), *await world.ended(claimed, Outcome.FAILED, [bad])]
    for _ in range(2):
        await world.store.desk.settle(worker, reports, [(claimed.lease, id) for id in claimed.ids], world.now)

    assert counting.counted(catalogue.ATTEMPTS) == {"SUCCEEDED": 1, "FAILED": 1}
    await assert_all_agree(counting)


async def test_what_the_store_refuses_is_counted_by_what_it_was(counting: Counting) -> None:
    world = counting.world
    await world.enqueue(await world.job())
    worker = await world.worker()
    claimed = await world.claimed(worker)
    world.turn(MINUTE)
    await world.lose()
    store, id = world.store, claimed.ids[0]

    await world.finish(worker, claimed)
    await store.checkpoints.save(worker, claimed.lease, id, 1, "{}", world.now)
    await store.outcomes.append_logs(worker, [(claimed.lease, id, 1, LogLine(world.now, "info", "late"))] * 2)
    await world.job(every=MINUTE)
    firing = await world.decide()
    await world.fire(firing)
    await world.fire(firing)
    await world.own_shards("another")
    await store.leases.renew("dispatcher", {0: 1, 1: 1}, world.now, MINUTE)

    assert_nothing_was_born_late(counting)
    assert counting.counted(catalogue.REFUSED) == {"finish": 1, "checkpoint": 1, "log": 2, "fire": 1, "renew": 2}
    assert counting.counted(catalogue.ATTEMPTS) == {"WORKER_LOST": 1}


async def test_lateness_sizes_and_durations_are_told_by_batches(counting: Counting) -> None:
    world = counting.world
    job = await world.job()
    await world.enqueue(job, 7)
    await world.store.ready.routes()
    world.turn(3 * SECOND)
    await world.run()
    await world.job(every=MINUTE, anchor=world.now - SECOND)
    await world.fire()

    assert counting.observed(catalogue.START_LATENESS) == {"default": 7}
    assert counting.observed(catalogue.RUN) == {"": 7}
    assert counting.observed(catalogue.FIRE_LATENESS) == {"": 1}
    assert counting.observed(catalogue.BATCH) == {"enqueue": 1, "claim": 1, "finish": 1, "fire": 1}
    late = next(family for family in counting.meter.families() if family.metric is catalogue.START_LATENESS).samples[0]
    assert late.value == 21.0
    assert dict(zip(catalogue.START_LATENESS.bounds, late.buckets, strict=False))[5.0] == 7


async def test_a_retry_is_not_called_late_by_the_time_of_its_first_attempt(counting: Counting) -> None:
    world = counting.world
    await world.enqueue(await world.job())
    await world.store.ready.routes()
    await world.run(Outcome.FAILED)
    world.turn(HOUR)
    await world.promote()
    await world.run()

    assert counting.observed(catalogue.START_LATENESS) == {"default": 1}


async def test_queues_pools_and_shards_are_read_when_asked(counting: Counting) -> None:
    world = counting.world
    await world.own_shards()
    await world.enqueue(await world.job(pool="etl", requires={"region": "eu"}), 3)
    await world.store.liveness.register("w", WorkerAbout("default", slots=4), world.now, HOUR)
    await world.enqueue(await world.job())
    world.turn(2 * SECOND)

    depths = await counting.gauges(catalogue.DEPTH)
    assert {key.split("/")[0]: depth for key, depth in depths.items()} == {"etl": 3, "default": 1}
    assert all("eu" in key for key in depths if key.startswith("etl"))
    assert set((await counting.gauges(catalogue.OLDEST)).values()) == {2.0}
    assert await counting.gauges(catalogue.POOL_PENDING) == {"default": 1, "etl": 3}
    assert await counting.gauges(catalogue.SHARDS) == {"owned": 64, "free": 0}
    assert len(await counting.gauges(catalogue.EPOCHS)) == 64
    assert await counting.gauges(catalogue.STORE_UP) == {"default": 1}
    assert await counting.gauges(catalogue.TENANT_PENDING) == {}
    assert await counting.gauges(catalogue.TENANT_PENDING, by_tenant=True) == {"default": 4}


async def test_how_long_the_longest_has_run_is_told_by_pool(counting: Counting) -> None:
    world = counting.world
    await world.enqueue(await world.job(), 2)
    worker = await world.worker(ttl=HOUR)
    await world.claimed(worker, 1)
    world.turn(90 * SECOND)
    await world.claimed(worker, 1)

    assert await counting.gauges(catalogue.POOL_LONGEST) == {"default": 90.0}


async def test_what_the_auditor_misses_is_told_until_it_comes_to_light(counting: Counting) -> None:
    world, audit = counting.world, counting.world.store.fire_audit
    job = await world.job(every=MINUTE)
    assert await counting.gauges(catalogue.MISSING) == {"": 0}

    assert await audit.take("auditor", world.now, HOUR)
    lost = [Missed(job.id, world.now - nth * MINUTE, 1, Flaw.MISSING, world.now) for nth in (1, 2, 3)]
    await audit.found("auditor", Round(), Found(lost), world.now)
    assert await counting.gauges(catalogue.MISSING) == {"": 3}
    await audit.found("auditor", Round(), Found(resolved=[(item.job_id, item.at) for item in lost[:2]]), world.now)
    assert await counting.gauges(catalogue.MISSING) == {"": 1}


async def test_what_runs_for_longer_than_its_job_mostly_takes_is_told(counting: Counting) -> None:
    world, store = counting.world, counting.world.store
    known, unknown = await world.job(), await world.job()
    usual = Sketch()
    usual.add([20 * SECOND] * 10, world.now)
    await store.figures.count(0, None, known.id, {known.id: (1, usual)}, world.now)
    worker = await world.worker(ttl=DAY)
    await world.enqueue(known, 3)
    first = await world.claimed(worker, of=[known])
    await world.enqueue(unknown, 2)
    await world.claimed(worker, of=[unknown])

    world.turn(35 * SECOND)
    await world.enqueue(known, 1)
    await world.claimed(worker, of=[known])
    assert await counting.gauges(catalogue.OVERRUNS) == {"": 0}
    world.turn(10 * SECOND)
    assert await counting.gauges(catalogue.OVERRUNS) == {"": 3}
    # The rest of the lease is still held.
    await store.outcomes.finish(worker, await world.ended(first, Outcome.SUCCEEDED, [first.ids[0]]), [], world.now)
    await store.outcomes.finish(worker, await world.ended(first, Outcome.FAILED, [first.ids[1]]), [], world.now)
    assert await counting.gauges(catalogue.OVERRUNS) == {"": 1}


async def test_a_store_that_is_away_is_said_to_be_and_nothing_else_of_it(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*args: Any) -> Any:
        raise Unavailable("DULY-E501", "away")

    world = counting.world
    monkeypatch.setattr(world.store.health, "ping", away)

    assert await counting.gauges(catalogue.STORE_UP) == {"default": 0}
    assert await counting.gauges(catalogue.STANDING) == {}
    monkeypatch.setattr(world.store.ready._inner, "claim", away)  # type: ignore[attr-defined]
    with pytest.raises(Unavailable):
        await world.store.ready.claim(1, [], START)
    assert counting.counted(catalogue.STORE_ERRORS) == {"claim/unavailable": 1}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_no_statement_that_writes_to_the_ledger_is_forgotten(kind: str) -> None:
    """A move between stores is no news; a text that is sent again is told under its own name."""
    writes = re.compile(r"INSERT INTO (?:outcomes|executions|attempts)\b")
    writing = {name for name, statement in statements(kind).items() if writes.search(statement.text)}
    again = {name for name in writing if name.endswith("_again") and name.removesuffix("_again") in TELLS}

    assert writing - again - TELLS.keys() == {"move_execution", "move_outcome", "move_attempt"}


async def test_what_was_there_before_is_not_counted_again(counting: Counting) -> None:
    world = counting.world
    made = world.new_executions(await world.job(), 2)
    await world.store.intake.enqueue(made[:1], world.now)
    await world.store.intake.enqueue(made, world.now)

    assert counting.counted(catalogue.CREATED) == {"": 2}
    await assert_all_agree(counting)
