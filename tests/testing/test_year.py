"""A year costs no more than it has to: counted in statements and turns of the loop, which are the same on every machine."""

from __future__ import annotations

import asyncio

from benchmarks.testing import year_of_sundays
from duly import App, Retry
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
        # Dispatch, claim and finish are five each at most: the look at what comes next is among them, and nobody looks for what was named.
        assert len(asked) <= 15 * NIGHTS


def test_the_steps_of_roles_take_no_turns_of_the_loop() -> None:
    with TestApp(app, at="2026-01-01 00:00 Europe/Berlin") as t:
        t.travel("1 day")
        loop: TestLoop = t.world.loop
        turns: list[object] = []
        step = loop._step
        loop._step = lambda handle: (turns.append(handle), step(handle))[1]  # type: ignore[method-assign]
        t.travel(f"{NIGHTS} days")

        # What is left is the handler's own: it begins, sleeps, goes on, and its task has ended.
        assert len(turns) <= 4 * NIGHTS


def test_what_looks_into_an_empty_table_is_not_asked_again_until_somebody_writes_to_it() -> None:
    fails = App("fails")

    @fails.job(cron="30 2 * * *", tz="Europe/Berlin", retry=Retry(3, initial_delay="10m"))
    async def flaky() -> None:
        """Fails when the test says so."""

    with TestApp(fails, at="2026-01-01 00:00 Europe/Berlin") as t:
        t.travel("2 days")
        assert "due_timers" in t.world.engine.kept
        t.inject(flaky, fail=[TimeoutError])
        t.travel(to="2026-01-03 02:35")
        assert "due_timers" not in t.world.engine.kept
        t.travel("2 days")

        assert [run.attempts for run in t.runs(flaky)] == [1, 1, 2, 1, 1]
        assert "due_timers" in t.world.engine.kept
