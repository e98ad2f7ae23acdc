"""Properties of the pure decisions: ids, retries, catch-up, fairness, shards, lifecycle."""

from __future__ import annotations

import random
from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain import decide
from duly.domain.catchup import CatchUp, CatchUpPolicy, plan_fires
from duly.domain.cron import parse_cron
from duly.domain.durations import format_duration, parse_duration
from duly.domain.errors import Invalid
from duly.domain.execution import DueSchedule, Lost
from duly.domain.fairness import Work, kept_open, share_out
from duly.domain.ids import execution_text, fire_id, id_floor, instant_of, new_ids, parse_execution_id, parse_job_id
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, from_rfc3339, to_rfc3339
from duly.domain.job import JobSpec, JobType, JobVersion, Target, Timing, route_labels, satisfies
from duly.domain.lifecycle import FINAL, TRANSITIONS, SkipReason, State, may_become
from duly.domain.retry import Backoff, RetryPolicy, delay_before_retry
from duly.domain.schedule import CronSchedule, IntervalSchedule, OneTimeSchedule, fires
from duly.domain.shards import SHARDS, preferred_owner, shard_of

NOON = from_rfc3339("2026-03-01T12:00:00Z")
EVERY_MINUTE = CronSchedule(cron=parse_cron("* * * * *"))
instants = st.integers(0, 4_000_000_000).map(lambda second: second * SECOND)
jobs = st.uuids()


# ---------------------------------------------------------------- ids


@given(jobs, instants)
def test_a_fire_has_one_id_for_ever_and_it_carries_its_time(job: UUID, at: int) -> None:
    assert fire_id(job, at) == fire_id(job, at)
    assert (fire_id(job, at).version, instant_of(fire_id(job, at))) == (8, at)


@given(jobs, jobs, instants, instants)
def test_different_fires_have_different_ids(one: UUID, other: UUID, at: int, then: int) -> None:
    assert (fire_id(one, at) == fire_id(other, then)) == ((one, at) == (other, then))


@given(st.integers(1, 2000), instants, st.randoms(use_true_random=False))
def test_new_ids_are_in_order_and_carry_their_time(count: int, now: int, chance: random.Random) -> None:
    ids = new_ids(count, now, chance.getrandbits)

    assert ids == sorted(set(ids))
    assert {(id.version, instant_of(id)) for id in ids} == {(7, now)}
    assert all(id_floor(now) <= id < id_floor(now + 1000) for id in ids)


@given(st.uuids())
def test_ids_are_read_as_they_are_shown(id: UUID) -> None:
    assert parse_execution_id(execution_text(id)) == id


@given(st.text(max_size=50))
def test_any_other_text_is_refused_as_an_id(text: str) -> None:
    with pytest.raises(Invalid, match="is not an id"):
        parse_job_id(text)


# ---------------------------------------------------------------- times and durations


@given(st.integers(0, 253_402_300_799_999_999))
def test_an_instant_survives_the_wire(instant: int) -> None:
    assert from_rfc3339(to_rfc3339(instant)) == instant


@given(st.integers(0, 3000 * DAY))
def test_a_duration_is_read_as_it_is_written(micros: int) -> None:
    assert parse_duration(format_duration(micros)) == micros


@pytest.mark.parametrize("text", ["", "5", "m5", "5 parsecs", "-5m", "5m-", "1e9s", "9" * 400 + "s", "٣m", "5m\n\x00"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_duration(text, field="timeout")
    assert (refused.value.code, refused.value.field) == ("DULY-E104", "timeout")


# ---------------------------------------------------------------- retries

policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 1000),
    backoff=st.sampled_from(Backoff),
    initial_delay=st.integers(0, DAY),
    max_delay=st.integers(0, 30 * DAY),
    multiplier=st.floats(1, 100),
    jitter=st.floats(0, 1),
    max_losses=st.integers(1, 10),
)
chances = st.floats(0, 1, exclude_max=True)


@given(policies, st.integers(1, 1000), chances)
def test_a_wait_is_never_negative_and_never_beyond_its_cap(policy: RetryPolicy, failures: int, chance: float) -> None:
    assert 0 <= delay_before_retry(policy, failures, chance) <= policy.max_delay


@given(policies, st.integers(1, 999))
def test_without_jitter_waits_never_shrink(policy: RetryPolicy, failures: int) -> None:
    assert delay_before_retry(policy, failures, 0.5) <= delay_before_retry(policy, failures + 1, 0.5)


@given(policies, st.integers(1, 1000), chances)
def test_jitter_stays_within_its_bounds(policy: RetryPolicy, failures: int, chance: float) -> None:
    middle = delay_before_retry(policy, failures, 0.5)

    assert delay_before_retry(policy, failures, chance) >= min(middle * (1 - policy.jitter) - 1, policy.max_delay)


@given(policies, st.integers(0, 1000), chances)
def test_a_failure_is_retried_while_the_budget_lasts_and_then_dead(policy: RetryPolicy, failures: int, chance: float) -> None:
    verdict = decide.after_failure(policy, failures, NOON, chance, error="{}")

    if failures + 1 < policy.max_attempts:
        assert verdict.state is State.SCHEDULED
        assert verdict.retry_at is not None
        assert verdict.retry_at >= NOON
    else:
        assert (verdict.state, verdict.retry_at) == (State.DEAD, None)


@given(policies, st.integers(0, 10), st.booleans())
def test_losses_have_their_own_budget(policy: RetryPolicy, losses: int, cancelled: bool) -> None:
    lost = Lost(UUID(int=1), 1, 1, NOON, 1, 999, losses, cancelled, UUID(int=2), 1, False)

    verdict = decide.after_loss(lost, policy, NOON)

    expected = State.CANCELLED if cancelled else State.DEAD if losses + 1 >= policy.max_losses else State.SCHEDULED
    assert verdict.state is expected


# ---------------------------------------------------------------- catch-up


@given(st.sampled_from(CatchUpPolicy), st.integers(0, 400), st.integers(1, 50), st.integers(1, 300), st.integers(1, 90))
def test_catch_up_decides_about_every_target_once_as_documented(
    policy: CatchUpPolicy, minutes: int, most: int, window: int, limit: int
) -> None:
    catch_up = CatchUp(policy=policy, max_count=most, window=window * MINUTE)
    now = NOON + minutes * MINUTE + 30 * SECOND
    decided = []
    at: int | None = NOON
    while at is not None and at <= now:
        plan = plan_fires(EVERY_MINUTE, catch_up, at, now, limit=limit)
        decided += plan.targets
        assert plan.next_at is not None
        assert len(plan.targets) <= limit
        at = plan.next_at

    due = [NOON, *fires(EVERY_MINUTE, NOON, now, 1000)]
    assert [target.at for target in decided] == due
    running = [target.at for target in decided if target.runs]
    if now - due[0] <= catch_up.grace:
        assert running == due
    elif policy is CatchUpPolicy.LATEST:
        assert running == due[-1:]
    elif policy is CatchUpPolicy.NONE:
        assert running == [target for target in due if now - target <= catch_up.grace]
    else:
        assert running == [target for target in due[-most:] if now - target <= catch_up.window]


@given(st.sampled_from(CatchUpPolicy), st.integers(2, 60), st.data())
def test_everything_runs_while_nothing_is_older_than_the_grace(policy: CatchUpPolicy, grace: int, data: st.DataObject) -> None:
    now = NOON + data.draw(st.integers(1, grace)) * MINUTE

    plan = plan_fires(EVERY_MINUTE, CatchUp(policy=policy, max_count=1, window=MINUTE, grace=grace * MINUTE), NOON, now, limit=100)

    assert [target.at for target in plan.targets if target.runs] == [NOON, *fires(EVERY_MINUTE, NOON, now, 100)]


@given(st.sampled_from(CatchUpPolicy), st.integers(0, 500))
def test_a_one_time_target_runs_late_unless_its_policy_says_no(policy: CatchUpPolicy, minutes: int) -> None:
    plan = plan_fires(OneTimeSchedule(at=NOON), CatchUp(policy=policy), NOON, NOON + minutes * MINUTE, limit=10)

    assert plan.next_at is None
    assert [target.runs for target in plan.targets] == [policy is not CatchUpPolicy.NONE or minutes <= 1]


@given(st.sampled_from(CatchUpPolicy), st.integers(0, 2000), st.integers(1, 20), st.integers(1, 300))
def test_how_an_outage_is_cut_into_pieces_does_not_change_what_runs(policy: CatchUpPolicy, seconds: int, most: int, limit: int) -> None:
    every_second = IntervalSchedule(every=SECOND, anchor=0)
    catch_up = CatchUp(policy=policy, max_count=most)
    now = NOON + seconds * SECOND
    running: list[int] = []
    at: int | None = NOON
    while at is not None and at <= now:
        plan = plan_fires(every_second, catch_up, at, now, limit=limit)
        running += [target.at for target in plan.targets if target.runs]
        at = plan.next_at

    whole = plan_fires(every_second, catch_up, NOON, now, limit=10_000)
    assert running == [target.at for target in whole.targets if target.runs]
    if policy is CatchUpPolicy.LATEST and seconds > 60:
        assert running == [now]


def test_a_herd_after_an_outage_is_fired_in_bounded_batches() -> None:
    versions = {number: _version(number) for number in range(1, 501)}
    due = [DueSchedule(UUID(int=number), 0, NOON, number) for number in versions]

    batches = list(decide.firings(due, versions, NOON + 10 * HOUR, most=2000))

    assert sum(len(batch.advances) for batch in batches) == 500
    assert max(len(batch.fires) for batch in batches) <= 2000 + decide.TARGETS_PER_ADVANCE
    assert list(decide.firings([DueSchedule(UUID(int=9), 0, NOON, 999)], versions, NOON)) == []


def test_a_month_of_outage_of_a_dense_schedule_is_decided_in_bounded_pieces() -> None:
    every_second = IntervalSchedule(every=SECOND, anchor=0)

    plan = plan_fires(every_second, CatchUp(), NOON, NOON + 30 * DAY, limit=500)

    assert (len(plan.targets), plan.next_at, any(target.runs for target in plan.targets)) == (500, NOON + 500 * SECOND, False)


def _version(number: int, **spec: object) -> JobVersion:
    job = UUID(int=number)
    timing = Timing(type=JobType.CRON, cron="* * * * *")
    return JobVersion(
        number, job, 1, 1, "default", 1, JobSpec(name=f"job{number}", timing=timing, target=Target(handler="h"), **spec), NOON
    )  # type: ignore[arg-type]


@given(st.lists(st.integers(1, 50), unique=True, max_size=20), st.integers(0, 90))
def test_two_dispatchers_decide_the_same_fires_in_the_order_of_their_ids(numbers: list[int], minutes: int) -> None:
    versions = {number: _version(number) for number in numbers}
    due = [DueSchedule(UUID(int=number), shard_of(UUID(int=number)), NOON, number) for number in numbers]
    now = NOON + minutes * MINUTE

    one, other = decide.fires(due, versions, now), decide.fires(list(reversed(due)), versions, now)

    assert one.fires == other.fires == sorted(one.fires, key=lambda fire: fire.id)
    assert Counter(fire.job_id for fire in one.fires if fire.skip is None) == Counter(
        UUID(int=number) for number in numbers for _ in range(1 if minutes > 1 else minutes + 1)
    )
    assert {fire.skip for fire in one.fires} <= {None, SkipReason.MISFIRE}


# ---------------------------------------------------------------- fairness


@st.composite
def queues(draw: st.DrawFn) -> list[Work]:
    weights = {tenant: draw(st.integers(1, 10)) for tenant in range(1, 6)}
    pairs = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), unique=True, max_size=12))
    return [Work(route, tenant, weights[tenant], draw(st.integers(0, 1000)), draw(st.integers(1, 64))) for route, tenant in pairs]


@given(queues(), st.integers(1, 500))
def test_a_budget_is_spent_as_far_as_there_is_work_and_never_exceeded(work: list[Work], budget: int) -> None:
    asks = share_out(budget, work, {}, counted_to=64)

    known = {(item.route, item.tenant): item.depth if item.depth < 64 else 1 << 30 for item in work}
    assert sum(ask.quota for ask in asks) == min(budget, sum(known.values()))
    assert all(0 < ask.quota <= known[ask.route, ask.tenant] for ask in asks)


@given(queues(), st.lists(st.integers(1, 100), min_size=5, max_size=30))
def test_credit_stays_bounded(work: list[Work], budgets: list[int]) -> None:
    credit: dict[int, float] = {}
    for budget in budgets:
        share_out(budget, work, credit, counted_to=64)
        assert all(abs(value) <= max(budgets) + 1 for value in credit.values())


@given(st.integers(1, 100), st.integers(1, 100), st.integers(1, 500))
def test_one_queue_alone_is_served_as_if_there_were_others(depth: int, weight: int, budget: int) -> None:
    work = [Work(1, 2, weight, 0, depth)]

    # With bounds, though for nobody, it takes the long way.
    assert share_out(budget, work, {3: 0.5}, counted_to=64) == share_out(budget, work, {3: 0.5}, counted_to=64, most={})


def test_full_queues_are_served_in_proportion_to_their_weights() -> None:
    work = [Work(1, tenant, weight, 0, 64) for tenant, weight in ((1, 1), (2, 2), (3, 5))]
    credit: dict[int, float] = {}
    served: Counter[int] = Counter()

    for _ in range(500):
        for ask in share_out(7, work, credit, counted_to=64):
            served[ask.tenant] += ask.quota

    total = sum(served.values())
    assert all(abs(served[tenant] / total - share) < 0.01 for tenant, share in ((1, 1 / 8), (2, 2 / 8), (3, 5 / 8)))


def test_a_budget_of_one_still_reaches_everybody() -> None:
    work = [Work(1, tenant, weight, 0, 64) for tenant, weight in ((1, 1), (2, 100))]
    credit: dict[int, float] = {}
    served: Counter[int] = Counter()

    for _ in range(1010):
        [ask] = share_out(1, work, credit, counted_to=64)
        served[ask.tenant] += 1

    assert served[1] == pytest.approx(10, abs=2)


def test_within_a_tenant_the_oldest_head_goes_first() -> None:
    work = [Work(1, 1, 100, 500, 64), Work(2, 1, 100, 100, 3), Work(3, 1, 100, 300, 4)]

    asks = share_out(10, work, {}, counted_to=64)

    assert [(ask.route, ask.quota) for ask in asks] == [(2, 3), (3, 4), (1, 3)]


@st.composite
def crowds(draw: st.DrawFn) -> tuple[int, dict[int, int], dict[int, int]]:
    """Slots, and who runs how much in them, with weights."""
    slots = draw(st.integers(1, 100))
    weights = {tenant: draw(st.integers(1, 10)) for tenant in range(1, draw(st.integers(2, 6)) + 1)}
    running: dict[int, int] = {}
    for tenant in weights:
        running[tenant] = draw(st.integers(0, slots - sum(running.values())))
    return slots, weights, running


@given(crowds(), st.integers(1, 10))
def test_who_has_more_than_its_share_leaves_the_last_slots_to_others(crowd: tuple[int, dict[int, int], dict[int, int]], kept: int) -> None:
    slots, weights, running = crowd
    room = slots - sum(running.values())
    work = [Work(1, tenant, weight, 0, 64) for tenant, weight in weights.items()]

    most = kept_open(room, slots, kept, running, weights)
    asks = {ask.tenant: ask.quota for ask in share_out(room, work, {}, counted_to=64, most=most)}

    for tenant, quota in asks.items():
        has_its_share = (running[tenant] + quota - 1) * sum(weights.values()) >= slots * weights[tenant]
        assert not has_its_share or room - quota >= kept
    # While everybody has work, nothing is kept from anybody.
    assert sum(asks.values()) == room


# ---------------------------------------------------------------- shards and routes


@given(jobs)
def test_a_job_has_one_shard(job: UUID) -> None:
    assert 0 <= shard_of(job) < SHARDS
    assert shard_of(job) == shard_of(job)


@given(st.lists(st.text(min_size=1, max_size=8), unique=True, min_size=2, max_size=8), st.data())
def test_when_a_dispatcher_goes_only_its_own_shards_move(names: list[str], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(names))
    left = [name for name in names if name != gone]

    for shard in range(SHARDS):
        before, after = preferred_owner(shard, names), preferred_owner(shard, left)
        assert before in (gone, after)


def test_nobody_owns_a_shard_when_nobody_lives() -> None:
    assert preferred_owner(3, []) is None


labels = st.dictionaries(st.sampled_from(["gpu", "region", "disk"]), st.sampled_from(["", "eu", "ssd"]), max_size=3)


@given(labels, labels)
def test_a_worker_serves_what_its_labels_satisfy(offered: dict[str, str], required: dict[str, str]) -> None:
    expected = all(key in offered and (not value or offered[key] == value) for key, value in required.items())

    assert satisfies(offered, route_labels(required)) == expected


# ---------------------------------------------------------------- lifecycle


def test_final_states_are_absorbing_and_every_other_can_end() -> None:
    for state in State:
        assert (TRANSITIONS[state] == frozenset()) == (state in FINAL)
    reached = {State.SCHEDULED, State.BLOCKED, State.PENDING}
    for _ in State:
        reached |= {after for before in reached for after in State if may_become(before, after)}
    assert reached == set(State)


def test_priorities_are_head_starts() -> None:
    from duly.domain.job import HEAD_STARTS, Priority

    assert [HEAD_STARTS[priority] for priority in (Priority.CRITICAL, Priority.HIGH, Priority.NORMAL, Priority.LOW)] == [
        HOUR,
        5 * MINUTE,
        0,
        -5 * MINUTE,
    ]
