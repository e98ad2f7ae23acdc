"""Steps of roles are run where they are begun, and go on as tasks where they have to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from duly.testing.loop import NODE
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


async def _rested(loop: TestLoop) -> None:
    await loop.resting()


def begun(loop: TestLoop, step: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
    """The step, begun by a task of the loop's; what it left for later has been done."""
    found: list[asyncio.Future[Any]] = []

    async def main() -> None:
        found.append(loop.begin(loop.outside, step))
        await loop.resting()

    loop.run_until(loop.outside.spawn(main()))
    return found[0]


def test_what_need_not_wait_is_over_before_the_loop_turns(loop: TestLoop) -> None:
    async def step() -> Any:
        both = await asyncio.gather(at_once(1), asyncio.create_task(at_once(2), name="named"))
        return both, await asyncio.shield(asyncio.create_task(at_once(3)))

    async def main() -> Any:
        before = loop.steps
        ended = loop.begin(loop.outside, step())
        assert (ended.done(), loop.steps) == (True, before)
        return await ended

    task = loop.outside.spawn(main())
    loop.run_until(task)

    assert task.result() == ([1, 2], 3)


def test_what_has_to_wait_goes_on_as_a_task(loop: TestLoop) -> None:
    async def step() -> Any:
        return await asyncio.gather(after(5, 1), at_once(2)), await after(5, 3)

    async def main() -> Any:
        ended = loop.begin(loop.outside, step())
        assert not ended.done()
        return await ended

    task = loop.outside.spawn(main())
    loop.run_until(task)

    assert (task.result(), loop.now) == (([1, 2], 3), 10)


def test_what_is_raised_reaches_who_waits(loop: TestLoop) -> None:
    async def step() -> Any:
        told = await asyncio.gather(failing(), at_once(2), return_exceptions=True)
        return [type(one).__name__ for one in told]

    assert begun(loop, step()).result() == ["ValueError", "int"]
    with pytest.raises(ValueError, match="no"):
        begun(loop, failing()).result()


def test_one_that_waits_can_be_cancelled(loop: TestLoop) -> None:
    did: list[str] = []

    async def step() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            did.append("cleaned up")

    async def main() -> None:
        ended = loop.begin(loop.outside, step())
        ended.cancel()
        await asyncio.wait([ended])
        did.append(str(ended.cancelled()))

    loop.run_until(loop.outside.spawn(main()))

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

    async def main() -> None:
        await loop.begin(node, step())
        seen.append((NODE.get().name, here.get()))

    loop.run_until(loop.outside.spawn(main()))

    assert seen == [("worker", "child"), ("worker", "child"), ("worker", "step"), ("outside", "outside")]


def test_who_asks_for_the_end_of_one_is_told(loop: TestLoop) -> None:
    told: list[Any] = []

    async def step() -> None:
        task = asyncio.create_task(at_once(1))
        task.add_done_callback(lambda ended: told.append(ended.result()))

    ended = begun(loop, step())
    assert (ended.done(), told) == (True, [1])
    ended.add_done_callback(told.append)
    loop.run_until(loop.outside.spawn(_rested(loop)))
    assert told == [1, ended]
