"""What a stranger reads: the first lines of a server, and answers where there is nothing to show."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from duly import App, Context, config
from duly.cli import upcoming, welcome
from duly.cli.cluster import skew


def application() -> App:
    app = App("shop")
    flow = app.workflow("etl")

    @app.job
    def annual(ctx: Context, year: int) -> None: ...

    @flow.step
    def extract(ctx: Context) -> None: ...

    return app


def test_workflows_are_among_what_an_application_declares() -> None:
    lines = dict(welcome._worker(config.load({}), application(), "shop:app"))

    assert lines["jobs"] == "annual, etl (a workflow)   (from shop:app)"


def test_what_is_offered_to_be_tried_runs_without_an_argument() -> None:
    settings = config.load({"DULY_HOME": ".duly"})

    own = welcome._try_it("http://127.0.0.1:3859", settings, application())
    none = welcome._try_it("http://127.0.0.1:4000", settings, App("empty"))

    assert "duly run etl --wait" in own, "annual needs a year"
    assert "curl http://127.0.0.1:4000/v1/jobs" in none


def test_duly_is_typed_by_its_path_where_the_shell_would_not_find_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [".venv/bin/duly", "up"])
    monkeypatch.setenv("PATH", str(tmp_path))

    assert welcome._command() == ".venv/bin/duly"

    (tmp_path / "duly").write_text("")
    (tmp_path / "duly").chmod(0o755)
    assert welcome._command() == "duly"


def test_where_nothing_fires_because_of_a_pause_that_is_said() -> None:
    class Paused:
        name = "nightly"

    assert "Nothing is scheduled" in upcoming._why_nothing_fires([])
    assert upcoming._why_nothing_fires([Paused()]).startswith("Nothing fires: nightly is paused.")  # type: ignore[list-item]
    assert "nightly, nightly, nightly, … are paused" in upcoming._why_nothing_fires([Paused()] * 4)  # type: ignore[list-item]


def test_a_clock_that_is_right_is_not_off_by_minus_nothing() -> None:
    assert [skew(millis) for millis in (None, -0.01, 1.25, -2500.0)] == ["unknown", "0 ms", "+1.2 ms", "-2.5 s"]
