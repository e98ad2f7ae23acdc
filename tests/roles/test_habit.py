"""An idle worker that is woken asks where it found work last, once, and then looks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from duly.domain.fairness import Ask, Work
from duly.roles.habit import MOST_QUEUES, Habit
from tests.roles.conftest import World

FOUND = [Work(route=7, tenant=1, weight=100, head=0, depth=3)]


def idle_after(work: list[Work]) -> Habit:
    habit = Habit()
    habit.looked(work, 0)
    habit.looked([], 0)
    return habit


def test_an_idle_worker_asks_where_it_found_work_last() -> None:
    assert idle_after(FOUND).guess(50, [7], [1]) == [Ask(7, 1, 50)]


def test_it_guesses_once_and_then_looks() -> None:
    habit = idle_after(FOUND)

    assert habit.guess(50, [7], [1])
    assert habit.guess(50, [7], [1]) == []
    habit.looked([], 0)
    assert habit.guess(50, [7], [1])


def test_who_has_found_work_does_not_guess() -> None:
    habit = idle_after(FOUND)
    habit.looked(FOUND, 0)

    assert habit.guess(50, [7], [1]) == []


def test_nobody_guesses_while_several_tenants_are_about() -> None:
    assert idle_after(FOUND).guess(50, [7], [1, 2]) == []


def test_a_route_that_is_served_no_longer_is_not_asked_for() -> None:
    assert idle_after(FOUND).guess(50, [8], [1]) == []


def test_queues_share_the_room_and_too_many_are_looked_at() -> None:
    several = [Work(route, 1, 100, 0, 1) for route in range(MOST_QUEUES)]

    assert idle_after(several).guess(50, range(MOST_QUEUES), [1]) == [Ask(route, 1, 50 // MOST_QUEUES) for route in range(MOST_QUEUES)]
    assert idle_after([*several, Work(99, 1, 100, 0, 1)]).guess(50, [*range(MOST_QUEUES), 99], [1]) == []
    assert idle_after(several).guess(2, range(MOST_QUEUES), [1]) == []


QUEUES = [Work(route=7, tenant=1, weight=100, head=0, depth=64), Work(route=7, tenant=2, weight=100, head=5, depth=3)]


def test_where_tenants_share_it_assumes_what_was_shown_and_one_of_whoever_had_work_before() -> None:
    habit = Habit()
    habit.looked(QUEUES, 0)
    habit.looked(QUEUES[:1], 0)

    assert habit.assume(50, [7], [1, 2]) == [QUEUES[0], replace(QUEUES[1], depth=1)]


@pytest.mark.parametrize(("quota", "found", "was_right"), [(12, 12, True), (12, 13, False), (12, 11, False), (12, 0, False)])
def test_it_looks_when_it_was_not_as_assumed(quota: int, found: int, was_right: bool) -> None:
    habit = Habit()
    habit.looked(QUEUES, 0)
    habit.looked(QUEUES[:1], 0)

    assert habit.was_right([Ask(7, 1, quota), Ask(7, 2, 1)], found) == was_right
    assert bool(habit.assume(50, [7], [1, 2])) == was_right
    habit.looked(QUEUES, 0)
    assert habit.assume(50, [7], [1, 2]) == QUEUES


def test_nothing_found_where_nothing_was_shown_is_no_proof_that_nobody_has_work() -> None:
    habit = Habit()
    habit.looked(QUEUES, 0)
    habit.looked([], 0)

    assert not habit.was_right([Ask(7, 1, 1), Ask(7, 2, 1)], 0)


def test_it_looks_where_a_tenant_is_alone_or_not_known_or_served_no_longer_or_the_queues_are_many_for_the_room() -> None:
    habit = Habit()
    assert habit.assume(50, [7], [1, 2]) == [], "it has never looked"
    habit.looked(QUEUES, 0)
    habit.looked([], 0)

    assert habit.assume(8, [7], [1, 2]) != []
    assert habit.assume(7, [7], [1, 2]) == []
    assert habit.assume(50, [7], [1, 2, 3]) == []
    assert habit.assume(50, [7], [1]) == []
    habit.looked(QUEUES, 0)
    assert habit.assume(50, [8], [1, 2]) == []
    many = [replace(QUEUES[0], route=route, tenant=route % 2) for route in range(MOST_QUEUES + 1)]
    habit.looked(many, 0)
    assert habit.assume(50, range(MOST_QUEUES + 1), [0, 1]) == []


def test_a_look_says_whether_somebody_is_new() -> None:
    habit = Habit()
    looks: list[list[Work]] = [QUEUES[:1], QUEUES, [], QUEUES]

    assert [habit.looked(work, 0) for work in looks] == [True, True, False, False]


class Counting:
    """A port, and which of its methods were called."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._port, name)


async def nothing(attempt: Any) -> None:
    """A handler."""


@pytest.mark.parametrize("others", [0, 1])
async def test_a_worker_that_idles_claims_without_a_look_unless_others_are_about(world: World, others: int) -> None:
    world.handle("work", nothing)
    job = await world.create()
    worker = await world.worker()
    await world.enqueue(job)
    while (await worker.step(world.clock.now())).did["claimed"] or not worker.is_idle:
        await asyncio.sleep(0)
    worker._neighbours.seen |= {99: (world.clock.boottime(), 100)} if others else {}
    counting = Counting(worker._ready)
    worker._ready = counting  # type: ignore[assignment]
    await world.enqueue(job)

    step = await worker.step(world.clock.now())

    assert step.did["claimed"] == 1
    assert ("work" in counting.calls[: counting.calls.index("claim")]) == bool(others)


async def test_a_wrong_guess_is_followed_by_a_look_in_the_same_step(world: World) -> None:
    world.handle("work", nothing)
    world.handle("other", nothing)
    job, other = await world.create(), await world.create(name="other", target={"handler": "other"})
    worker = await world.worker()
    await world.enqueue(job)
    while (await worker.step(world.clock.now())).did["claimed"] or not worker.is_idle:
        await asyncio.sleep(0)
    await world.enqueue(other)

    assert (await worker.step(world.clock.now())).did["claimed"] == 1


async def test_a_worker_that_is_told_where_alone_something_is_asks_for_that_without_a_look(world: World) -> None:
    world.handle("work", nothing)
    job = await world.create()
    worker = await world.worker()
    await world.enqueue(job)
    assert (await worker.step(world.clock.now())).did["claimed"] == 1
    counting = Counting(worker._ready)
    worker._ready = counting  # type: ignore[assignment]
    await world.enqueue(job)
    worker.expected = (job.version.route, job.version.tenant)
    await asyncio.sleep(0)

    step = await worker.step(world.clock.now())

    assert step.did["claimed"] == 1
    assert counting.calls == ["claim"]


async def test_a_worker_that_was_told_wrong_looks_in_the_same_step(world: World) -> None:
    world.handle("work", nothing)
    world.handle("other", nothing)
    job, other = await world.create(), await world.create(name="other", target={"handler": "other"})
    worker = await world.worker()
    await world.enqueue(job)
    await worker.step(world.clock.now())
    await asyncio.sleep(0)
    await world.enqueue(other)
    worker.expected = (job.version.route, job.version.tenant)

    assert (await worker.step(world.clock.now())).did["claimed"] == 1


async def test_what_a_worker_was_told_is_good_for_one_step(world: World) -> None:
    world.handle("work", nothing)
    job = await world.create()
    worker = await world.worker()
    await world.enqueue(job)
    await worker.step(world.clock.now())
    await asyncio.sleep(0)
    worker.draining = True
    worker.expected = (job.version.route, job.version.tenant)
    await worker.step(world.clock.now())
    worker.draining = False
    counting = Counting(worker._ready)
    worker._ready = counting  # type: ignore[assignment]
    await world.enqueue(job)

    assert (await worker.step(world.clock.now())).did["claimed"] == 1
    assert "work" in counting.calls[: counting.calls.index("claim")]
