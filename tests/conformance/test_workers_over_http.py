"""What workers over HTTP ask, on every engine: whatever they say, twice and in any order, an attempt ends once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.adapters.sql.bell import Bell
from duly.domain.access import Actor, Role
from duly.domain.errors import Conflict, NotFound
from duly.domain.execution import LogLine
from duly.domain.instants import MINUTE, SECOND
from duly.domain.lifecycle import Outcome, State
from duly.domain.limits import Limits
from duly.domain.overlap import OverlapPolicy
from duly.ports.store import WorkerAbout
from duly.usecases import log_bounds, workers
from duly.usecases.workers import Leased, Report, Workers
from tests.conformance.ledger import raw
from tests.conformance.test_races import Opener, worlds
from tests.conformance.world import TTL, World

ME = Actor(1, "default", Role.WORKER, "mine")
STRANGER = Actor(2, "tenant-2", Role.WORKER, "theirs")


class WorldClock:
    """The world's time, as use cases read it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> int:
        return self._world.now

    def boottime(self) -> int:
        return self._world.now


class Site:
    """The use cases on a world's store, and a worker."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.workers = Workers(world.store, WorldClock(world), world.chance.getrandbits, Bell(), TTL)

    async def register(self, actor: Actor = ME, handlers: tuple[str, ...] = ("noop",), **about: Any) -> int:
        return await self.workers.register(actor, "w", WorkerAbout("default", handlers=list(handlers), slots=4, **about), None)

    async def lease(self, worker: int, most: int = 100, known: tuple[int, ...] = ()) -> Leased | None:
        return await self.workers.lease(ME, worker, most, known)

    async def leased(self, worker: int, most: int = 100, known: tuple[int, ...] = ()) -> Leased:
        found = await self.lease(worker, most, known)
        assert found is not None
        return found

    async def end(self, worker: int, leased: Leased, outcome: Outcome, nth: int = 0, **more: Any) -> Any:
        report = Report(id=leased.claimed.ids[nth], lease=leased.claimed.lease, outcome=outcome, **more)
        return await self.workers.end(ME, worker, report)


@pytest.fixture
def site(world: World) -> Site:
    return Site(world)


async def test_a_payload_that_nobody_can_decode_is_dead_and_its_neighbours_are_leased(site: Site) -> None:
    job = await site.world.job(limits=Limits(max_concurrent=2))
    bad, good, waiting = [(await site.world.enqueue(job, payload=payload))[0] for payload in ('{"n":1e400}', "1", "2")]
    worker = await site.register()

    leased = await site.leased(worker)

    assert leased.claimed.ids == [good]
    assert await site.world.states([bad, good, waiting]) == [State.DEAD, State.RUNNING, State.PENDING]
    assert "PayloadUnreadable" in (await site.world.execution(bad)).error


async def test_what_does_not_fit_into_one_answer_goes_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LARGEST_LEASE", 100_000)
    own = await site.world.job(payload=f'"{"x" * 30_000}"')
    runs = [*await site.world.enqueue(own, 2), *await site.world.enqueue(own, 3, payload=f'"{"y" * 30_000}"')]
    worker = await site.register()

    first = await site.leased(worker)
    await site.world.promote()
    second = await site.leased(worker, known=(first.claimed.lease,))

    assert [len(leased.claimed.ids) for leased in (first, second)] == [3, 2]
    assert sorted(first.claimed.ids + second.claimed.ids) == sorted(runs)
    assert {(await site.world.execution(run)).state for run in runs} == {State.RUNNING}


async def test_what_a_newer_release_wrote_goes_back_with_its_slot(site: Site) -> None:
    job = await site.world.job(limits=Limits(max_concurrent=1))
    first, second = await site.world.enqueue(job, 2)
    number = job.version.number
    await raw(site.world.engine, f"UPDATE job_versions SET definition = '[]' WHERE id = {number}")

    assert await site.lease(await site.register()) is None

    assert await site.world.states([first, second]) == [State.SCHEDULED, State.PENDING]


async def test_an_execution_is_leased_and_completed(site: Site) -> None:
    [run] = await site.world.enqueue(await site.world.job())
    worker = await site.register()

    leased = await site.leased(worker)
    ended = await site.end(worker, leased, Outcome.SUCCEEDED, result='{"rows":12}')

    assert leased.claimed.ids == [run]
    assert (ended.outcome, ended.state) == (Outcome.SUCCEEDED, State.SUCCEEDED)
    assert (await site.world.execution(run)).result == '{"rows":12}'
    assert await site.lease(worker) is None


async def test_a_lease_whose_answer_was_lost_is_answered_again_until_it_is_known(site: Site) -> None:
    await site.world.enqueue(await site.world.job(), 3)
    worker = await site.register()
    first = await site.leased(worker, 2)

    again = await site.leased(worker, 2)
    other = await site.leased(worker, 2, known=(first.claimed.lease,))

    assert (again.claimed.lease, sorted(again.claimed.ids)) == (first.claimed.lease, sorted(first.claimed.ids))
    assert len(other.claimed.ids) == 1
    assert other.claimed.lease > first.claimed.lease
    assert await site.lease(worker, known=(first.claimed.lease, other.claimed.lease)) is None


async def test_what_was_reported_is_not_answered_again(site: Site) -> None:
    await site.world.enqueue(await site.world.job(), 2)
    worker = await site.register()
    leased = await site.leased(worker)
    await site.end(worker, leased, Outcome.SUCCEEDED)

    again = await site.leased(worker)

    assert again.claimed.ids == leased.claimed.ids[1:]


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CANCELLED, Outcome.RELEASED])
async def test_a_report_may_be_repeated(site: Site, outcome: Outcome) -> None:
    [run] = await site.world.enqueue(await site.world.job())
    worker = await site.register()
    leased = await site.leased(worker)

    first = await site.end(worker, leased, outcome)
    site.world.turn(SECOND)
    again = await site.end(worker, leased, outcome)

    assert again == first
    assert await site.world.outcomes_of(run) == [outcome]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Outcome.FAILED, Outcome.SUCCEEDED),
        (Outcome.SUCCEEDED, Outcome.FAILED),
        (Outcome.RELEASED, Outcome.SUCCEEDED),
        (Outcome.CANCELLED, Outcome.FAILED),
    ],
)
@pytest.mark.parametrize("beside", [0, 1])
async def test_an_attempt_ends_once_and_the_first_end_stands(site: Site, first: Outcome, second: Outcome, beside: int) -> None:
    """Also while the lease lives on for a neighbour: then only the ledger knows that this one has ended."""
    await site.world.enqueue(await site.world.job(), 1 + beside)
    worker = await site.register()
    leased = await site.leased(worker)
    ended = await site.end(worker, leased, first)

    with pytest.raises(Conflict) as refused:
        await site.end(worker, leased, second)

    assert refused.value.code == "DULY-E224"
    assert (await site.world.execution(leased.claimed.ids[0])).state is ended.state


async def test_two_ends_side_by_side_leave_one(open_engine: Opener) -> None:
    async with worlds(open_engine, 2) as (one, other):
        sites = [Site(one), Site(other)]
        job = await one.job()
        for _ in range(20):
            await one.enqueue(job, 2)
            worker = await sites[0].register()
            leased = await sites[0].leased(worker)

            ends = await asyncio.gather(
                sites[0].end(worker, leased, Outcome.SUCCEEDED),
                sites[1].end(worker, leased, Outcome.FAILED, retry=False),
                return_exceptions=True,
            )

            [refused] = [end for end in ends if isinstance(end, Exception)]
            assert isinstance(refused, Conflict)
            assert refused.code == "DULY-E224"
            assert len(await one.outcomes_of(leased.claimed.ids[0])) == 1
            await sites[0].workers.drain(ME, worker, retire=True)
            while (waiting := await one.claim(await one.worker())) is not None:
                await one.finish((await one.store.insights.workers(one.now))[-1].id, waiting)


async def test_the_policy_of_the_job_decides_and_the_worker_may_only_ask_for_less(site: Site) -> None:
    job = await site.world.job()
    await site.world.enqueue(job, 3)
    worker = await site.register()
    leased = await site.leased(worker)

    by_policy = await site.end(worker, leased, Outcome.FAILED, 0, error='{"type":"Oops","message":"x"}')
    later = await site.end(worker, leased, Outcome.TIMED_OUT, 1, retry_after=MINUTE)
    never = await site.end(worker, leased, Outcome.FAILED, 2, retry=False)

    assert (by_policy.state, by_policy.retry_at) == (State.SCHEDULED, site.world.now + 10 * SECOND)
    assert (later.state, later.retry_at) == (State.SCHEDULED, site.world.now + MINUTE)
    assert (never.state, never.retry_at) == (State.DEAD, None)


async def test_attempts_are_counted_by_the_ledger(site: Site) -> None:
    [run] = await site.world.enqueue(await site.world.job())
    states = []
    for _ in range(3):
        worker = await site.register()
        leased = await site.leased(worker)
        states.append((await site.end(worker, leased, Outcome.FAILED, retry_after=0)).state)
        await site.world.promote()

    assert states == [State.SCHEDULED, State.SCHEDULED, State.DEAD]
    assert (await site.world.execution(run)).attempt == 3


async def test_a_worker_takes_the_work_of_its_tenant_only(site: Site) -> None:
    await site.world.add_tenant(2)
    [theirs] = await site.world.enqueue(await site.world.job("theirs", tenant=2))
    mine, stranger = await site.register(), await site.register(STRANGER)

    assert await site.lease(mine) is None
    leased = await site.workers.lease(STRANGER, stranger, 10, ())

    assert leased is not None
    assert leased.claimed.ids == [theirs]
    with pytest.raises(NotFound) as unseen:
        await site.end(mine, leased, Outcome.SUCCEEDED)
    assert unseen.value.code == "DULY-E205"
    with pytest.raises(NotFound) as unknown:
        await site.end(stranger, leased, Outcome.SUCCEEDED)
    assert unknown.value.code == "DULY-E221"
    await site.workers.drain(STRANGER, stranger, retire=True)


async def test_a_worker_takes_what_its_pool_labels_and_handlers_allow(site: Site) -> None:
    for n, (handler, requires) in enumerate([("noop", {}), ("noop", {"gpu": ""}), ("other", {})]):
        await site.world.enqueue(await site.world.job(f"j{n}", handler=handler, requires=requires))
    plain, gpu = await site.register(), await site.register(labels={"gpu": "", "region": "eu"})

    assert len((await site.leased(plain)).claimed.ids) == 1
    assert len((await site.leased(gpu)).claimed.ids) == 1
    assert await site.lease(await site.register(handlers=("third",))) is None


async def test_a_foreign_workers_execution_is_not_there_and_a_lost_one_is_refused(site: Site) -> None:
    [run] = await site.world.enqueue(await site.world.job())
    one, other = await site.register(), await site.register()
    leased = await site.leased(one)

    with pytest.raises(NotFound) as foreign:
        await site.end(other, leased, Outcome.SUCCEEDED)
    site.world.turn(TTL)
    await site.world.lose()
    with pytest.raises(Conflict) as lost:
        await site.end(one, leased, Outcome.SUCCEEDED)
    with pytest.raises(NotFound) as gone:
        await site.workers.heartbeat(ME, one, None)
    with pytest.raises(NotFound) as no_more:
        await site.lease(one)

    assert foreign.value.code == "DULY-E205"
    assert lost.value.code == "DULY-E223"
    assert gone.value.code == no_more.value.code == "DULY-E222"
    assert await site.world.outcomes_of(run) == [Outcome.WORKER_LOST]


async def test_a_stale_fence_of_the_same_worker_is_refused(site: Site) -> None:
    await site.world.enqueue(await site.world.job())
    worker = await site.register()
    stale = await site.leased(worker)
    await site.end(worker, stale, Outcome.FAILED, retry_after=0)
    await site.world.promote()
    current = await site.leased(worker)

    with pytest.raises(Conflict) as refused:
        await site.end(worker, stale, Outcome.SUCCEEDED)

    assert refused.value.code == "DULY-E224"
    assert (await site.end(worker, current, Outcome.SUCCEEDED)).state is State.SUCCEEDED


async def test_a_batch_is_taken_item_by_item(site: Site) -> None:
    runs = await site.world.enqueue(await site.world.job(), 3)
    worker = await site.register()
    leased = await site.leased(worker)
    fence, unknown = leased.claimed.lease, site.world.ids(1)[0]
    good, bad, wrong = leased.claimed.ids

    reported = await site.workers.report(
        ME,
        worker,
        [
            Report(id=good, lease=fence, outcome=Outcome.SUCCEEDED),
            Report(id=good, lease=fence, outcome=Outcome.FAILED),
            Report(id=bad, lease=fence, outcome=Outcome.FAILED),
            Report(id=unknown, lease=fence, outcome=Outcome.SUCCEEDED),
            Report(id=wrong, lease=fence + 1000, outcome=Outcome.SUCCEEDED),
        ],
    )

    codes = [None if item.refusal is None else item.refusal.code for item in reported]
    assert codes == [None, "DULY-E224", None, "DULY-E205", "DULY-E223"]
    assert sorted(state.name for state in await site.world.states(runs)) == ["RUNNING", "SCHEDULED", "SUCCEEDED"]


async def test_a_heartbeat_says_how_far_the_clock_of_the_worker_is_off(site: Site) -> None:
    worker = await site.register(skew=40_000)

    await site.workers.heartbeat(ME, worker, None, -3_000_000)
    await site.workers.heartbeat(ME, worker, None)

    (row,) = await site.world.store.insights.workers(site.world.now)
    assert row.about.skew == -3_000_000


async def test_a_cancel_is_heard_and_a_failure_after_it_is_final(site: Site) -> None:
    [run] = await site.world.enqueue(await site.world.job())
    worker = await site.register()
    leased = await site.leased(worker)
    assert await site.workers.heartbeat(ME, worker, None) == []
    await site.world.cancel(run, kill_after=MINUTE)

    [stop] = await site.workers.heartbeat(ME, worker, None)
    ended = await site.end(worker, leased, Outcome.FAILED)

    assert (stop.id, stop.kill_at) == (run, site.world.now + MINUTE)
    assert (ended.state, ended.retry_at) == (State.CANCELLED, None)


async def test_a_draining_worker_is_given_nothing_new_but_what_it_has(site: Site) -> None:
    await site.world.enqueue(await site.world.job(), 2)
    worker = await site.register()
    leased = await site.leased(worker, 1)

    assert await site.workers.drain(ME, worker, retire=False) == 0

    assert (await site.leased(worker)).claimed.ids == leased.claimed.ids
    assert await site.lease(worker, known=(leased.claimed.lease,)) is None
    assert (await site.end(worker, leased, Outcome.SUCCEEDED)).state is State.SUCCEEDED


async def test_who_retires_gives_back_at_no_cost(site: Site) -> None:
    runs = await site.world.enqueue(await site.world.job(), 2)
    worker = await site.register()
    await site.leased(worker)

    assert await site.workers.drain(ME, worker, retire=True) == 2
    assert await site.workers.drain(ME, worker, retire=True) == 0

    await site.world.promote()
    assert await site.world.states(runs) == [State.PENDING, State.PENDING]
    assert [await site.world.outcomes_of(run) for run in runs] == [[Outcome.RELEASED], [Outcome.RELEASED]]
    with pytest.raises(NotFound):
        await site.workers.heartbeat(ME, worker, None)


async def test_lines_checkpoints_and_progress_are_kept_under_the_lease_alone(site: Site) -> None:
    [run] = await site.world.enqueue(await site.world.job())
    one, other = await site.register(), await site.register()
    leased = await site.leased(one)
    held = (leased.claimed.lease, run)
    line = LogLine(site.world.now, "info", "hello", {"n": 1})

    assert await site.workers.log(ME, one, [(held, line), ((held[0] + 1, run), line)]) == (1, 0)
    assert await site.workers.log(ME, other, [(held, line)]) == (0, 0)
    await site.workers.checkpoint(ME, one, held, 1, '{"at":1}')
    await site.workers.checkpoint(ME, one, held, 1, '{"at":1}')
    await site.workers.checkpoint(ME, one, held, 3, '{"at":3}')
    with pytest.raises(Conflict) as older:
        await site.workers.checkpoint(ME, one, held, 2, '{"at":2}')
    with pytest.raises(NotFound) as foreign:
        await site.workers.checkpoint(ME, other, held, 4, "{}")
    assert await site.workers.progress(ME, one, [(*held, '{"done":1}'), (*held, '{"done":2}')]) == 1
    assert await site.workers.progress(ME, other, [(*held, "{}")]) == 0

    assert (older.value.code, foreign.value.code) == ("DULY-E226", "DULY-E205")
    await site.end(one, leased, Outcome.FAILED, retry_after=0)
    with pytest.raises(Conflict) as late:
        await site.workers.checkpoint(ME, one, held, 5, "{}")
    assert late.value.code == "DULY-E223"
    await site.world.promote()
    again = await site.leased(other)
    assert (again.saved[run].number, again.saved[run].checkpoint, again.losses[run]) == (3, '{"at":3}', 0)


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELLED])
@pytest.mark.parametrize("beside", [0, 1])
async def test_what_has_ended_keeps_nothing_more(site: Site, outcome: Outcome, beside: int) -> None:
    await site.world.enqueue(await site.world.job(), 1 + beside)
    worker = await site.register()
    leased = await site.leased(worker)
    held = (leased.claimed.lease, leased.claimed.ids[0])
    await site.workers.checkpoint(ME, worker, held, 1, "1")
    await site.end(worker, leased, outcome)

    with pytest.raises(Conflict) as refused:
        await site.workers.checkpoint(ME, worker, held, 2, "2")

    assert refused.value.code == "DULY-E223"
    assert await site.workers.progress(ME, worker, [(*held, "2")]) == 0
    assert (await site.world.store.checkpoints.saved([held[1]]))[held[1]].number == 1


async def test_a_place_passes_on_when_its_holder_ends_over_http(site: Site) -> None:
    job = await site.world.job(every=MINUTE, overlap=OverlapPolicy.QUEUE_ONE)
    worker = await site.register()
    await site.world.fire()
    leased = await site.leased(worker)
    await site.workers.heartbeat(ME, worker, 5 * MINUTE)
    site.world.turn(MINUTE)
    await site.world.fire()
    assert await site.lease(worker, known=(leased.claimed.lease,)) is None

    await site.end(worker, leased, Outcome.SUCCEEDED)

    following = await site.leased(worker)
    assert [execution.state for execution in await site.world.of_job(job)] == [State.SUCCEEDED, State.RUNNING]
    assert following.claimed.ids != leased.claimed.ids


async def test_times_are_counted_back_from_the_stores_clock(site: Site) -> None:
    [run] = await site.world.enqueue(await site.world.job())
    worker = await site.register()
    leased = await site.leased(worker)
    site.world.turn(10 * SECOND)

    await site.end(worker, leased, Outcome.SUCCEEDED, took=3 * SECOND, ago=2 * SECOND)

    execution = await site.world.execution(run)
    assert (execution.started_at, execution.finished_at) == (site.world.now - 5 * SECOND, site.world.now - 2 * SECOND)


async def test_nobody_can_have_started_before_the_lease_was_granted(site: Site) -> None:
    [run] = await site.world.enqueue(await site.world.job())
    worker = await site.register()
    granted = site.world.now
    leased = await site.leased(worker)
    site.world.turn(SECOND)

    await site.end(worker, leased, Outcome.SUCCEEDED, took=MINUTE, ago=MINUTE)

    execution = await site.world.execution(run)
    assert (execution.started_at, execution.finished_at) == (granted, granted)


async def test_keys_are_listed_and_revoked_within_their_tenant(world: World) -> None:
    from duly.usecases.access import Access, Keyring

    await world.add_tenant(2)
    clock = WorldClock(world)
    keyring, access = Keyring(world.store.keys, clock, world.chance.getrandbits), Access(world.store.keys, clock)
    row, secret = await keyring.create(ME, Role.WORKER, "gpu", MINUTE)
    actor = await access.recognise(secret)

    assert actor is not None
    assert (actor.role, actor.tenant) == (Role.WORKER, 1)
    assert [kept.id for kept in await keyring.all(ME)] == [row.id]
    assert await keyring.all(STRANGER) == []
    with pytest.raises(NotFound):
        await keyring.revoke(STRANGER, row.id)
    first = await keyring.revoke(ME, row.id)
    world.turn(5 * SECOND)
    assert await access.recognise(secret) is None
    assert (await keyring.revoke(ME, row.id)).revoked_at == first.revoked_at


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RELEASED])
async def test_a_limit_lets_the_next_one_in_when_its_holder_ends_over_http(site: Site, outcome: Outcome) -> None:
    job = await site.world.job(limits=Limits(max_concurrent=1))
    first, second = await site.world.enqueue(job, 2)
    await site.world.promote()
    worker = await site.register()
    leased = await site.leased(worker)
    assert await site.lease(worker, known=(leased.claimed.lease,)) is None

    await site.end(worker, leased, outcome, **({"retry": False} if outcome is Outcome.FAILED else {}))
    await site.world.promote()

    following = await site.leased(worker)
    assert len(following.claimed.ids) == 1
    assert set(following.claimed.ids) <= {first, second}
    assert outcome is Outcome.RELEASED or following.claimed.ids != leased.claimed.ids


async def test_what_an_attempt_logs_over_http_is_bounded_and_says_what_is_missing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_bounds, "MOST_LINES", 5)
    [run] = await site.world.enqueue(await site.world.job())
    worker = await site.register()
    leased = await site.leased(worker)
    held = (leased.claimed.lease, run)
    line = LogLine(site.world.now, "info", "hello")
    # Another server counts what this one has taken.
    other = Site(site.world)

    assert await site.workers.log(ME, worker, [(held, line)] * 3) == (3, 0)
    assert await other.workers.log(ME, worker, [(held, line)] * 4) == (2, 2)
    assert await other.workers.log(ME, worker, [(held, line)] * 2) == (0, 2)
    await other.end(worker, leased, Outcome.SUCCEEDED)

    kept = [line.message for _, _, line in await site.world.store.insights.logs(run, None, 0, 100)]
    assert kept == ["hello"] * 5 + ["more than 10,000 lines or 4 MiB: the rest is not kept", "not kept: 4 lines, 20 bytes"]


async def test_a_long_flood_over_http_is_counted_anew_now_and_then(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_bounds, "MOST_LINES", 6)
    monkeypatch.setattr(log_bounds, "COUNTED_EVERY", 2)
    [run] = await site.world.enqueue(await site.world.job())
    worker = await site.register()
    leased = await site.leased(worker)
    held = (leased.claimed.lease, run)
    line = LogLine(site.world.now, "info", "x")
    other = Site(site.world)

    told = [await one.workers.log(ME, worker, [(held, line)]) for one in (site, other) * 6]

    # Each of the two may be over by what it takes between two counts, and no further.
    assert 6 <= sum(kept for kept, _ in told) <= 6 + 2
    assert [dropped for _, dropped in told[-2:]] == [1, 1]
