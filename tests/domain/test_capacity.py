"""The capacity simulator: what must hold for every load, and where theory knows the answer."""

from __future__ import annotations

from dataclasses import replace
from math import exp, sqrt

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duly.domain.capacity.chance import Chance
from duly.domain.capacity.costs import POSTGRES, Fleet, PoolSize, UnitCosts, WriteCost
from duly.domain.capacity.figures import Lateness, Minutes
from duly.domain.capacity.forecast import Forecast, Lack, Question, Verdict, forecast
from duly.domain.capacity.load import LoadClass, alike, expect
from duly.domain.capacity.simulation import Run, Simulation
from duly.domain.capacity.spans import Span, span_of
from duly.domain.capacity.words import words_of
from duly.domain.cron import parse_cron
from duly.domain.errors import Invalid
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant, Micros, from_rfc3339
from duly.domain.job import Priority
from duly.domain.overlap import Overlap, OverlapPolicy
from duly.domain.retry import Backoff, RetryPolicy
from duly.domain.schedule import CronSchedule, IntervalSchedule, fires

BEGIN = from_rfc3339("2026-11-17T00:00:00Z")
# Nothing costs anything, and a round takes a microsecond: what is left is the queue itself.
NOTHING = WriteCost(row_database=0, row_process=0, batch_database=0, batch_process=0, round=1, row_log=0, batch_log=0)
FREE: UnitCosts = replace(POSTGRES, fire=NOTHING, enqueue=NOTHING, claim=NOTHING, finish=NOTHING)
ALLOW = Overlap(policy=OverlapPolicy.ALLOW)


def always(micros: Micros) -> Span:
    return Span(micros, micros)


def cron(text: str, zone: str = "UTC") -> CronSchedule:
    return CronSchedule(parse_cron(text), zone)


def every(micros: Micros, anchor: Instant = BEGIN) -> IntervalSchedule:
    return IntervalSchedule(micros, anchor)


def fleet(workers: int = 1, slots: int = 10, **more: float) -> Fleet:
    return Fleet(pools={"default": PoolSize(workers, slots)}, **more)  # type: ignore[arg-type]


def asked(*classes: LoadClass, of: Fleet, horizon: Micros = HOUR, costs: UnitCosts = FREE, **more: int) -> Forecast:
    return forecast(Question(classes=classes, fleet=of, costs=costs, begin=BEGIN, horizon=horizon, **more))


def ran(classes: list[LoadClass], of: Fleet, horizon: Micros, costs: UnitCosts = FREE, most_units: int = 100_000, seed: int = 1) -> Run:
    expected = expect(classes, BEGIN, BEGIN + horizon, seed, most_units, lambda share: None)
    return Simulation(expected, of, costs, BEGIN, BEGIN + horizon, seed).run(lambda share: None)


# ---------------------------------------------------------------- chance, spans, figures


def test_a_seed_repeats_its_draws_and_they_are_even() -> None:
    one, other = Chance(7), Chance(7)
    draws = [one.draw() for _ in range(10_000)]

    assert draws == [other.draw() for _ in range(10_000)]
    assert all(0 <= draw < 1 for draw in draws)
    assert sum(draws) / len(draws) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("mean", [0.3, 4.0, 200.0])
def test_numbers_that_come_independently_spread_as_they_should(mean: float) -> None:
    chance = Chance(3)
    numbers = [chance.number(mean) for _ in range(4000)]
    average = sum(numbers) / len(numbers)

    assert average == pytest.approx(mean, rel=0.05)
    assert sum((number - average) ** 2 for number in numbers) / len(numbers) == pytest.approx(mean, rel=0.12)


@given(st.integers(1, 3600_000), st.floats(1.0, 20.0))
@example(1000, 1.0000000000000002)
@settings(max_examples=20, deadline=None)
def test_a_span_is_what_its_two_numbers_say(p50: int, wider: float) -> None:
    span = Span(p50 * 1000, round(p50 * 1000 * wider))
    parts = span.parts()

    assert sum(parts) / len(parts) == pytest.approx(span.mean, rel=0.001)
    assert parts == tuple(sorted(parts))
    below = sum(part <= span.p95 for part in parts) / len(parts)
    # What is wider by less than a microsecond is no wider.
    assert below == pytest.approx(1.0 if span.p95 == span.p50 else 0.95, abs=0.05)


def test_a_span_is_found_again_in_what_it_draws() -> None:
    drawn = list(Span(SECOND, 5 * SECOND).parts())
    found = span_of(drawn)

    assert found.p50 == pytest.approx(SECOND, rel=0.01)
    assert found.p95 == pytest.approx(5 * SECOND, rel=0.01)


@pytest.mark.parametrize(("p50", "p95"), [(2, 1), (-1, 5), (0, 5), (1, 8 * DAY)])
def test_an_impossible_span_is_refused(p50: int, p95: int) -> None:
    with pytest.raises(Invalid) as refused:
        Span(p50, p95)
    assert refused.value.code == "DULY-E282"


@given(st.lists(st.integers(0, 10 * HOUR), min_size=1, max_size=300), st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_a_quantile_is_right_within_a_step(values: list[int], share: float) -> None:
    late = Lateness()
    for value in values:
        late.add(value)
    exact = sorted(values)[max(-(-len(values) * round(share * 100) // 100) - 1, 0)]

    assert exact <= late.quantile(share) <= exact * 1.04 + 1


@given(st.integers(0, 10 * MINUTE), st.integers(0, 10 * MINUTE), st.floats(0, 1e9))
def test_what_is_spent_over_minutes_is_all_there(since: int, length: int, amount: float) -> None:
    minutes = Minutes(BEGIN)
    minutes.spend(BEGIN + since, BEGIN + since + length, amount)

    assert sum(minutes.amounts.values()) == pytest.approx(amount)


# ---------------------------------------------------------------- what holds for every load


@st.composite
def loads(draw: st.DrawFn) -> LoadClass:
    policy = draw(st.sampled_from(list(OverlapPolicy)))
    p50 = draw(st.integers(0, 90 * SECOND))
    return LoadClass(
        name="any",
        jobs=draw(st.integers(1, 40)),
        schedule=every(draw(st.integers(5, 300)) * SECOND, BEGIN + draw(st.integers(0, 60)) * SECOND),
        spread=draw(st.booleans()),
        jitter=draw(st.sampled_from([0, 0, 20 * SECOND])),
        span=Span(p50, p50 * draw(st.integers(1, 4))),
        failures=draw(st.sampled_from([0.0, 0.3, 1.0])),
        retry=RetryPolicy(max_attempts=draw(st.integers(1, 3)), initial_delay=draw(st.sampled_from([0, 5 * SECOND]))),
        overlap=Overlap(policy=policy),
        priority=draw(st.sampled_from(list(Priority))),
        max_concurrent=draw(st.sampled_from([None, None, 1, 2])),
    )


@given(st.lists(loads(), min_size=1, max_size=4), st.integers(0, 30), st.sampled_from([100, 100_000]), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_nothing_is_lost_and_nothing_starts_early(classes: list[LoadClass], slots: int, most_units: int, seed: int) -> None:
    run = ran(classes, fleet(1, slots), 8 * MINUTE, POSTGRES, most_units, seed)
    [pool] = run.pools.values()

    assert run.due == pool.done + pool.dead + pool.skipped + pool.stopped + pool.running + run.waiting
    assert pool.lateness.count == 0 or pool.lateness.quantile(0.0) >= 0
    assert 0 <= pool.busy <= slots
    assert pool.slots_used.most <= slots
    assert pool.depth == sum(part.size for _, _, part in pool.waiting if not part.is_stopped)


def test_the_same_question_has_the_same_answer() -> None:
    load = LoadClass(name="a", jobs=30, schedule=cron("*/2 * * * *"), jitter=30 * SECOND, span=Span(SECOND, 9 * SECOND), failures=0.1)

    assert asked(load, of=fleet(), costs=POSTGRES, seed=4) == asked(load, of=fleet(), costs=POSTGRES, seed=4)
    assert asked(load, of=fleet(), costs=POSTGRES, seed=4) != asked(load, of=fleet(), costs=POSTGRES, seed=5)


@given(st.integers(1, 60), st.integers(1, 120), st.integers(1, 40), st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_more_slots_never_make_it_later(jobs: int, lasts: int, slots: int, more: int) -> None:
    load = LoadClass(name="a", jobs=jobs, schedule=every(MINUTE), overlap=ALLOW, span=always(lasts * SECOND // 4))
    few, many = (ran([load], fleet(1, number), 5 * MINUTE).pools["default"].lateness for number in (slots, slots + more))

    assert many.mean <= few.mean
    assert many.most <= few.most


def test_twice_of_everything_is_as_late() -> None:
    load = LoadClass(name="a", jobs=200, schedule=every(MINUTE), overlap=ALLOW, span=always(10 * SECOND))
    once = asked(load, of=fleet(1, 40))
    twice = asked(replace(load, jobs=400), of=fleet(2, 40))

    assert once.pools[0].p99 == twice.pools[0].p99 > 0
    assert twice.pools[0].most_busy == 2 * once.pools[0].most_busy
    assert twice.disk_a_day == 2 * once.disk_a_day


# ---------------------------------------------------------------- where theory knows the answer


@pytest.mark.parametrize("wider", [1.0, 3.0])
def test_one_slot_makes_them_wait_as_pollaczek_and_khinchine_say(wider: float) -> None:
    span = Span(SECOND // 2, round(SECOND // 2 * wider))
    rate = 0.5 / (span.mean / SECOND)
    run = ran([LoadClass(name="a", per_second=rate, span=span)], fleet(1, 1), round(15_000 / rate) * SECOND)
    second_moment = span.mean**2 * exp(span.sigma**2)
    expected = rate / SECOND * second_moment / (2 * (1 - 0.5))

    assert run.pools["default"].lateness.mean == pytest.approx(expected, rel=0.1)


def test_many_slots_are_busy_as_little_says() -> None:
    span = Span(2 * SECOND, 6 * SECOND)
    answer = asked(LoadClass(name="a", per_second=10, span=span), of=fleet(1, 500))
    mean = 10 * span.mean / SECOND

    assert answer.pools[0].mean_busy == pytest.approx(mean, rel=0.03)
    assert mean < answer.pools[0].most_busy < mean + 6 * sqrt(mean)
    assert answer.pools[0].verdict is Verdict.FINE


def test_a_herd_goes_through_few_slots_in_turns() -> None:
    answer = asked(LoadClass(name="a", jobs=100, schedule=cron("0 * * * *"), span=always(10 * SECOND)), of=fleet(1, 20))
    [pool] = answer.pools

    assert pool.latest == pytest.approx(40 * SECOND, rel=0.01)
    assert pool.deepest == 100
    assert (pool.verdict, pool.lack) == (Verdict.SHORT, Lack.SLOTS)
    assert pool.needed == 99, "one of a hundred may wait"
    assert pool.spreading, "they run 1,000 slot-seconds in an hour"


@pytest.mark.parametrize("most_units", [1_000_000, 30_000, 10_000, 3_000])
@pytest.mark.parametrize("slots", [10, 90])
def test_no_more_end_than_the_slots_can_do_however_they_are_grouped(slots: int, most_units: int) -> None:
    begin = from_rfc3339("2026-11-17T00:00:00Z")
    end = begin + 10 * MINUTE
    expected = expect([LoadClass(name="a", per_second=100, span=Span(SECOND, SECOND))], begin, end, 1, most_units, lambda share: None)
    fleet = Fleet(pools={"default": PoolSize(1, slots)}, database_cores=1000, worker_cores=1000)

    run = Simulation(expected, fleet, POSTGRES, begin, end, 1).run(lambda share: None)

    assert 0.98 * slots * 600 <= run.pools["default"].done <= slots * 600
    assert run.pools["default"].running <= slots


def test_half_the_slots_do_when_half_may_wait() -> None:
    load = LoadClass(name="a", jobs=100, schedule=cron("0 * * * *"), span=always(10 * SECOND))

    assert asked(load, of=fleet(1, 20), tolerance=11 * SECOND).pools[0].needed == 50


def test_groups_come_to_the_same_as_single_jobs() -> None:
    load = LoadClass(name="a", jobs=600, schedule=every(MINUTE), spread=True, span=Span(2 * SECOND, 8 * SECOND))
    alone, grouped = (asked(load, of=fleet(4, 50), costs=POSTGRES, most_units=most) for most in (100_000, 3000))

    assert (alone.grain, grouped.grain) == (1, 12)
    assert grouped.due == pytest.approx(alone.due, rel=0.001)
    assert grouped.pools[0].mean_busy == pytest.approx(alone.pools[0].mean_busy, rel=0.03)
    assert grouped.pools[0].most_busy == pytest.approx(alone.pools[0].most_busy, rel=0.35)
    assert grouped.log == pytest.approx(alone.log, rel=0.1)
    assert grouped.commits == pytest.approx(alone.commits, rel=0.1)
    assert grouped.database.mean == pytest.approx(alone.database.mean, rel=0.1)


def test_demand_beyond_the_processors_grows_a_queue() -> None:
    costs = replace(FREE, claim=replace(NOTHING, row_database=30_000.0))
    load = LoadClass(name="a", per_second=100, span=always(0))
    enough, short = (asked(load, of=fleet(9, 900, database_cores=cores), costs=costs, horizon=2 * MINUTE) for cores in (4, 2))

    assert enough.verdict is not Verdict.SHORT
    assert enough.pools[0].p99 < SECOND
    assert enough.database.worst == pytest.approx(0.75, rel=0.05)
    assert short.database.verdict is Verdict.SHORT
    assert short.pools[0].lack is Lack.DATABASE_CORES
    assert short.pools[0].latest == pytest.approx(40 * SECOND, rel=0.1), "a third of two minutes' work is left over"


def test_a_worker_is_one_process_with_one_core() -> None:
    costs = replace(FREE, claim=replace(NOTHING, row_process=20_000.0))
    load = LoadClass(name="a", per_second=80, span=always(0))
    short = asked(load, of=fleet(1, 900, worker_cores=64), costs=costs, horizon=MINUTE)

    assert (short.pools[0].verdict, short.pools[0].lack) == (Verdict.SHORT, Lack.PROCESSES)
    assert asked(load, of=fleet(2, 900, worker_cores=64), costs=costs, horizon=MINUTE).pools[0].p99 < SECOND


def test_a_pool_without_workers_is_named() -> None:
    answer = asked(LoadClass(name="a", pool="gpu", schedule=cron("0 * * * *"), span=always(SECOND)), of=fleet())
    gpu = next(pool for pool in answer.pools if pool.pool == "gpu")

    assert (gpu.verdict, gpu.lack, gpu.needed) == (Verdict.SHORT, Lack.WORKERS, 1)
    assert words_of(answer)[0] == "gpu: NOT enough: no worker serves it; 1 slots would do"


# ---------------------------------------------------------------- policies


@pytest.mark.parametrize(
    ("policy", "done", "skipped", "stopped"),
    [
        (OverlapPolicy.ALLOW, 58, 0, 0),
        (OverlapPolicy.SKIP, 20, 40, 0),
        (OverlapPolicy.QUEUE_ONE, 23, 35, 0),
        (OverlapPolicy.CANCEL_PREVIOUS, 0, 0, 59),
    ],
)
def test_what_becomes_of_a_fire_that_meets_the_previous_run(policy: OverlapPolicy, done: int, skipped: int, stopped: int) -> None:
    load = LoadClass(name="a", schedule=every(10 * SECOND), span=always(25 * SECOND), overlap=Overlap(policy=policy))
    pool = ran([load], fleet(1, 10), 600 * SECOND).pools["default"]

    assert (pool.fires, pool.done, pool.skipped, pool.stopped) == (60, done, skipped, stopped)


def test_failures_come_again_until_they_are_dead() -> None:
    retry = RetryPolicy(max_attempts=3, backoff=Backoff.FIXED, initial_delay=10 * SECOND, jitter=0)
    load = LoadClass(name="a", jobs=20, schedule=every(HOUR), span=always(SECOND), failures=1.0, retry=retry)
    pool = ran([load], fleet(1, 50), HOUR).pools["default"]

    assert (pool.fires, pool.retries, pool.dead, pool.done) == (20, 40, 20, 0)


@pytest.mark.parametrize("most_units", [100_000, 60])
def test_a_share_of_failures_is_a_share_of_attempts(most_units: int) -> None:
    load = LoadClass(name="a", jobs=200, schedule=every(MINUTE), failures=0.25, retry=RetryPolicy(max_attempts=1))
    pool = ran([load], fleet(1, 500), HOUR, most_units=most_units).pools["default"]

    assert pool.dead / pool.fires == pytest.approx(0.25, abs=0.02)


def test_a_limit_holds_back_its_own_job_only() -> None:
    limited = LoadClass(name="a", per_second=1, span=always(4 * SECOND), max_concurrent=2)
    free = LoadClass(name="b", schedule=every(20 * SECOND, BEGIN + 10 * SECOND), jobs=3, span=always(SECOND))
    run = ran([limited, free], fleet(1, 10), 10 * MINUTE)
    pool = run.pools["default"]

    assert pool.slots_used.most <= 2 + 3
    assert run.waiting == pytest.approx(300, abs=60), "half of them, at two at a time"


def test_who_has_priority_starts_first() -> None:
    herd = LoadClass(name="a", jobs=100, schedule=every(HOUR), span=always(SECOND))
    late = LoadClass(name="b", schedule=every(HOUR, BEGIN + 61 * SECOND), span=always(SECOND))
    waits = [
        ran([herd, replace(late, priority=priority)], fleet(1, 1), HOUR).pools["default"].late_by_minute[1]
        for priority in (Priority.HIGH, Priority.NORMAL)
    ]

    assert waits == pytest.approx([0, 39 * SECOND], abs=SECOND)


# ---------------------------------------------------------------- loads


def test_fires_are_those_of_the_schedule() -> None:
    begin, end = from_rfc3339("2026-03-27T00:00:00Z"), from_rfc3339("2026-03-31T00:00:00Z")
    nightly = cron("30 2 * * *", "Europe/Berlin")
    expected = expect([LoadClass(name="a", schedule=nightly)], begin, end, 1, 1000, lambda share: None)

    assert [at for at, _ in expected.dues] == fires(nightly, begin - 1, end - 1, 100)
    assert len(expected.dues) == 4


def test_what_is_spread_or_jittered_stays_before_the_next_fire() -> None:
    for more in ({"spread": True}, {"jitter": 4 * MINUTE}):
        load = LoadClass(name="a", jobs=500, schedule=cron("*/5 * * * *"), **more)  # type: ignore[arg-type]
        dues = expect([load], BEGIN, BEGIN + HOUR, 1, 100_000, lambda share: None).dues
        seconds = {(at - BEGIN) % (5 * MINUTE) // SECOND for at, _ in dues}

        assert len(dues) == pytest.approx(6000, rel=0.02)
        assert len(seconds) > 230
        assert all(BEGIN <= at < BEGIN + HOUR for at, _ in dues)


def test_a_hundred_thousand_schedules_are_followed_in_few_groups() -> None:
    classes = [
        LoadClass(name=f"job-{nth}", schedule=every(5 * MINUTE, BEGIN - nth * 7919), span=Span(200_000 + nth, SECOND + nth))
        for nth in range(100_000)
    ]
    expected = expect(alike(classes), BEGIN, BEGIN + DAY, 1, 50_000, lambda share: None)

    assert len(expected.dues) <= 51_000
    assert expected.total == pytest.approx(28_800_000, rel=0.001)


def test_alike_jobs_become_one_class() -> None:
    classes = [LoadClass(name=f"job-{nth}", schedule=cron("0 2 * * *"), span=always(1_000_000 + nth)) for nth in range(50)]
    classes += [LoadClass(name="other", schedule=cron("0 3 * * *"), span=always(SECOND))]
    nightly, other = alike(classes)

    assert (nightly.jobs, other.jobs) == (50, 1)
    assert nightly.span.p50 == pytest.approx(1_000_024, abs=2)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: LoadClass(name="a"), "DULY-E281"),
        (lambda: LoadClass(name="a", schedule=every(HOUR), per_second=1), "DULY-E281"),
        (lambda: LoadClass(name="a", schedule=every(HOUR), jobs=0), "DULY-E281"),
        (lambda: LoadClass(name="a", schedule=every(HOUR), failures=2), "DULY-E282"),
        (lambda: PoolSize(-1, 5), "DULY-E283"),
        (lambda: Fleet(servers=0), "DULY-E283"),
        (lambda: Fleet(database_cores=0), "DULY-E283"),
        (lambda: Question(classes=[], fleet=fleet(), costs=FREE, begin=BEGIN), "DULY-E281"),
        (lambda: asked(LoadClass(name="a", per_second=1), of=fleet(), horizon=32 * DAY), "DULY-E284"),
        (lambda: asked(LoadClass(name="a", schedule=cron("0 5 * * *")), of=fleet(), horizon=HOUR), "DULY-E284"),
        (lambda: asked(LoadClass(name="a", per_second=1), of=fleet(), tolerance=0), "DULY-E284"),
        (lambda: asked(*[LoadClass(name="a", schedule=every(SECOND), cpu=nth) for nth in range(40)], of=fleet(), horizon=DAY), "DULY-E284"),
    ],
)
def test_what_cannot_be_simulated_is_refused(make: object, code: str) -> None:
    with pytest.raises(Invalid) as refused:
        make()  # type: ignore[operator]
    assert refused.value.code == code
