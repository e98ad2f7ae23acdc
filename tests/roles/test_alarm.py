"""A sleep that ends when it should: never early, again and again, and when it is broken off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from duly.adapters.system.alarm import Alarm


@pytest.fixture(params=["timer", "no timer"])
def alarm(request: pytest.FixtureRequest) -> Iterator[Alarm]:
    made = Alarm()
    if request.param == "no timer":
        made._library = None
    yield made
    made.close()


@pytest.mark.parametrize("seconds", [0.0, 0.00002, 0.0013, 0.004])
async def test_nobody_wakes_early(alarm: Alarm, seconds: float) -> None:
    for _ in range(3):
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        await alarm.sleep(seconds)
        assert time.clock_gettime(time.CLOCK_BOOTTIME) - before >= seconds


async def test_a_sleep_that_is_broken_off_leaves_the_next_one_alone(alarm: Alarm) -> None:
    broken_off = asyncio.create_task(alarm.sleep(3000.0))
    await asyncio.sleep(0)
    broken_off.cancel()
    next_one = asyncio.create_task(alarm.sleep(0.001))

    await asyncio.wait_for(next_one, 30)

    assert broken_off.cancelled()
