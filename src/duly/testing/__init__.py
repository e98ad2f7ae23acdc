"""Tests with time travel: `TestApp` runs an application's schedules, retries, limits and crashes in virtual time, in memory.

The real roles work on the real SQLite store, stepped from one instant to the next, so what a test shows is what production does.

    with TestApp(app, at="2026-10-24 12:00 Europe/Berlin") as t:
        t.travel("3 days")
        assert t.fires(nightly_report) == ["2026-10-25 02:30+02:00", "2026-10-26 02:30+01:00", "2026-10-27 02:30+01:00"]

The names are imported when they are first used: pytest loads the plugin for every project that has Duly installed.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly.testing.app import AsyncTestApp, TestApp, now
    from duly.testing.runs import AttemptSeen, Run
    from duly.testing.snapshots import check_schedule, snapshot_schedule

__all__ = ["AsyncTestApp", "AttemptSeen", "Run", "TestApp", "check_schedule", "now", "snapshot_schedule"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from duly.testing import app, runs, snapshots

    home = next(module for module in (app, runs, snapshots) if hasattr(module, name))
    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
