"""How long jobs take: the sketch, and those who count."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from duly.domain.expected import LAGS, SETTLES, Ended, Sketch, pass_of, sketches
from duly.domain.ids import id_floor
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from tests.alerts.conftest import Town

NOW = 20_000 * DAY


@given(st.lists(st.integers(2_000, 7 * DAY), min_size=5, max_size=300))
def test_a_quantile_is_right_to_within_a_twentieth(durations: list[int]) -> None:
    sketch = Sketch()
    sketch.add(durations, NOW)
    expected = sketch.expected()
    assert expected is not None
    ordered = sorted(durations)
    for part, found in ((0.5, expected.p50), (0.95, expected.p95)):
        exact = ordered[min(len(ordered) - 1, max(0, -(-int(part * len(ordered) * 1000) // 1000) - 1))]
        near = ordered[max(0, ordered.index(exact) - 1)], ordered[min(len(ordered) - 1, ordered.index(exact) + 1)]
        assert near[0] * 0.94 <= found <= near[1] * 1.06


@given(st.lists(st.integers(0, DAY), max_size=50), st.lists(st.integers(0, DAY), max_size=50), st.integers(0, 30 * DAY))
def test_merging_is_counting_together(first: list[int], second: list[int], apart: int) -> None:
    one, other, both = Sketch(), Sketch(), Sketch()
    one.add(first, NOW)
    both.add(first, NOW)
    other.add(second, NOW + apart)
    both.add(second, NOW + apart)

    one.merge(other)

    assert one.counts.keys() == both.counts.keys()
    assert all(abs(one.counts[place] - both.counts[place]) < 1e-9 for place in one.counts)


def test_what_was_long_ago_fades() -> None:
    sketch = Sketch()
    sketch.add([HOUR] * 100, NOW)
    sketch.add([MINUTE] * 20, NOW + 60 * DAY)
    expected = sketch.expected()
    assert expected is not None
    assert expected.p50 < 2 * MINUTE


def test_too_few_runs_expect_nothing() -> None:
    sketch = Sketch()
    sketch.add([SECOND] * 4, NOW)
    assert sketch.expected() is None


@given(st.integers(-HOUR, 9 * DAY))
def test_every_end_belongs_to_one_pass_that_looks_after_it(after: int) -> None:
    due = NOW - NOW % 1000
    nth = pass_of(id_floor(due), due + after)
    assert (nth is None) == (after > LAGS[-1] - SETTLES)
    if nth is not None:
        assert after <= LAGS[nth] - SETTLES
        assert nth == 0 or after > LAGS[nth - 1] - SETTLES
        end = Ended(id_floor(due), id_floor(0), 1, due, due + after)
        assert [bool(sketches([end], each, NOW)) for each in range(len(LAGS))] == [each == nth for each in range(len(LAGS))]


async def test_runs_are_counted_once_whoever_counts_and_however_late_they_end(town: Town) -> None:
    async def work(attempt: object) -> None:
        town.clock.turn(3)

    town.handle("work", work)
    job = await town.create(type="ON_DEMAND")
    one, other = town.surveyor(), town.surveyor()
    await one.step(town.clock.now())
    for nth, late in enumerate([0] * 12 + [300, 7200, 90_000]):
        if nth == 12:
            town.clock.turn(180)
            await one.step(town.clock.now())
            assert (await town.store.figures.expected(1, [job.id]))[job.id].runs == 12
        await town.enqueue(job)
        town.clock.turn(late)
        await town.run_all(await town.worker())
        for surveyor in random.Random(1).choices([one, other], k=3):
            await surveyor.step(town.clock.now())
        town.clock.turn(60)

    for _ in range(9):
        town.clock.turn(DAY / SECOND)
        await one.step(town.clock.now())
        await other.step(town.clock.now())
    expected = (await town.store.figures.expected(1, [job.id]))[job.id]

    # The late ones a day and eight days after the others: what was counted first has faded by then.
    assert 8 <= expected.runs <= 10
    assert 2.8 * SECOND < expected.p50 < 3.2 * SECOND
    assert await town.store.figures.expected(2, [job.id]) == {}
