"""Times as they are typed on the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from duly.cli.times import earlier_of, later_of
from duly.domain.errors import Invalid
from tests.cli.processes import Running

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-01T09:00:00Z", datetime(2026, 12, 1, 9, tzinfo=UTC)),
        ("2026-12-01T09:00:00+01:00", datetime(2026, 12, 1, 8, tzinfo=UTC)),
        ("2026-12-01 09:00", datetime(2026, 12, 1, 8, tzinfo=UTC)),
        ("2026-12-01T9:00:30", datetime(2026, 12, 1, 8, 0, 30, tzinfo=UTC)),
        ("2026-12-01", datetime(2026, 11, 30, 23, tzinfo=UTC)),
        ("2026-10-25 02:30", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
    ],
)
def test_a_time_without_an_offset_is_one_of_the_zone(text: str, expected: datetime) -> None:
    assert later_of(text, "--until", BERLIN) == earlier_of(text, "--since", BERLIN) == expected


def test_a_time_of_the_day_is_the_nearest_one() -> None:
    now = datetime.now(UTC)

    for minutes in (-90, -1, 1, 90):
        shown = (now + timedelta(minutes=minutes)).astimezone(BERLIN)
        later, earlier = (when(f"{shown:%H:%M}", "--at", BERLIN) for when in (later_of, earlier_of))
        assert timedelta() < later - now <= timedelta(hours=25)
        assert timedelta() <= now - earlier <= timedelta(hours=25)
        assert {f"{one.astimezone(BERLIN):%H:%M:%S}" for one in (later, earlier)} == {f"{shown:%H:%M}:00"}


def test_a_duration_counts_from_now() -> None:
    now = datetime.now(UTC)

    assert abs(later_of("2h", "--until") - now - timedelta(hours=2)) < timedelta(seconds=30)
    assert abs(now - earlier_of("7d", "--since") - timedelta(days=7)) < timedelta(seconds=30)


@pytest.mark.parametrize("text", ["25:00", "09:75", "soon", "2026-13-01 09:00", "2026-12-01 9", "2026-03-29 02:30", ""])
def test_what_is_no_time_says_so(text: str) -> None:
    with pytest.raises(Invalid) as raised:
        later_of(text, "--until", BERLIN)

    assert (raised.value.code, raised.value.field) == ("DULY-E105", "--until")


def test_a_pause_until_a_time_of_the_day(server: Running) -> None:
    server.duly("job", "create", "--name", "until-clock", "--cron", "0 3 * * *", "--handler", "duly.echo")

    for words in (("--until", "09:00", "-m", "db move"), ("--until", "2099-12-01 09:00", "--tz", "Europe/Berlin")):
        answer = server.duly("pause", "until-clock", *words)
        assert answer.code == 0, answer.err
        until = json.loads(server.duly("job", "show", "until-clock", "--json").out)["pausedUntil"]
        assert until.endswith(("T09:00:00Z", "2099-12-01T08:00:00Z"))
    assert server.duly("resume", "until-clock", "-m", "it is done").code == 0
    assert server.duly("skip", "until-clock", "--at", "03:00", "-m", "not today").code == 0
    assert server.duly("run", "list", "--since", "00:00", "--until", "1s").code == 0
