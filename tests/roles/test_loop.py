"""What the loop waits for between two steps of a role, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from duly.adapters.prometheus.meter import Meter
from duly.domain.metrics import catalogue
from duly.ports.telemetry import heard_by
from duly.roles import loop
from duly.testing.clocks import NodeClock, StoreClock
from duly.testing.loop import SimulatedLoop

Wait = Callable[[float], Awaitable[object]]


class Stepped:
    """A role that notes when it was stepped."""

    name = "stepped"

    def __init__(self, world: SimulatedLoop, rest: float, takes: float = 0.0, rests: float = 0.0) -> None:
        self._world = world
        self._rest = rest
        self._takes = takes
        self._rests = rests
        self.at: list[float] = []

    async def step(self, now: int) -> loop.Step:
        self.at.append(round(self._world.now, 3))
        if self._takes:
            await asyncio.sleep(self._takes)
        return loop.Step(self._rest, rests=self._rests)


def run(stop_at: float, wait: Wait | None, rest: float = 10.0, takes: float = 0.0, rests: float = 0.0) -> tuple[list[float], float]:
    """When the role was stepped, and when the loop had ended after a stop at this time."""
    world = SimulatedLoop(1)
    clock = NodeClock(world, StoreClock(world, 0), 0)
    role = Stepped(world, rest, takes, rests)

    async def live() -> float:
        stop = asyncio.Event()
        world.call_at(stop_at, stop.set)
        await loop.run(role, clock, stop, lambda bits: 0, wait)
        return world.now

    main = world.outside.spawn(live())
    try:
        world.run_until(main)
        assert not world.problems
        return role.at, main.result()
    finally:
        world.bury()


async def never(seconds: float) -> None:
    await asyncio.Event().wait()


def test_a_stop_ends_the_rest_whatever_the_role_waits_for() -> None:
    assert run(3.0, None) == ([0.0], 3.0)
    assert run(3.0, never) == ([0.0], 3.0)
    assert run(3.0, asyncio.sleep) == ([0.0], 3.0)


def test_what_comes_early_ends_the_rest_and_what_never_comes_is_not_waited_for() -> None:
    assert run(5.0, lambda seconds: asyncio.sleep(2.0)) == ([0.0, 2.0, 4.0], 5.0)
    assert run(25.0, never) == ([0.0, 10.1, 20.2], 25.0)


def test_who_works_in_the_background_rests_as_long_as_his_work_asks_for() -> None:
    assert run(30.0, None, rest=1.0, takes=2.0, rests=4.0) == ([0.0, 10.0, 20.0], 30.0)
    assert run(25.0, None, rest=8.0, takes=2.0, rests=3.0) == ([0.0, 10.0, 20.0], 25.0)


@pytest.mark.parametrize("at", [2.0, 10.1])
def test_a_stop_in_the_very_moment_that_the_rest_ends_is_a_stop(at: float) -> None:
    wait: Wait = never if at == 10.1 else lambda seconds: asyncio.sleep(at)

    stepped, ended = run(at, wait)

    assert ended == at
    assert stepped in ([0.0], [0.0, at])


@pytest.mark.parametrize("error", [OSError, TimeoutError])
def test_a_wait_that_fails_at_once_is_not_asked_without_end(error: type[OSError]) -> None:
    async def fails(seconds: float) -> None:
        raise error("gone")

    stepped, ended = run(1.05, fails)

    assert stepped == [round(nth * loop.FIRST_BACKOFF, 3) for nth in range(11)]
    assert ended == 1.05


def test_a_role_that_is_cancelled_while_it_rests_ends() -> None:
    world = SimulatedLoop(1)
    clock = NodeClock(world, StoreClock(world, 0), 0)

    async def live() -> bool:
        running = asyncio.ensure_future(loop.run(Stepped(world, 10.0), clock, asyncio.Event(), lambda bits: 0, never))
        await asyncio.sleep(1.0)
        running.cancel()
        await asyncio.wait((running,))
        return running.cancelled()

    main = world.outside.spawn(live())
    try:
        world.run_until(main)
        assert main.result()
    finally:
        world.bury()


async def _after(turns: int, result: object) -> object:
    for _ in range(turns):
        await asyncio.sleep(0)
    if isinstance(result, Exception):
        raise result
    ended.append(result)
    return result


ended: list[object] = []


@pytest.mark.parametrize("turns", [(0, 0), (0, 3), (3, 0), (2, 2)])
async def test_two_calls_side_by_side_come_to_what_each_came_to(turns: tuple[int, int]) -> None:
    assert await loop.both(_after(turns[0], "one"), _after(turns[1], "other")) == ("one", "other")


@pytest.mark.parametrize("turns", [(0, 3), (3, 0)])
async def test_each_of_two_calls_comes_to_its_end_though_the_other_fails(turns: tuple[int, int]) -> None:
    ended.clear()
    with pytest.raises(ValueError, match="one"):
        await loop.both(_after(turns[0], ValueError("one")), _after(turns[1], "other"))
    with pytest.raises(ValueError, match="other"):
        await loop.both(_after(turns[0], "one"), _after(turns[1], ValueError("other")))
    assert ended == ["other", "one"]

    with pytest.raises(ValueError, match="other"):
        await loop.both(_after(turns[0], ValueError("one")), _after(turns[1], ValueError("other")))


async def test_who_is_cancelled_takes_both_calls_with_him() -> None:
    never: list[asyncio.Future[None]] = [asyncio.get_running_loop().create_future() for _ in range(2)]

    async def wait_for(future: asyncio.Future[None]) -> None:
        await future

    task = asyncio.create_task(loop.both(wait_for(never[0]), wait_for(never[1])))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [future.cancelled() for future in never] == [True, True]


async def test_who_is_cancelled_while_the_one_call_outlasts_the_failed_other_takes_it_with_him() -> None:
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        await never

    task = asyncio.create_task(loop.both(wait(), _after(0, ValueError("the store is away"))))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert never.cancelled()


def test_how_a_role_fails_is_told_as_zero_before_it_has() -> None:
    meter = Meter()
    with heard_by(meter):
        run(1.0, None)

    (told,) = [family.samples for family in meter.families() if family.metric is catalogue.ROLE_FAILURES]
    assert told == [(("stepped", "fault"), 0, ()), (("stepped", "unavailable"), 0, ())]
