"""How long does a year take? `python -m benchmarks.testing`: schedules over both changes of the clocks, with retries and a crash.

Each figure is the processor's time of the best of several runs, opening and closing the TestApp included; the first run of a process,
which migrates the store in memory, is told apart. What one fire costs, from its schedule to its kept result, stands beside it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from duly import App, Context, Retry
from duly.testing import TestApp

RUNS = 5
app = App("benchmark")
RETRY = Retry(5, initial_delay="10m")


@app.job(cron="30 2 * * 0", tz="Europe/Berlin", retry=RETRY)
async def weekly(ctx: Context) -> int:
    """Sundays at half past two: both changes of the clocks are on one."""
    await asyncio.sleep(60)
    return ctx.attempt


nights = App("nights")


@nights.job(cron="30 2 * * *", tz="Europe/Berlin", retry=RETRY)
async def nightly(ctx: Context) -> int:
    """Every night."""
    await asyncio.sleep(60)
    return ctx.attempt


def year_of_sundays() -> None:
    """52 fires."""
    with TestApp(app, at="2026-01-01 00:00 Europe/Berlin") as t:
        t.inject(weekly, fail=[TimeoutError, TimeoutError], on="2026-03-29 03:00")
        t.inject(weekly, kill_worker_after="30s", on="2026-10-25 02:30")
        t.travel("365 days")
        fires = t.fires(weekly)
        assert len(fires) == 52
        assert "2026-03-29 03:00+02:00" in fires
        assert "2026-10-25 02:30+02:00" in fires
        assert sum(run.attempts for run in t.runs(weekly)[12:13]) == 3


def year_of_nights() -> None:
    """365 fires."""
    with TestApp(nights, at="2026-01-01 00:00 Europe/Berlin") as t:
        t.inject(nightly, fail=[TimeoutError, TimeoutError], on="2026-03-29 03:00")
        t.inject(nightly, kill_worker_after="30s", on="2026-10-25 02:30")
        t.travel("365 days")
        assert len(t.fires(nightly)) == 365


def nothing() -> None:
    """No fire: opening and closing."""
    with TestApp(nights, at="2026-01-01 00:00 Europe/Berlin"):
        pass


def measure(name: str, work: Callable[[], None], fires: int = 0) -> None:
    """Print the first run, the best of the others, and what that makes for each fire."""
    figures: list[float] = []
    for _ in range(RUNS + 1):
        began = time.process_time()
        work()
        figures.append((time.process_time() - began) * 1000)
    each = f"   {min(figures[1:]) * 1000 / fires:6.0f} µs a fire" if fires else ""
    print(f"{name:<60} {min(figures[1:]):8.1f} ms   first {figures[0]:8.1f} ms{each}")


def main() -> None:
    """Both years."""
    measure("opening and closing", nothing)
    measure("a year of Sunday nights, 2 retries, 1 crash (52 fires)", year_of_sundays, 52)
    measure("a year of nights, 2 retries, 1 crash (365 fires)", year_of_nights, 365)


if __name__ == "__main__":
    main()
