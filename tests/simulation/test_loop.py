"""The simulated loop keeps what it promises: order, virtual time, pauses, crashes, and the same again for the same seed."""

from __future__ import annotations

import asyncio

import pytest

from duly.testing.loop import Livelock, SimulatedLoop


def run(loop: SimulatedLoop, *coroutines: object, node: str = "main") -> None:
    async def all_of_them() -> None:
        await asyncio.gather(*coroutines)  # type: ignore[call-overload]

    main = loop.add_node(node).spawn(all_of_them())
    loop.run_until(main)
    main.result()


def test_an_hour_takes_no_time() -> None:
    loop = SimulatedLoop(1)

    run(loop, asyncio.sleep(3600))

    assert loop.now == 3600
    loop.bury()


def test_a_node_runs_its_steps_in_their_order_and_the_seed_chooses_between_nodes() -> None:
    def order(seed: int) -> list[str]:
        loop, seen = SimulatedLoop(seed), []

        async def say(name: str) -> None:
            for nth in range(5):
                seen.append(f"{name}{nth}")
                await asyncio.sleep(0)

        async def wait() -> None:
            await asyncio.gather(*(loop.add_node(name).spawn(say(name)) for name in "ab"))

        loop.run_until(loop.outside.spawn(wait()))
        loop.bury()
        return seen

    orders = {tuple(order(seed)) for seed in range(20)}

    assert len(orders) > 10
    for seen in orders:
        assert [one for one in seen if one[0] == "a"] == [f"a{nth}" for nth in range(5)]
    assert order(3) == order(3)


def test_a_paused_node_finds_its_timers_late() -> None:
    loop, woken = SimulatedLoop(1), []
    node = loop.add_node("sleeper")

    async def sleep() -> None:
        await asyncio.sleep(1)
        woken.append(loop.now)

    async def pause() -> None:
        task = node.spawn(sleep())
        await asyncio.sleep(0.5)
        loop.pause(node)
        await asyncio.sleep(10)
        loop.resume(node)
        await task

    loop.run_until(loop.outside.spawn(pause()))

    assert woken == [10.5]
    loop.bury()


def test_a_crashed_node_does_nothing_any_more_not_even_finally() -> None:
    loop, said = SimulatedLoop(1), []
    node = loop.add_node("victim")

    async def live() -> None:
        try:
            await asyncio.sleep(1)
            said.append("went on")
        finally:
            if not loop.is_over:
                said.append("finally")

    async def crash() -> None:
        node.spawn(live())
        await asyncio.sleep(0.5)
        loop.crash(node)
        await asyncio.sleep(10)

    loop.run_until(loop.outside.spawn(crash()))
    loop.bury()

    assert said == []


def test_there_are_no_threads() -> None:
    loop = SimulatedLoop(1)

    with pytest.raises(AssertionError, match="has none"):
        run(loop, _in_a_thread())
    loop.bury()


async def _in_a_thread() -> None:
    await asyncio.to_thread(print)


def test_a_circle_in_one_instant_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.testing.loop.MOST_STEPS", 1000)
    loop = SimulatedLoop(1)

    async def circle() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Livelock):
        run(loop, circle())
    loop.bury()
