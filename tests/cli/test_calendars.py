"""Calendars, pauses with an end, skips and rules on the command line, against a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.processes import Running, duly, environment

ICS = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20261225\nSUMMARY:Christmas\nRRULE:FREQ=YEARLY\nEND:VEVENT\nEND:VCALENDAR\n"


def created(server: Running, name: str, *words: str) -> dict[str, object]:
    answer = server.duly("job", "create", "--name", name, "--handler", "duly.echo", *words, "--json")
    assert answer.code == 0, answer.err
    job: dict[str, object] = json.loads(answer.out)
    return job


def test_a_calendar_is_set_shown_used_and_deleted(server: Running, tmp_path: Path) -> None:
    file = tmp_path / "week.json"
    file.write_text(json.dumps({"name": "week", "businessDays": ["MON", "TUE", "WED", "THU", "FRI"]}))
    ics = tmp_path / "days.ics"
    ics.write_text(ICS)

    made = server.duly("calendar", "set", str(file), "--json")
    trial = json.loads(server.duly("calendar", "import", "week", str(ics), "--dry-run", "--json").out)
    brought = server.duly("calendar", "import", "week", str(ics), "--json")
    shown = server.duly("calendar", "show", "week", "--json")
    again = server.duly("calendar", "set", "-", "--json", stdin=shown.out)
    job = created(
        server, "on-weekdays", "--cron", "0 9 * * *", "--calendar", "week", "--on-excluded", "next_business_day", "--jitter", "30s"
    )
    used = server.duly("calendar", "delete", "week")
    following = json.loads(server.duly("next", "on-weekdays", "-n", "8", "--json").out)
    cron = json.loads(server.duly("cron", "0 9 * * *", "--calendar", "week", "--after", "2026-12-24T12:00:00Z", "-n", "1", "--json").out)
    server.duly("job", "delete", "on-weekdays")

    assert json.loads(made.out)["version"] == 1
    assert trial["holidays"] == json.loads(brought.out)["holidays"] >= 5
    assert json.loads(again.out)["version"] == json.loads(shown.out)["version"] == 2
    assert (job["calendars"], job["onExcluded"], job["jitterSec"]) == (["week"], "next_business_day", 30)
    assert (used.code, "on-weekdays" in used.err) == (5, True)
    assert any("moved from Sat" in (fire["note"] or "") for fire in following)
    assert cron["fires"][0]["at"] == "2026-12-28T09:00:00Z"
    assert cron["excluded"][0]["reason"] == "Fri 25 Dec 2026 is a holiday, Christmas (calendar week)"
    assert server.duly("calendar", "delete", "week").code == 0
    assert "week" not in server.duly("calendar", "list", "-o", "name").out


def test_a_calendar_needs_a_name_and_a_file_that_is_one(server: Running, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{}")

    nameless = server.duly("calendar", "set", str(file))
    missing = server.duly("calendar", "set", str(tmp_path / "none.json"))
    unknown = server.duly("calendar", "show", "no-such")

    assert "DULY-E604" in nameless.err
    assert "DULY-E604" in missing.err
    assert "DULY-E251" in unknown.err


def test_a_job_is_paused_until_a_time(server: Running) -> None:
    created(server, "rests", "--cron", "0 9 * * *")

    until = json.loads(server.duly("pause", "rests", "--until", "2030-01-01T00:00:00Z", "--reason", "holidays", "--json").out)
    shown = server.duly("job", "show", "rests", "-o", "table").out
    following = json.loads(server.duly("next", "rests", "-n", "1", "--json").out)
    for_a_while = json.loads(server.duly("pause", "rests", "--until", "36h", "--json").out)
    resumed = json.loads(server.duly("resume", "rests", "--json").out)
    past = server.duly("pause", "rests", "--until", "2020-01-01T00:00:00Z")

    assert (until["state"], until["pausedUntil"], until["pauseReason"]) == ("PAUSED", "2030-01-01T00:00:00Z", "holidays")
    assert "holidays" in shown
    assert following[0]["at"] == "2030-01-01T09:00:00Z"
    assert for_a_while["pausedUntil"] < "2030"
    assert (resumed["state"], resumed["pausedUntil"]) == ("ACTIVE", None)
    assert "DULY-E105" in past.err


def test_one_fire_is_skipped(server: Running) -> None:
    job = created(server, "hops", "--cron", "0 9 * * *")

    skipping = json.loads(server.duly("skip", "hops", "--json").out)
    following = json.loads(server.duly("next", "hops", "-n", "2", "--json").out)
    back = json.loads(server.duly("unskip", "hops", "--json").out)
    that_one = json.loads(server.duly("skip", "hops", "--at", following[1]["at"], "--json").out)
    wrong = server.duly("skip", "hops", "--at", "2030-01-01T00:00:00Z")

    assert skipping["skipAt"] == job["nextFireAt"]
    assert [fire["note"] for fire in following] == ["is skipped", None]
    assert back["skipAt"] is None
    assert that_one["skipAt"] == following[1]["at"]
    assert "DULY-E136" in wrong.err
    assert "2030-01-01T09:00:00Z" in wrong.err


def test_a_job_fires_by_a_rule(server: Running) -> None:
    job = created(server, "monthly", "--rrule", "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9;BYMINUTE=0;BYSECOND=0", "--tz", "Europe/Berlin")

    assert job["type"] == "RRULE"
    assert str(job["words"]).startswith("Every month on the last Friday at 09:00 Berlin time")
    assert len(json.loads(server.duly("next", "monthly", "-n", "3", "--json").out)) == 3


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("--rrule", "FREQ=MONTHLY;BYMONTHDAY=-1", "--start", "2026-01-01T09:00:00Z", "--after", "2026-02-01T00:00:00Z"),
            "2026-02-28T09:00:00Z",
        ),
        (("0 9 * * *", "--after", "2026-02-01T00:00:00Z", "--jitter", "1h"), "2026-02-01T09:00:00Z"),
    ],
)
def test_rules_and_jitter_are_explained_without_a_server(tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    answer = duly("cron", *words, "-n", "1", "--json", env=environment(tmp_path))

    assert json.loads(answer.out)["fires"][0]["at"] == expected
