"""`duly cron`: golden outputs, and the same facts for programs."""

from __future__ import annotations

import json

import pytest

from duly.cli.main import main

GOLDEN = {
    ("30 2 * * *", "--tz", "Europe/Berlin", "--after", "2026-10-23T12:00:00Z", "-n", "3"): """\
Every day at 02:30 Berlin time

  Sat 24 Oct 2026  02:30:00 +0200   00:30:00 UTC
  Sun 25 Oct 2026  02:30:00 +0200   00:30:00 UTC   02:30 happens twice on this day; runs at the first
  Mon 26 Oct 2026  02:30:00 +0100   01:30:00 UTC
""",
    ("30 2 * * *", "--tz", "America/New_York", "--after", "2026-03-07T12:00:00Z", "-n", "2"): """\
Every day at 02:30 New York time

  Sun 08 Mar 2026  03:00:00 -0400   07:00:00 UTC   02:30 does not exist on this day; runs at 03:00
  Mon 09 Mar 2026  02:30:00 -0400   06:30:00 UTC
""",
    ("*/20 * * * * *", "--seconds", "--after", "2026-01-01T00:00:00Z", "-n", "2"): """\
Every 20 seconds

  Thu 01 Jan 2026  00:00:20 +0000   00:00:20 UTC
  Thu 01 Jan 2026  00:00:40 +0000   00:00:40 UTC
""",
    ("every weekday at 07:30", "--tz", "Europe/Berlin", "--after", "2026-01-01T12:00:00Z", "-n", "2"): """\
At 07:30 on weekdays, Berlin time
30 7 * * 1-5

  Fri 02 Jan 2026  07:30:00 +0100   06:30:00 UTC
  Mon 05 Jan 2026  07:30:00 +0100   06:30:00 UTC
""",
    ("0 9 13 * 5", "--after", "2026-01-01T00:00:00Z", "-n", "1"): """\
On the 13th of the month, and on Fridays, at 09:00 UTC

  Fri 02 Jan 2026  09:00:00 +0000   09:00:00 UTC

! day-of-month and day-of-week are both restricted: it fires on days that match either, not only on those that match both
""",
}


@pytest.mark.parametrize("words", GOLDEN, ids=lambda words: words[0])
def test_what_people_see(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cron", *words, "-o", "table"]) == 0

    assert capsys.readouterr().out == GOLDEN[words]


def test_what_programs_get(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cron", "30 2 * * *", "--tz", "America/New_York", "--after", "2026-03-07T12:00:00Z", "-n", "1"]

    main([*words, "--json"])
    view = json.loads(capsys.readouterr().out)
    main([*words, "-o", "tsv"])
    tsv = capsys.readouterr().out

    note = "02:30 does not exist on this day; runs at 03:00"
    assert view == {
        "words": "Every day at 02:30 New York time",
        "fires": [{"at": "2026-03-08T07:00:00Z", "local": "2026-03-08T03:00:00-04:00", "note": note}],
        "warnings": [],
        "excluded": [],
    }
    assert tsv == f"at\tlocal\tnote\n2026-03-08T07:00:00Z\t2026-03-08T03:00:00-04:00\t{note}\n"


def test_the_policies_of_clock_changes_can_be_tried(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cron", "30 2 * * *", "--tz", "America/New_York", "--after", "2026-03-07T12:00:00Z", "-n", "1", "-o", "name"]

    main([*words, "--dst-gap", "skip"])

    assert capsys.readouterr().out == "2026-03-09T06:30:00Z\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["61 * * * *"], "✗ DULY-E101  schedule: the minute '61' is out of range."),
        (["0 0 30 2 *"], "✗ DULY-E102  "),
        (["0 3 * * *", "--tz", "Europe/Berlni"], "Did you mean Europe/Berlin"),
        (["0 3 * * *", "--after", "tomorrow"], "✗ DULY-E105  --after: 'tomorrow' is not a time."),
        (["0 3 * *"], "✗ DULY-E101  "),
    ],
)
def test_what_cannot_be_a_schedule_is_explained(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cron", *words]) == 2

    assert said in capsys.readouterr().err
