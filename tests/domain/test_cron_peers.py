"""How two well known libraries answer: where they agree, and the named rule wherever they do not.

Nothing here says that a peer is wrong: they follow other rules. A row that starts to agree is
a reason to correct docs/explanation/cron.md, so it fails.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.cron import parse_cron
from duly.domain.errors import Invalid
from duly.domain.instants import SECOND, from_rfc3339, to_rfc3339
from duly.domain.schedule import CronSchedule, fires
from duly.domain.zones import changes
from duly.verify.oracle import zone_of

cronsim = pytest.importorskip("cronsim")
croniter = pytest.importorskip("croniter")

NEW_YORK = "America/New_York"
REFUSED = "refused"
Answer = list[str] | str
Peer = Callable[[str, str, str, int], Answer]


def ours(text: str, zone: str, after: str, count: int) -> Answer:
    try:
        schedule = CronSchedule(parse_cron(text, seconds=len(text.split()) == 6), zone)
    except Invalid:
        return REFUSED
    return [to_rfc3339(fire).removesuffix("Z") for fire in fires(schedule, from_rfc3339(after), None, count)]


def by_cronsim(text: str, zone: str, after: str, count: int) -> Answer:
    try:
        found = cronsim.CronSim(text, start_of(zone, after))
        return [utc(next(found)) for _ in range(count)]
    except (cronsim.CronSimError, ValueError):
        return REFUSED


def by_croniter(text: str, zone: str, after: str, count: int) -> Answer:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = croniter.croniter(text, start_of(zone, after))
            return [utc(found.get_next(datetime)) for _ in range(count)]
    except (croniter.CroniterError, ValueError):
        return REFUSED


def start_of(zone: str, after: str) -> datetime:
    return datetime.fromisoformat(after).astimezone(zone_of(zone))


def utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


# rule, expression, zone, after, what the peer answers
CRONSIM_DIFFERS = [
    ("Z1", "* 4 * * *", "Australia/Lord_Howe", "2022-10-01T11:00:00Z", ["2022-10-01T17:30:00"]),  # the day of a 30-minute change
    ("Z1", "*/9 3 * * *", "Australia/Lord_Howe", "2026-04-04T06:00:00Z", ["2026-04-04T17:06:00"]),
    ("Z1", "* 1 * * 0", "America/Havana", "2024-03-09T14:05:00Z", ["2024-03-17T05:00:00"]),  # loses the hour after a gap at midnight
    ("Z1", "*/5 0,3 * * 0", "America/Havana", "2024-03-09T19:24:00Z", ["2024-03-10T05:00:00"]),  # and runs a wild time of that gap
    ("Z2", "18 1 * * *", "Antarctica/Troll", "2027-10-31T01:03:19Z", ["2027-10-30T23:18:00"]),  # an instant before the start
    ("Z2", "30 0 * * *", "Africa/Monrovia", "1972-01-06T12:00:00Z", ["1972-01-07T00:45:00"]),
    ("Z5", "0 0 * * SAT-SUN", "UTC", "2026-06-01T00:00:00Z", REFUSED),
    ("Z5", "0 0 * * 6-0", "UTC", "2026-06-01T00:00:00Z", REFUSED),
    ("Z5", "0 0 ? * MON", "UTC", "2026-06-01T00:00:00Z", REFUSED),
    ("Z6", "0 0 * * 1/2", "UTC", "2026-06-05T00:00:00Z", ["2026-06-07T00:00:00"]),
    ("Z6", "0 4-4/2 * * *", "UTC", "2026-06-01T04:00:00Z", ["2026-06-01T06:00:00"]),  # reads 4-4/2 as 4/2
    ("Z6", "*/90 * * * *", "UTC", "2026-06-01T00:00:00Z", ["2026-06-01T01:00:00"]),
    ("Z6", "0 0 L-3 * *", "UTC", "2026-06-01T00:00:00Z", REFUSED),
    ("Z6", "0 0 15W * *", "UTC", "2026-06-01T00:00:00Z", REFUSED),
    ("Z7", "@daily", "UTC", "2026-06-01T00:00:00Z", REFUSED),
]

CRONITER_DIFFERS = [
    ("Z1", "*/30 2 * * *", NEW_YORK, "2026-03-08T01:00:00Z", ["2026-03-08T07:00:00"]),
    ("Z1", "*/5 0,3 * * 0", "America/Havana", "2024-03-09T19:24:00Z", ["2024-03-10T05:00:00"]),
    ("Z2", "30 1 * * *", NEW_YORK, "2026-11-01T05:45:00Z", ["2026-11-01T06:30:00"]),
    ("Z2", "18 1 * * *", "Antarctica/Troll", "2027-10-31T01:03:19Z", ["2027-10-31T01:18:00"]),
    ("Z2", "30 1 * * *", "Antarctica/Troll", "2026-10-25T00:00:00Z", ["2026-10-25T01:30:00"]),
    ("Z2", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T15:00:00Z", ["2026-04-04T15:15:00"]),
    ("Z2", "30 2 * * *", "Africa/Casablanca", "2026-02-15T02:00:00Z", ["2026-02-15T02:30:00"]),
    ("Z2", "30 23 * * *", "America/Sao_Paulo", "2019-02-17T02:00:00Z", ["2019-02-17T02:30:00"]),
    ("Z2", "30 0 * * *", "Africa/Monrovia", "1972-01-06T12:00:00Z", ["1972-01-07T00:45:00"]),
    ("Z5", "0 0 */10 * MON", "UTC", "2026-06-01T00:00:00Z", ["2026-06-08T00:00:00"]),
    ("Z5", "0 0 10-12 * */2", "UTC", "2026-06-01T00:00:00Z", ["2026-06-02T00:00:00"]),
    ("Z5", "0 22-2 * * *", "UTC", "2026-06-01T00:00:00Z", ["2026-06-01T01:00:00"]),
    ("Z5", "0 0 * * FRI-MON", "UTC", "2026-06-01T00:00:00Z", ["2026-06-05T00:00:00"]),
    ("Z6", "0 4-4/2 * * *", "UTC", "2026-06-01T04:00:00Z", ["2026-06-01T06:00:00"]),
    ("Z6", "*/90 * * * *", "UTC", "2026-06-01T00:00:00Z", ["2026-06-01T01:00:00"]),
    ("Z6", "0 0 L-3 * *", "UTC", "2026-06-01T00:00:00Z", REFUSED),
    ("Z6", "0 0 LW * *", "UTC", "2026-06-01T00:00:00Z", REFUSED),
    ("Z6", "0 0 * * 5L", "UTC", "2026-06-01T00:00:00Z", REFUSED),
    ("Z6", "0 0 1 * 1#2", "UTC", "2026-06-01T00:00:00Z", REFUSED),
    ("Z6", "\u0663 0 * * *", "UTC", "2026-06-01T00:00:00Z", ["2026-06-01T00:03:00"]),
    ("Z7", "30 0 2 * * *", "UTC", "2026-06-01T00:00:00Z", ["2026-06-02T00:30:00"]),
]


@pytest.mark.parametrize(("rule", "text", "zone", "after", "theirs"), CRONSIM_DIFFERS)
def test_cronsim_differs_here_by_the_named_rule(rule: str, text: str, zone: str, after: str, theirs: Answer) -> None:
    assert by_cronsim(text, zone, after, 1) == theirs
    assert ours(text, zone, after, 1) != theirs, f"{rule} no longer tells us apart"


@pytest.mark.parametrize(("rule", "text", "zone", "after", "theirs"), CRONITER_DIFFERS)
def test_croniter_differs_here_by_the_named_rule(rule: str, text: str, zone: str, after: str, theirs: Answer) -> None:
    assert by_croniter(text, zone, after, 1) == theirs
    assert ours(text, zone, after, 1) != theirs, f"{rule} no longer tells us apart"


@pytest.mark.parametrize("make", [cronsim.CronSim, croniter.croniter])
def test_a_number_of_5000_digits_is_an_error_that_the_peers_do_not_name(make: Callable[[str, datetime], object]) -> None:
    with pytest.raises(ValueError, match="4300 digits") as error:
        make("1" * 5000 + " * * * *", datetime(2026, 1, 1))
    assert type(error.value) is ValueError
    assert ours("1" * 5000 + " * * * *", "UTC", "2026-06-01T00:00:00Z", 1) == REFUSED


@pytest.mark.parametrize("peer", [by_cronsim, by_croniter])
@pytest.mark.parametrize(
    ("text", "zone", "after"),
    [
        ("30 2 * * *", NEW_YORK, "2026-03-07T12:00:00Z"),  # Z2, the gap
        ("0,30 2 * * *", NEW_YORK, "2026-03-08T01:00:00Z"),  # Z3
        ("0 2,3 * * *", NEW_YORK, "2026-03-08T01:00:00Z"),  # Z3
        ("*/15 * * * *", NEW_YORK, "2026-03-08T06:30:00Z"),  # Z1
        ("30 * * * *", NEW_YORK, "2026-11-01T05:00:00Z"),  # Z1
        ("0 9 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z"),  # Z4
        ("30 1 * * *", "Europe/Dublin", "2026-03-28T12:00:00Z"),  # Z9
        ("0 0 13 * FRI", "UTC", "2026-02-06T00:00:00Z"),  # Z5
        ("5/15 * * * *", "UTC", "2026-06-01T00:00:00Z"),  # Z6
        ("0 0 L * *", "UTC", "2026-06-01T00:00:00Z"),
        ("0 0 * * 1#2", "UTC", "2026-06-01T00:00:00Z"),
    ],
)
def test_all_three_agree_here(peer: Peer, text: str, zone: str, after: str) -> None:
    assert peer(text, zone, after, 3) == ours(text, zone, after, 3)


# --- random agreement -------------------------------------------------------------------------

ZONES = [
    NEW_YORK,
    "Europe/Berlin",
    "Europe/Dublin",
    "Africa/Casablanca",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "America/Havana",
    "Asia/Tokyo",
]
CASES = 1500


def plain_expression(chance: random.Random) -> str:
    """Only syntax that all three read, so that only the rules differ."""

    def field(low: int, high: int, likely: float) -> str:
        if chance.random() < likely:
            return "*"
        first, second = sorted((chance.randint(low, high), chance.randint(low, high)))
        step = chance.randint(2, 10)
        return chance.choice(
            [str(first), str(first), f"{first}-{second}", f"{first},{second}", f"*/{step}", f"{low}-{max(second, low + 1)}/{step}"]
        )

    hour = chance.choice([field(0, 3, 0.2), field(0, 23, 0.2)])
    weekday = "*" if chance.random() < 0.7 else chance.choice(["1-5", "0", "6", "MON", "0,3", "*/2"])
    return f"{field(0, 59, 0.2)} {hour} {field(1, 28, 0.7)} * {weekday}"


def a_moment(chance: random.Random, zone: str, near_a_change: bool) -> str:
    second = chance.randint(1_600_000_000, 1_900_000_000)
    moves = changes(zone, second * SECOND, (second + 500 * 86_400) * SECOND)
    if near_a_change and moves:
        second = chance.choice(moves).at // SECOND + chance.randint(-86_400, 7200)
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)).isoformat()


def reason(text: str) -> str:
    """The rule under which a difference in this expression falls."""
    minute, hour, day, _, weekday = text.split()
    if day != "*" and weekday != "*" and (day.startswith("*") or weekday.startswith("*")):
        return "Z5"
    return "Z1" if minute.startswith("*") or hour.startswith("*") else "Z2"


@pytest.mark.parametrize(
    ("peer", "near_a_change", "least"),
    [(by_cronsim, False, 0.995), (by_cronsim, True, 0.98), (by_croniter, False, 0.94), (by_croniter, True, 0.90)],
)
def test_random_agreement_is_at_least_what_the_documentation_says(
    peer: Peer, near_a_change: bool, least: float, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(f"peers {near_a_change}")
    agreed, reasons, examples = 0, Counter[str](), []
    for _ in range(CASES):
        text, zone = plain_expression(chance), chance.choice(ZONES)
        after = a_moment(chance, zone, near_a_change)
        expected, answer = ours(text, zone, after, 3), peer(text, zone, after, 3)
        if expected == answer:
            agreed += 1
        else:
            reasons[reason(text)] += 1
            examples.append((text, zone, after, expected, answer))

    share = agreed / CASES
    record_property("agreement", share)
    when = "near a clock change" if near_a_change else "any time"
    print(f"{peer.__name__}, {when}: {share:.1%} of {CASES} agree; differences {dict(reasons)}")
    assert share >= least, examples[:5]
