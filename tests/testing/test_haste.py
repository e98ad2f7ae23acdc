"""Steps of roles are run where they are begun, and go on as tasks where they have to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from duly.testing.bells import Alarm
from duly.testing.loop import NODE, Node
from duly.testing.worlds import TestLoop

here: ContextVar[str] = ContextVar("here", default="outside")


@pytest.fixture
def loop() -> Iterator[TestLoop]:
    made = TestLoop(0, lambda: False)
    yield made
    made.bury()


async def at_once(value: Any) -> Any:
    return value


async def after(seconds: float, value: Any) -> Any:
    await asyncio.sleep(seconds)
    return value


async def failing() -> None:
    raise ValueError("no")


def stepped(loop: TestLoop, step: Coroutine[Any, Any, Any], node: Node | None = None) -> Any:
    """What the step comes to, for one who moves the loop's time."""
    with loop.running():
        return loop.step(node or loop.outside, step)


def test_what_need_not_wait_is_over_before_the_loop_turns(loop: TestLoop) -> None:
    async def step() -> Any:
        both = await asyncio.gather(at_once(1), asyncio.create_task(at_once(2), name="named"))
        return both, await asyncio.shield(asyncio.create_task(at_once(3)))

    assert stepped(loop, step()) == ([1, 2], 3)
    assert loop.steps == 0


def test_what_has_to_wait_goes_on_as_a_task(loop: TestLoop) -> None:
    async def step() -> Any:
        return await asyncio.gather(after(5, 1), at_once(2)), await after(5, 3)

    assert (stepped(loop, step()), loop.now) == (([1, 2], 3), 10)


def test_one_whose_node_crashes_comes_to_nothing(loop: TestLoop) -> None:
    node = loop.add_node("worker")
    loop.call_later(3, loop.crash, node)

    assert (stepped(loop, after(5, 1), node), loop.now) == (None, 3)


def test_what_is_raised_reaches_who_waits(loop: TestLoop) -> None:
    async def step() -> Any:
        told = await asyncio.gather(failing(), at_once(2), return_exceptions=True)
        return [type(one).__name__ for one in told]

    assert stepped(loop, step()) == ["ValueError", "int"]
    with pytest.raises(ValueError, match="no"):
        stepped(loop, failing())


def test_one_that_waits_can_be_cancelled(loop: TestLoop) -> None:
    did: list[str] = []

    async def child() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            did.append("cleaned up")

    async def step() -> None:
        task = asyncio.create_task(child())
        task.cancel()
        await asyncio.wait([task])
        did.append(str(task.cancelled()))

    stepped(loop, step())

    assert (did, loop.now) == (["cleaned up", "True"], 0)


def test_each_has_a_context_of_its_own_and_is_of_its_node(loop: TestLoop) -> None:
    node = loop.add_node("worker")
    seen: list[tuple[str, str]] = []

    async def child() -> None:
        here.set("child")
        seen.append((NODE.get().name, here.get()))

    async def step() -> None:
        here.set("step")
        await asyncio.gather(child(), child())
        seen.append((NODE.get().name, here.get()))

    stepped(loop, step(), node)

    assert seen == [("worker", "child"), ("worker", "child"), ("worker", "step")]
    assert here.get() == "outside"


def test_who_asks_for_the_end_of_one_is_told(loop: TestLoop) -> None:
    told: list[Any] = []

    async def step() -> None:
        task = asyncio.create_task(at_once(1))
        task.add_done_callback(lambda ended: told.append(ended.result()))

    stepped(loop, step())
    assert told == [1]


def test_who_polls_lets_time_stand_and_hears_who_rings(loop: TestLoop) -> None:
    alarm = Alarm()
    turns: list[int] = []

    async def poll() -> None:
        while True:
            turns.append(len(turns))
            if len(turns) == 3:
                alarm.ring()
            await asyncio.sleep(0)

    loop.outside.spawn(poll())
    with loop.running():
        loop.run_to(60, alarm)

    assert (alarm.has_rung, loop.now, len(turns)) == (True, 0, 4)


def test_all_who_can_run_when_somebody_rings_have_run(loop: TestLoop) -> None:
    alarm = Alarm()
    done: list[int] = []

    async def end(number: int) -> None:
        await asyncio.sleep(5)
        done.append(number)
        alarm.ring()

    for number in range(3):
        loop.outside.spawn(end(number))
    with loop.running():
        loop.run_to(60, alarm)

    assert (sorted(done), loop.now) == ([0, 1, 2], 5)
