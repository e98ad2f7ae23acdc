"""Hand-overs beside the work: nobody waits for them, but for room and at the end."""

from __future__ import annotations

import asyncio
import logging

import pytest

from duly.usecases.conduct.beside import MOST_AT_ONCE, Beside


async def test_whoever_reports_goes_on_and_the_end_waits_for_all() -> None:
    beside, gate, done = Beside(), asyncio.Event(), []

    async def hand_over(nth: int) -> None:
        await gate.wait()
        done.append(nth)

    for nth in range(MOST_AT_ONCE):
        await beside.follow(hand_over(nth))
    assert done == []
    gate.set()
    await beside.settle()

    assert sorted(done) == list(range(MOST_AT_ONCE))


async def test_more_than_there_is_room_for_wait_until_one_has_ended() -> None:
    beside, gates = Beside(), [asyncio.Event() for _ in range(MOST_AT_ONCE + 1)]
    for gate in gates[:-1]:
        await beside.follow(_until(gate))

    last = asyncio.create_task(beside.follow(_until(gates[-1])))
    await asyncio.sleep(0)
    assert not last.done()
    gates[3].set()
    await asyncio.wait_for(last, 5)

    for gate in gates:
        gate.set()
    await beside.settle()


async def test_who_is_stopped_while_it_waits_for_room_leaves_nothing_behind() -> None:
    beside, gate = Beside(), asyncio.Event()
    for _ in range(MOST_AT_ONCE):
        await beside.follow(_until(gate))
    waiting = asyncio.create_task(beside.follow(_until(gate)))
    await asyncio.sleep(0)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    gate.set()
    await beside.settle()


async def test_items_that_end_while_others_are_looked_at_are_served_by_one_more_look() -> None:
    beside, gate, looks = Beside(), asyncio.Event(), []

    async def look() -> None:
        looks.append(len(looks))
        await gate.wait()

    for _ in range(20):
        await beside.follow_items(7, look)
        await asyncio.sleep(0)
    await beside.follow_items(8, look)
    await asyncio.sleep(0)
    assert len(looks) == 2, "one for each group"
    gate.set()
    await beside.settle()

    assert len(looks) == 3
    await beside.follow_items(7, look)
    await beside.settle()
    assert len(looks) == 4, "what ends after the last look is looked at"


async def test_one_that_fails_is_told_and_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    beside = Beside()

    async def fails() -> None:
        raise RuntimeError("a mistake of ours")

    with caplog.at_level(logging.ERROR, "duly.workflows"):
        await beside.follow(fails())
        await beside.settle()
        await asyncio.sleep(0)

    assert "a hand-over failed and is left to the conductor" in caplog.text
    assert "a mistake of ours" in caplog.text


async def _until(gate: asyncio.Event) -> None:
    await gate.wait()
