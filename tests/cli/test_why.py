"""`duly why` against a real server."""

from __future__ import annotations

import json

from tests.cli.processes import Running
from tests.cli.test_daily import created


def test_why_a_run_is_dead(server: Running) -> None:
    run = server.duly("run", "broken", "--wait", "-o", "name").out.strip()

    asked = server.duly("why", run, "--json")
    read = server.duly("why", run, "-o", "table")
    listed = server.duly("why", run)
    shown = server.duly("run", "show", run)

    answer = json.loads(asked.out)
    assert answer["summary"] == "It is dead: its only attempt failed, at last with ValueError: no such table: orders."
    assert [reason["code"] for reason in answer["reasons"]] == ["ATTEMPTS_USED_UP"]
    lines = read.out.splitlines()
    assert lines[0] == answer["summary"]
    assert lines[2] == "ATTEMPTS_USED_UP"
    assert lines[-1] == f"→ Once the cause is gone: duly dead replay {run}"
    assert listed.out.splitlines()[0] == "code\tmessage\tsince\tuntil\thint"
    assert shown.err.splitlines()[-1] == answer["summary"]


def test_why_a_job_did_not_run_at_a_reading_of_its_own_clocks(server: Running) -> None:
    created(server, "--name", "asked-about", "--cron", "30 2 * * *", "--tz", "America/New_York", "--handler", "duly.echo")

    reading = server.duly("why", "asked-about", "--at", "2030-03-10 02:30", "--json")
    instant = server.duly("why", "asked-about", "--at", "2030-03-10T07:30:00Z", "--json")
    now = server.duly("why", "asked-about")

    assert json.loads(reading.out) == json.loads(instant.out)
    assert "02:30 did not exist on 2030-03-10" in json.loads(reading.out)["summary"]
    assert "WAITS_FOR_FIRE" in now.out


def test_what_cannot_be_asked(server: Running) -> None:
    run = server.duly("run", "nightly_report", "--wait", "-o", "name").out.strip()

    with_time = server.duly("why", run, "--at", "2030-03-10T07:30:00Z")
    no_time = server.duly("why", "nightly_report", "--at", "noon")
    nothing = server.duly("why", "run_" + "0" * 32)

    assert (with_time.code, no_time.code, nothing.code) == (2, 2, 3)
