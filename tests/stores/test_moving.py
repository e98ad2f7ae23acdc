"""A tenant moves from one store to another: nothing is lost, nothing fires twice, wherever the move is interrupted."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from duly.adapters.sql import moving
from duly.adapters.sql.statements import statements
from duly.domain.access import Actor, Role
from duly.domain.audit import Deed, check_end, check_links
from duly.domain.errors import Conflict, Invalid, TooMany, Unavailable
from duly.domain.homes import Standing
from duly.domain.instants import MINUTE, SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import JobState, Outcome, State
from duly.domain.overlap import OverlapPolicy
from duly.domain.tenants import Quotas, Tenant
from tests.conformance.ledger import raw
from tests.conformance.world import World
from tests.stores.moving import PLAN, Interrupted, Two

# What is not copied, and why: it is every store's own, moves in another form, or ends with the move.
STAYS = {
    "tenants": "settled",
    "routes": "by what they stand for",
    "ready": "asleep as timers",
    "leases": "drained",
    "leased": "drained",
    "workers": "of the store",
    "shards": "of the store",
    "dispatchers": "of the store",
    "sessions": "people log in again",
    "login_links": "for five minutes",
    "audit": "by its links",
    "audit_links": "by itself",
    "audit_heads": "by itself",
    "audit_progress": "of the store",
    "duly_migrations": "of the store",
    "outbox": "of the store",
    "heralds": "of the store",
    "watches": "of the store",
    "incidents": "what holds there opens one there",
    "deliveries": "with their incidents",
    "missed_fires": "what is missing there is found there",
    "unexported": "of the store",
    "exporters": "of the store",
    "flows": "a tenant with runs under way does not move",
    "flow_waits": "with their runs",
    "flow_seeds": "with their runs",
    "signals": "with their runs",
}
# Given anew by the store, or counted anew by whoever comes next.
NEW_THERE = {("job_versions", "id"), ("logs", "seq"), ("headroom", "counted"), ("headroom", "granted"), ("headroom", "counted_at")}
# Of workflows, with which a tenant does not move.
OF_WORKFLOWS = {
    ("job_versions", "workflow"),
    ("job_versions", "step"),
    ("executions", "run"),
    ("executions", "step"),
    ("executions", "nth"),
}


async def settled_in(two: Two) -> tuple[Tenant, dict[str, Job]]:
    """A tenant that has everything: what fires, waits, is blocked, retries, has ended; and a neighbour that fires too."""
    acme = await two.tenant(quotas=Quotas(max_concurrent=3, max_queued=1000))
    a = two.a
    jobs = {
        "minutely": await a.job("minutely", handler="minutely", tenant=acme.number, every=MINUTE),
        "lonely": await a.job("lonely", handler="lonely", tenant=acme.number, every=MINUTE, overlap=OverlapPolicy.QUEUE_ONE),
        "paused": await a.job("paused", handler="paused", tenant=acme.number, every=MINUTE),
        "asked": await a.job("asked", handler="asked", tenant=acme.number),
        "neighbour": await a.job("neighbour", handler="neighbour", every=MINUTE),
    }
    await a.pause(jobs["paused"])
    await a.fire()
    await a.run(of=[jobs["minutely"]])
    await a.enqueue(jobs["asked"], 2, due_in=30 * SECOND, payload='{"n": 1}')
    failing = await a.worker()
    claimed = await a.claimed(failing, of=[jobs["lonely"]])
    await a.finish(failing, claimed, Outcome.FAILED)
    await a.enqueue(jobs["asked"], 5)
    return acme, jobs


async def fires_of(two: Two, job: Job) -> Counter[int]:
    """How often each instant of a job has an execution, over both stores."""
    found = [*await two.a.of_job(job), *await two.b.of_job(job)]
    return Counter(execution.due_at for execution in {execution.id: execution for execution in found}.values())


async def ran(two: Two, job: Job) -> list[Any]:
    return [e for world in (two.a, two.b) for e in await world.of_job(job) if e.state is State.SUCCEEDED]


async def live_on(two: Two, jobs: dict[str, Job], minutes: int) -> None:
    """Both stores dispatch and work, as their processes do, whatever the tenant's standing."""
    for _ in range(minutes):
        two.clock.now += MINUTE
        for world in (two.a, two.b):
            await world.fire()
            for _ in range(3):
                await world.promote()
                await world.run()
                await world.store.losses.unstick(world.now, 100)


async def test_a_tenant_takes_all_that_it_has_along(two: Two) -> None:
    acme, jobs = await settled_in(two)
    before = {name: [replace(e, route=0) if hasattr(e, "route") else e for e in await two.a.of_job(job)] for name, job in jobs.items()}

    moved = await two.moves().move("acme", PLAN, lambda words: None)

    assert (moved.source, dict(moved.counts or {})["jobs"]) == ("a", 4)
    assert await two.standings() == (Standing.GONE, Standing.HERE)
    for name in ("minutely", "lonely", "paused", "asked"):
        there = await two.b.of_job(jobs[name])
        assert [e.id for e in there] == [e.id for e in before[name]]
        assert [(e.payload, e.due_at) for e in there] == [(e.payload, e.due_at) for e in before[name]]
        assert await two.a.of_job(jobs[name]) == []
    paused = await two.b.read(jobs["paused"].id, acme.number)
    assert paused.state is JobState.PAUSED
    found = await two.b.store.tenants.named("acme")
    assert found is not None
    assert (found.quotas, found.number) == (acme.quotas, acme.number)


async def test_it_fires_and_runs_there_what_was_due_meanwhile(two: Two) -> None:
    _, jobs = await settled_in(two)
    await two.moves().move("acme", PLAN, lambda words: None)

    await live_on(two, jobs, 3)

    assert set((await fires_of(two, jobs["minutely"])).values()) == {1}
    assert len(await ran(two, jobs["minutely"])) == 4
    assert len(await ran(two, jobs["asked"])) == 7
    assert await two.a.of_job(jobs["minutely"]) == []
    assert set((await fires_of(two, jobs["neighbour"])).values()) == {1}
    assert len(await ran(two, jobs["neighbour"])) == 4


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_wherever_it_is_interrupted_repeating_it_completes_it(two: Two, after: bool, long_form: bool) -> None:
    if after and two.a.engine.name == "postgres" and not long_form:
        pytest.skip("the same from the other side: --long")
    _, jobs = await settled_in(two)

    died = 0
    for nth in range(1, 200):
        try:
            await two.moves(nth, after=after).move("acme", PLAN, lambda words: None)
            break
        except Interrupted:
            died += 1
            # Between two tries the stores live on, and the neighbour is not disturbed.
            if died % 4 == 0:
                await live_on(two, jobs, 1)
            assert (await two.standings()).count(Standing.HERE) <= 1
    await live_on(two, jobs, 2)

    assert died > 15
    assert await two.standings() == (Standing.GONE, Standing.HERE)
    for name in ("minutely", "neighbour", "lonely"):
        assert set((await fires_of(two, jobs[name])).values()) == {1}, name
    assert len(await ran(two, jobs["asked"])) == 7
    # Late by catch-up, never twice: the latest of the missed ones has run, the others say that they were passed over.
    assert {e.state for e in await two.b.of_job(jobs["minutely"])} <= {State.SUCCEEDED, State.SKIPPED}


async def test_a_move_that_is_foreseen_has_not_begun(two: Two) -> None:
    await settled_in(two)
    before = await two.standings()

    assert await two.moves().foresee("acme", "b") == "acme would leave a and live in b; its work would stop for the time of the copy"
    with pytest.raises(Invalid):
        await two.moves().foresee("acme", "c")
    with pytest.raises(Conflict):
        await two.moves().foresee("acme", None)

    assert await two.standings() == before
    await two.moves().move("acme", PLAN, lambda words: None)
    assert "lives in b" in await two.moves().foresee("acme", "b")


@pytest.mark.parametrize("nth", [7, 14])
async def test_a_move_that_has_not_switched_can_be_taken_back(two: Two, nth: int) -> None:
    _, jobs = await settled_in(two)
    with pytest.raises(Interrupted):
        await two.moves(nth).move("acme", PLAN, lambda words: None)
    assert (await two.standings())[0] is Standing.LEAVING
    assert "awake in a again" in await two.moves().foresee("acme", None)

    assert await two.moves().undo("acme", lambda words: None) == "a"

    assert (await two.standings())[0] is Standing.HERE
    await live_on(two, jobs, 2)
    assert len(await ran(two, jobs["asked"])) == 7
    assert set((await fires_of(two, jobs["minutely"])).values()) == {1}
    assert await two.b.of_job(jobs["minutely"]) == []
    with pytest.raises(Conflict):
        await two.moves().undo("acme", lambda words: None)


async def test_a_tenant_with_workflows_stays_and_is_told_why(two: Two) -> None:
    await settled_in(two)
    await raw(two.a.engine, "UPDATE job_versions SET workflow = job_id")

    with pytest.raises(Conflict) as refused:
        await two.moves().move("acme", PLAN, lambda words: None)

    assert refused.value.code == "DULY-E268"
    assert (await two.standings())[0] is Standing.HERE


async def test_it_can_come_back(two: Two) -> None:
    _, jobs = await settled_in(two)
    await two.moves().move("acme", PLAN, lambda words: None)
    await live_on(two, jobs, 1)

    await two.moves().move("acme", replace(PLAN, to="a"), lambda words: None)
    await live_on(two, jobs, 1)

    assert await two.standings() == (Standing.HERE, Standing.GONE)
    assert set((await fires_of(two, jobs["minutely"])).values()) == {1}
    assert len(await ran(two, jobs["asked"])) == 7


async def test_what_a_server_asks_that_has_not_heard_of_it_is_refused(two: Two) -> None:
    acme, jobs = await settled_in(two)
    with pytest.raises(Interrupted):
        await two.moves(9).move("acme", PLAN, lambda words: None)

    actor = Actor(acme.number, "acme", Role.ADMIN, "k")
    with pytest.raises(TooMany, match="on its way"):
        await two.a.enqueue(jobs["asked"])
    deed = Deed(actor, two.a.now, "job.pause", "job", "x")
    with pytest.raises(TooMany):
        await two.a.store.definitions.set_state(acme.number, jobs["asked"].id, JobState.PAUSED, None, None, two.a.now, deed=deed)
    # The neighbour is asked as always.
    assert await two.a.enqueue(jobs["neighbour"])


async def test_running_work_is_waited_for(two: Two) -> None:
    _, jobs = await settled_in(two)
    worker = await two.a.worker()
    claimed = await two.a.claimed(worker, 1, of=[jobs["asked"]])

    with pytest.raises(Unavailable, match="1 executions of acme still run"):
        await two.moves().move("acme", PLAN, lambda words: None)
    # It ends where it began, and its failure waits where nobody fires it.
    await two.a.finish(worker, claimed, Outcome.FAILED)
    two.clock.now += MINUTE
    await two.a.promote()
    assert await two.a.claim(await two.a.worker(), of=[jobs["asked"]]) is None
    await two.moves().move("acme", PLAN, lambda words: None)
    await live_on(two, jobs, 1)

    assert len(await ran(two, jobs["asked"])) == 7


async def test_fences_grow_from_one_store_to_the_other(two: Two) -> None:
    _, jobs = await settled_in(two)
    for _ in range(5):
        await two.a.enqueue(jobs["neighbour"])
        await two.a.run(of=[jobs["neighbour"]])
    highest = await two.a.store.homes.fence()

    await two.moves().move("acme", PLAN, lambda words: None)

    await two.b.promote()
    assert (await two.b.claimed(await two.b.worker())).lease > highest > 0


async def test_the_audit_trail_goes_along(two: Two) -> None:
    acme, jobs = await settled_in(two)
    actor = Actor(acme.number, "acme", Role.ADMIN, "k")
    for name in ("minutely", "asked"):
        deed = Deed(actor, two.a.now, "job.resume", "job", name, job_id=jobs[name].id)
        await two.a.store.definitions.set_state(acme.number, jobs[name].id, JobState.ACTIVE, None, None, two.a.now, deed=deed)

    await two.moves().move("acme", PLAN, lambda words: None)
    while await two.b.store.audit.link(100):
        pass

    stretch = await two.b.store.audit.stretch(acme.number, 0, 100)
    assert [link.record.action for link in stretch.links if link.record] == ["job.resume", "job.resume", "tenant.move", "tenant.arrive"]
    seq, hash, broken = check_links(stretch.head.anchor_seq, stretch.head.anchor_hash, stretch.links)
    assert broken is None
    assert check_end(seq, hash, stretch.head) is None


async def test_history_before_the_bound_stays_behind(two: Two) -> None:
    _, jobs = await settled_in(two)
    two.clock.now += 10 * MINUTE
    await two.a.run(of=[jobs["asked"]])

    await two.moves().move("acme", replace(PLAN, history=MINUTE), lambda words: None)

    assert await two.b.of_job(jobs["minutely"]) == []
    assert len(await two.b.of_job(jobs["asked"])) == 7


async def test_what_cannot_move_says_why(two: Two) -> None:
    acme = await two.tenant()
    with pytest.raises(Invalid, match="no store 'c'"):
        await two.moves().move("acme", replace(PLAN, to="c"), lambda words: None)
    with pytest.raises(Invalid, match="default"):
        await two.moves().move("default", PLAN, lambda words: None)
    # A number that the other store has given by itself.
    await two.b.add_tenant(acme.number)
    with pytest.raises(Conflict, match="another tenant"):
        await two.moves().move("acme", PLAN, lambda words: None)
    assert await two.standings() == (Standing.HERE, None)


async def test_every_column_of_every_table_goes_along_or_is_named_here(two: Two) -> None:
    engine = two.a.engine
    texts = statements(engine.name)
    written = {}
    for name in (*moving.OF_TENANT, *moving.OF_JOBS, *moving.OF_EXECUTIONS):
        found = re.match(r"INSERT INTO (\w+) \(([^)]+)\)", texts[f"move_{name}"].text)
        assert found is not None
        written[found[1]] = {column.strip() for column in found[2].split(",")}

    columns = await columns_of(two.a)

    assert set(columns) == written.keys() | (STAYS.keys() & columns.keys())
    for table, names in written.items():
        assert names == {column for column in columns[table] if (table, column) not in NEW_THERE | OF_WORKFLOWS}, table


async def columns_of(world: World) -> dict[str, set[str]]:
    if world.engine.name == "postgres":
        rows = await raw(
            world.engine,
            "SELECT c.relname AS t, a.attname AS c FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
            "WHERE c.relnamespace = 'duly'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
            "AND a.attnum > 0 AND NOT a.attisdropped",
        )
    else:
        rows = await raw(
            world.engine,
            "SELECT m.name AS t, i.name AS c FROM sqlite_master m JOIN pragma_table_info(m.name) i "
            "WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'",
        )
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row["t"], set()).add(row["c"])
    return found
