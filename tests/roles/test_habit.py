"""An idle worker that is woken asks where it found work last, once, and then looks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.domain.fairness import Ask, Work
from duly.roles.habit import MOST_QUEUES, Habit
from tests.roles.conftest import World

FOUND = [Work(route=7, tenant=1, weight=100, head=0, depth=3)]


def idle_after(work: list[Work]) -> Habit:
    habit = Habit()
    habit.looked(work)
    habit.looked([])
    return habit


def test_an_idle_worker_asks_where_it_found_work_last() -> None:
    assert idle_after(FOUND).guess(50, [7], [1]) == [Ask(7, 1, 50)]


def test_it_guesses_once_and_then_looks() -> None:
    habit = idle_after(FOUND)

    assert habit.guess(50, [7], [1])
    assert habit.guess(50, [7], [1]) == []
    habit.looked([])
    assert habit.guess(50, [7], [1])


def test_who_has_found_work_does_not_guess() -> None:
    habit = idle_after(FOUND)
    habit.looked(FOUND)

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
    worker._seen |= {99: (world.clock.boottime(), 100)} if others else {}
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
