"""The pytest plugin: fixtures that open a `TestApp` and close it, and an option that writes snapshots of schedules again.

# conftest.py
@pytest.fixture
def duly_app():
    return app

@pytest.mark.duly(at="2026-10-24 12:00 Europe/Berlin")
def test_the_report(duly):
    duly.travel("3 days")
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from duly.sdk.app import App
    from duly.testing.app import TestApp


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of snapshots."""
    parser.getgroup("duly").addoption("--duly-snapshots", action="store_true", help="write the snapshots of schedules again")


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line("markers", "duly(at, mode, …): how the fixture `duly` opens its TestApp")


@pytest.fixture
def duly_app() -> App:
    """The application under test: define a fixture of this name that returns yours."""
    raise pytest.UsageError("the fixture `duly` needs your application: define `@pytest.fixture def duly_app(): return app` in conftest.py")


@pytest.fixture
def duly_testing() -> Iterator[Callable[..., TestApp]]:
    """Opens TestApps, `duly_testing(app, at="…")`, and closes them when the test ends."""
    from duly.testing.app import TestApp

    with contextlib.ExitStack() as stack:

        def open_app(app: App, *args: Any, **options: Any) -> TestApp:
            return stack.enter_context(TestApp(app, *args, **options))

        yield open_app


@pytest.fixture
def duly(request: pytest.FixtureRequest, duly_app: App, duly_testing: Callable[..., TestApp]) -> TestApp:
    """A TestApp on `duly_app`, with what the marker `duly` says."""
    marker = request.node.get_closest_marker("duly")
    args, options = ((), {}) if marker is None else (marker.args, marker.kwargs)
    return duly_testing(duly_app, *args, **options)


@pytest.fixture
def schedule_snapshot(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compares an application's fires with a committed file: `schedule_snapshot(app, "schedules.txt")`. A path is relative to the test."""

    def check(app: App, path: str | Path = "schedules.txt") -> None:
        from duly.testing.snapshots import check_schedule, snapshot_schedule

        file = request.path.parent / path
        if request.config.getoption("--duly-snapshots"):
            snapshot_schedule(app, file)
        check_schedule(app, file)

    return check
