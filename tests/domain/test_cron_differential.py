"""The schedule core against the oracle: 100,000 random cases, no difference allowed.

`DULY_CRON_CASES` scales the number, for a long run: DULY_CRON_CASES=1000000.
"""

from __future__ import annotations

import os
import random
from datetime import date, datetime, timedelta
from itertools import islice

import pytest

from duly.domain.cron import Cron, parse_cron
from duly.domain.errors import Invalid
from duly.domain.instants import SECOND
from duly.domain.schedule import CronSchedule, DstGap, DstOverlap, fires, previous_fire
from duly.verify.oracle import Walk, all_zones, change_in_year, date_matches, local, offset, split, zone_of

CASES = int(os.environ.get("DULY_CRON_CASES", "100000"))
CHUNKS = 40
CASES_PER_WALK = 1250

# Where clocks do unusual things; drawn as often as all other zones together.
UNUSUAL = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/El_Aaiun",
    "America/Asuncion",
    "America/Caracas",
    "America/Havana",
    "America/Los_Angeles",
    "America/New_York",
    "America/Nuuk",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/Istanbul",
    "Europe/London",
    "Europe/Volgograd",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "Pacific/Kwajalein",
]

# (zone, year) of changes that are rare in kind: whole days skipped or repeated, offsets of seconds.
RARE = [
    ("Pacific/Apia", 2011),
    ("Pacific/Kiritimati", 1994),
    ("Pacific/Kwajalein", 1993),
    ("Africa/Monrovia", 1972),
    ("America/Caracas", 2007),
]


def a_walk(chance: random.Random) -> tuple[Walk, bool]:
    """A window around a change of the clocks (mostly), and whether it is walked second by second."""
    zone, year = chance.choice(UNUSUAL if chance.random() < 0.5 else all_zones()), chance.randint(1970, 2120)
    if chance.random() < 0.1:
        zone, year = chance.choice(RARE)
    change = change_in_year(zone, year, chance.randrange(4)) if chance.random() < 0.9 else None
    middle = change if change is not None else chance.randint(86_400 * 10, 5_000_000_000)
    before, after = offset(middle - 1, zone_of(zone)), offset(middle, zone_of(zone))
    by_seconds = (chance.random() < 0.2 and abs(after - before) < 86_400) or before % 60 != 0
    if by_seconds:
        return Walk(zone, middle - chance.randint(600, 4000), middle + chance.randint(600, 5400), 1, middle), True
    start = (middle - chance.randint(3_600, 2 * 86_400)) // 60 * 60
    return Walk(zone, start, start + chance.randint(2, 4) * 86_400, 60, middle), False


def an_expression(chance: random.Random, walk: Walk, by_seconds: bool) -> str:
    """Random fields that prefer what the window shows, so that most expressions fire inside it."""
    instant = chance.choice([chance.randrange(walk.start, walk.end), walk.middle + chance.randint(-5400, 5400)])
    # The clock as it would have gone on without the change: this also names times inside the gap.
    shown = local(walk.middle - 1, walk.zone) + timedelta(seconds=instant - walk.middle)
    fields = [time_field(chance, 59, shown.minute), time_field(chance, 23, shown.hour)]
    fields += [day_field(chance, shown), month_field(chance, shown.month), weekday_field(chance, shown)]
    if by_seconds:
        fields.insert(0, time_field(chance, 59, shown.second))
    return chance.choice([" ", "  ", "\t"]).join(fields)


def time_field(chance: random.Random, high: int, near: int) -> str:
    def item() -> str:
        first, second = sorted((chance.randint(0, high), chance.randint(0, high)))
        step = chance.choice([1, 2, 3, 5, 7, 10, 15, 20, high, high + 1])
        kinds = ["*", f"*/{step}", str(near), str(near), str(chance.randint(0, high)), str(chance.choice([0, 1, 2, 3]))]
        return chance.choice([*kinds, f"{first}-{second}", f"{first}-{second}/{step}", f"{first}/{step}", f"{near:02}"])

    return ",".join(item() for _ in range(chance.choice([1, 1, 1, 1, 2, 3])))


def day_field(chance: random.Random, shown: datetime) -> str:
    def item() -> str:
        first, second = sorted((chance.randint(1, 31), chance.randint(1, 31)))
        kinds = ["*", f"*/{chance.randint(1, 31)}", str(shown.day), str(shown.day), f"{first}-{second}", f"{first}/{chance.randint(1, 9)}"]
        return chance.choice([*kinds, "L", "l", f"L-{chance.randint(0, 30)}", "LW", f"{chance.randint(1, 31)}W", f"{shown.day}W"])

    if chance.random() < 0.5:
        return chance.choice("**?")
    return ",".join(item() for _ in range(chance.choice([1, 1, 2, 3])))


def month_field(chance: random.Random, near: int) -> str:
    names = ["JAN", "feb", "Mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "DEC"]
    if chance.random() < 0.8:
        return "*"
    return chance.choice(
        [str(near), names[near - 1], f"*/{chance.randint(1, 12)}", f"1-{near}", f"{names[0]}-{names[near - 1]}", f"{near}/3"]
    )


def weekday_field(chance: random.Random, shown: datetime) -> str:
    names = ["SUN", "mon", "Tue", "wed", "thu", "fri", "sat"]
    near = shown.isoweekday() % 7

    def item() -> str:
        first, second = sorted((chance.randint(0, 7), chance.randint(0, 7)))
        kinds = ["*", f"*/{chance.randint(1, 7)}", str(near), names[near], "7", f"{first}-{second}", f"{chance.randint(1, 6)}-0", "SAT-SUN"]
        forms = [f"{near}#{(shown.day + 6) // 7}", f"{names[near]}#{chance.randint(1, 5)}", f"{near}L", f"{names[near]}L", f"{first}/2"]
        return chance.choice([*kinds, *forms])

    if chance.random() < 0.5:
        return chance.choice("**?")
    return ",".join(item() for _ in range(chance.choice([1, 1, 2])))


def a_part(chance: random.Random, walk: Walk) -> tuple[int, int]:
    """Some of the window, often around its middle, sometimes all."""
    size = chance.choice([3_600, 3_600, 4 * 3_600, 86_400])
    if chance.random() < 0.03 or size >= walk.end - walk.start:
        return walk.start, walk.end
    start = chance.choice([walk.middle - chance.randrange(size), chance.randrange(walk.start, walk.end - size)])
    return max(start, walk.start), min(start + size, walk.end)


def parsed(text: str, by_seconds: bool) -> Cron | None:
    """The expression, or None when it is refused because it can never fire; any other refusal is a bug."""
    try:
        return parse_cron(text, seconds=by_seconds)
    except Invalid as refused:
        if refused.code != "DULY-E102":
            raise
        return None


def check(chance: random.Random, walk: Walk, by_seconds: bool) -> int:
    """One case: what fires after a random point, and what fired last before it. Returns the number of fires compared."""
    text = an_expression(chance, walk, by_seconds)
    gap, overlap = chance.choice(list(DstGap)), chance.choice(list(DstOverlap))
    if chance.random() < 0.4:
        gap, overlap = DstGap.RUN_AFTER, DstOverlap.FIRST
    cron = parsed(text, by_seconds)
    if cron is None:
        assert walk.fires(text, by_seconds, gap, overlap, walk.start, walk.end) == [], text
        return 0
    schedule = CronSchedule(cron, walk.zone_name, gap, overlap)
    start, end = a_part(chance, walk)
    expected = walk.fires(text, by_seconds, gap, overlap, start, end)
    at = chance.choice(expected) + chance.choice([-1, 0, 1]) if expected and chance.random() < 0.7 else chance.randrange(start, end)
    count = chance.choice([1, 2, 3, 8])
    label = f"{text!r} {walk.zone_name} gap={gap} overlap={overlap} at={at}"
    ours = fires(schedule, at * SECOND, (end - 1) * SECOND, count)
    assert ours == [second * SECOND for second in expected if second > at][:count], label
    earlier = [second * SECOND for second in expected if second < at]
    previous = previous_fire(schedule, at * SECOND)
    if earlier or (previous is not None and previous >= start * SECOND):
        assert previous == (earlier[-1] if earlier else None), label
    return len(ours)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_random_case_differs_from_the_oracle(chunk: int) -> None:
    chance = random.Random(f"cron {chunk}")
    remaining, compared = CASES // CHUNKS, 0

    while remaining > 0:
        walk, by_seconds = a_walk(chance)
        for _ in range(min(remaining, CASES_PER_WALK)):
            compared += check(chance, walk, by_seconds)
        remaining -= CASES_PER_WALK

    if CASES >= 20_000:  # fewer say nothing about the average
        assert compared > CASES // CHUNKS // 2, "the cases hardly ever fire: the comparison is blind"


@pytest.mark.parametrize("chunk", range(8))
def test_no_random_date_differs_from_the_oracle_over_nine_years(chunk: int) -> None:
    chance = random.Random(f"dates {chunk}")
    for _ in range(max(CASES // 1000, 1)):
        first = date(chance.randint(1970, 2390), chance.randint(1, 12), chance.randint(1, 28))
        shown = datetime.combine(first, datetime.min.time()) + timedelta(days=chance.randrange(2000))
        text = f"0 0 {day_field(chance, shown)} {chance.choice(['*', month_field(chance, shown.month)])} {weekday_field(chance, shown)}"
        cron = parsed(text, False)
        fields = split(text, False)
        days = (first + timedelta(days=number) for number in range(9 * 366))
        expected = list(islice((day for day in days if date_matches(fields, day)), 5))

        found: list[date] = []
        reading = None if cron is None else cron.at_or_after((first - date(1970, 1, 1)).days * 86_400)
        while cron is not None and reading is not None and len(found) < 5:
            found.append(date(1970, 1, 1) + timedelta(days=reading // 86_400))
            reading = cron.at_or_after(reading + 1)

        assert [day for day in found if day < first + timedelta(days=9 * 366)] == expected, (text, first)
