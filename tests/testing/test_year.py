"""A year costs no more than it has to: counted in statements and turns of the loop, which are the same on every machine."""

from __future__ import annotations

import asyncio

from benchmarks.testing import year_of_sundays
from duly import App
from duly.testing import TestApp
from duly.testing.worlds import TestLoop

app = App("costs")
NIGHTS = 30


@app.job(cron="30 2 * * *", tz="Europe/Berlin")
async def nightly() -> int:
    await asyncio.sleep(60)
    return 1


def test_a_year_of_sunday_nights_with_retries_and_a_crash() -> None:
    """52 fires over both changes of the clocks; what it asserts itself stands in the benchmark."""
    year_of_sundays()


def test_a_fire_asks_the_store_for_no_more_than_it_needs() -> None:
    with TestApp(app, at="2026-01-01 00:00 Europe/Berlin") as t:
        t.travel("1 day")
        asked: list[str] = []
        t.world.database.connection.set_trace_callback(asked.append)
        t.travel(f"{NIGHTS} days")
        t.world.database.connection.set_trace_callback(None)

        assert len(t.fires(nightly)) == 1 + NIGHTS
        # Dispatch, claim and finish are ten each at most: savepoints and the look at what comes next are among them.
        assert len(asked) <= 30 * NIGHTS


def test_the_steps_of_roles_take_no_turns_of_the_loop() -> None:
    with TestApp(app, at="2026-01-01 00:00 Europe/Berlin") as t:
        t.travel("1 day")
        loop: TestLoop = t.world.loop
        turns: list[object] = []
        step = loop._step
        loop._step = lambda handle: (turns.append(handle), step(handle))[1]  # type: ignore[method-assign]
        t.travel(f"{NIGHTS} days")

        # What is left is the handler's own, and the waits between the instants.
        assert len(turns) <= 12 * NIGHTS
