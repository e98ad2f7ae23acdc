"""Schedules looked at, runs watched, and a first application."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duly.cli.main import main
from duly.cli.runs import bar
from tests.cli.processes import Running


def test_schedules_are_listed_explained_linted_and_written_as_a_calendar(server: Running) -> None:
    server.duly("job", "create", "--name", "sched-odd", "--cron", "*/7 3 1 * 1", "--tz", "Europe/Berlin", "--handler", "duly.echo")

    listed = json.loads(server.duly("schedule", "list", "--json", "--fields", "name,words").out)
    explained = json.loads(server.duly("schedule", "explain", "sched-odd", "-n", "2", "--json").out)
    linted = server.duly("schedule", "lint", "--exit-status")
    calendar = server.duly("schedule", "calendar", "nightly_report", "--days", "3").out
    spread = server.duly("schedule", "spread")

    assert "sched-odd" in {row["name"] for row in listed}
    assert len(explained["fires"]) == 2
    assert explained["warnings"]
    assert linted.code == 1
    assert "sched-odd" in linted.out
    assert calendar.count("BEGIN:VEVENT") == 3
    assert calendar.startswith("BEGIN:VCALENDAR")
    assert calendar.rstrip().endswith("END:VCALENDAR")
    assert spread.code == 0


def test_a_run_is_watched_to_its_end(server: Running) -> None:
    run = server.duly("run", "broken", "-o", "name").out.strip()

    answer = server.duly("watch", run, "--exit-status", "--json")

    assert answer.code == 8
    assert json.loads(answer.out)["state"] == "DEAD"


def test_a_bar_is_as_long_as_what_is_done() -> None:
    assert bar({"done": 5, "total": 10}, 4) == "██░░ "
    assert bar({"done": 20, "total": 10}, 4) == "████ "
    assert bar({"done": 5}) == bar(None) == ""


def test_a_first_application_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "my-shop"]) == 0
    assert "duly dev my_shop_jobs:app" in capsys.readouterr().out
    names: dict[str, object] = {}
    exec(compile((tmp_path / "my_shop_jobs.py").read_text(encoding="utf-8"), "my_shop_jobs.py", "exec"), names)

    assert set(names["app"].tasks) == {"nightly", "greet"}  # type: ignore[attr-defined]
    (tmp_path / "my_shop_jobs.py").write_text("mine")
    assert main(["init", "my-shop"]) == 5
    assert (tmp_path / "my_shop_jobs.py").read_text() == "mine"
    assert main(["init", "1shop"]) == 2


def test_crowded_minutes_are_spread_when_that_is_asked_for(server: Running) -> None:
    for nth in range(4):
        server.duly("job", "create", "--name", f"crowd-{nth}", "--cron", "13 4 * * *", "--handler", "duly.echo", "--pool", "crowd")

    shown = server.duly("schedule", "spread", "--most", "2", "--pool", "crowd", "-o", "name")
    unsent = server.duly("schedule", "spread", "--most", "2", "--pool", "crowd", "--apply", "--dry-run")
    done = server.duly("schedule", "spread", "--most", "2", "--pool", "crowd", "--apply", "--reason", "a try")
    again = server.duly("schedule", "spread", "--most", "2", "--pool", "crowd", "-o", "name")

    assert len(shown.out.split()) == 2
    assert "/v1/jobs:reschedule" in unsent.out + unsent.err
    assert (done.code, again.out) == (0, "")
    moved = json.loads(server.duly("job", "list", "--json", "--fields", "name,schedule").out)
    assert sorted(row["schedule"] for row in moved if row["name"].startswith("crowd-")) == ["13 4 * * *"] * 2 + ["H 4 * * *"] * 2
