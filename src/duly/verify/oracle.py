"""A second opinion on cron: slow, plain, and sharing no line with the product.

It expands the fields with its own few lines, walks *every* minute (or second) of a window, asks
`zoneinfo` what the clock shows there, and keeps what matches. One `Walk` serves many
expressions: for each value of each field it holds an integer with one bit per place of the
walk, so that matching an expression is a handful of ANDs and ORs.
"""

from __future__ import annotations

import calendar
import importlib.resources
from datetime import date, datetime, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1)
SECOND = timedelta(seconds=1)
MONTH_NAMES = dict(zip(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], range(1, 13), strict=True))
DAY_NAMES = dict(zip(["sun", "mon", "tue", "wed", "thu", "fri", "sat"], range(7), strict=True))
LIMITS = {"second": (0, 59), "minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 6)}


@cache
def zone_of(name: str) -> ZoneInfo:
    """The zone from the tzdata package, never from the machine."""
    path = importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/"))
    with path.open("rb") as stream:
        return ZoneInfo.from_file(stream, key=name)


def all_zones() -> list[str]:
    """Every zone of the tzdata package."""
    return sorted(set(importlib.resources.files("tzdata").joinpath("zones").read_text().split()) - {"Factory"})


def local(second: int, zone: ZoneInfo) -> datetime:
    """What the wall clock shows, as a naive datetime."""
    return datetime.fromtimestamp(second, zone).replace(tzinfo=None)


def offset(second: int, zone: ZoneInfo) -> int:
    return (local(second, zone) - EPOCH) // SECOND - second


# --- the fields -------------------------------------------------------------------------------


def split(text: str, seconds: bool) -> dict[str, str]:
    """The six fields by name."""
    parts = text.lower().split()
    names = ["second", "minute", "hour", "day", "month", "weekday"]
    return dict(zip(names, parts if seconds else ["0", *parts], strict=True))


def number(name: str, text: str) -> int:
    if name == "month" and text in MONTH_NAMES:
        return MONTH_NAMES[text]
    if name == "weekday" and text in DAY_NAMES:
        return DAY_NAMES[text]
    return int(text)


@lru_cache(maxsize=4096)
def plain_values(name: str, item: str) -> frozenset[int]:
    """The values of `*`, `n`, `a-b` and their steps."""
    low, high = LIMITS[name]
    body, _, step = item.partition("/")
    if body in ("*", "?"):
        first, last = low, high
    elif "-" in body:
        left, right = body.split("-")
        first, last = number(name, left), number(name, right)
        if name == "weekday" and last == 0 and first > 0:
            last = 7
    else:
        first = number(name, body)
        if name == "weekday" and first == 7:
            first = 0
        last = high if step else first
    found = set()
    value = first
    while value <= last:
        found.add(value % 7 if name == "weekday" else value)
        value += int(step or "1")
    return frozenset(found)


def values(name: str, text: str) -> frozenset[int]:
    return frozenset().union(*(plain_values(name, item) for item in text.split(",")))


def is_wild(fields: dict[str, str]) -> bool:
    return any(fields[name].startswith("*") for name in ("second", "minute", "hour"))


@lru_cache(maxsize=65_536)
def day_of_month_matches(item: str, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    last = day.replace(day=length)
    if item == "l":
        return day == last
    if item.startswith("l-"):
        return day == last - timedelta(days=int(item[2:]))
    if item == "lw":
        workdays = [d for d in (day.replace(day=n) for n in range(1, length + 1)) if d.weekday() < 5]
        return day == workdays[-1]
    if item.endswith("w"):
        wanted = int(item[:-1])
        if wanted > length:
            return False
        target = day.replace(day=wanted)
        workdays = [d for d in (day.replace(day=n) for n in range(1, length + 1)) if d.weekday() < 5]
        # Saturday is nearer to Friday and Sunday to Monday; a tie never happens inside a month.
        return day == min(workdays, key=lambda d: abs((d - target).days))
    return day.day in plain_values("day", item)


@lru_cache(maxsize=65_536)
def day_of_week_matches(item: str, day: date) -> bool:
    weekday = day.isoweekday() % 7
    if "#" in item:
        name, nth = item.split("#")
        return weekday == number("weekday", name) % 7 and (day.day + 6) // 7 == int(nth)
    if item.endswith("l"):
        return weekday == number("weekday", item[:-1]) % 7 and (day + timedelta(days=7)).month != day.month
    return weekday in plain_values("weekday", item)


def date_matches(fields: dict[str, str], day: date) -> bool:
    if day.month not in values("month", fields["month"]):
        return False
    by_day = any(day_of_month_matches(item, day) for item in fields["day"].split(","))
    by_weekday = any(day_of_week_matches(item, day) for item in fields["weekday"].split(","))
    if fields["day"][0] in "*?" or fields["weekday"][0] in "*?":
        return by_day and by_weekday
    return by_day or by_weekday


# --- the walk ---------------------------------------------------------------------------------


class Index:
    """Bit maps over a list of wall clock readings: which places show this second, minute, hour, date."""

    def __init__(self, readings: list[datetime]) -> None:
        places: dict[tuple[str, object], list[int]] = {}
        for place, shown in enumerate(readings):
            for key in (("second", shown.second), ("minute", shown.minute), ("hour", shown.hour), ("date", shown.date())):
                places.setdefault(key, []).append(place)
        self.size = len(readings)
        self.maps = {key: self._bits(found) for key, found in places.items()}
        self.dates = [key[1] for key in self.maps if key[0] == "date"]

    def _bits(self, places: list[int]) -> int:
        buffer = bytearray(self.size // 8 + 1)
        for place in places:
            buffer[place // 8] |= 1 << place % 8
        return int.from_bytes(buffer, "little")

    def matching(self, fields: dict[str, str], low: int, high: int) -> list[int]:
        """The places from `low` up to `high` whose reading the expression names, in order."""
        found = 0
        for day in self.dates:
            if date_matches(fields, day):  # type: ignore[arg-type]
                found |= self.maps["date", day]
        for name in ("hour", "minute", "second"):
            if not found:
                return []
            union = 0
            for value in values(name, fields[name]):
                union |= self.maps.get((name, value), 0)
            found &= union
        low = max(low, 0)
        found = found >> low & (1 << max(high - low, 0)) - 1
        places = []
        while found:
            lowest = found & -found
            places.append(low + lowest.bit_length() - 1)
            found ^= lowest
        return places


class Walk:
    """Every `step` seconds of [start, end) in one zone, both as instants and as wall clock readings."""

    def __init__(self, zone_name: str, start: int, end: int, step: int, middle: int) -> None:
        self.zone_name, self.start, self.end, self.middle = zone_name, start, end, middle
        self.zone = zone_of(zone_name)
        self.instants = list(range(start, end, step))
        self.by_instant = Index([local(second, self.zone) for second in self.instants])
        # Readings whose instants may lie in the window; a day or more on each side when a gap can be a day long.
        spare = 26 * 3600 if abs(offset(start, self.zone) - offset(end, self.zone)) > 2 * 3600 else 3 * 3600
        first = min(local(start, self.zone), local(end, self.zone)) - timedelta(seconds=spare)
        first = first.replace(second=0)
        self.step, self.spare = step, spare
        self.readings = [first + timedelta(seconds=place) for place in range(0, end - start + 2 * spare + 60, step)]
        self.by_reading = Index(self.readings)
        self.facts: dict[int, tuple[str, int, int]] = {}
        self.ends_of_gaps: list[int] = []

    def fires(self, text: str, seconds: bool, gap: str, overlap: str, start: int, end: int) -> list[int]:
        """Every fire in [start, end), a part of the window, as seconds since 1970."""
        fields = split(text, seconds)
        if is_wild(fields):
            low, high = -(-(start - self.start) // self.step), -(-(end - self.start) // self.step)
            return [self.instants[place] for place in self.by_instant.matching(fields, low, high)]
        found: set[int] = set()
        shown = sorted((local(start, self.zone), local(end, self.zone)))
        low = (shown[0] - self.readings[0]) // SECOND - self.spare
        high = (shown[1] - self.readings[0]) // SECOND + self.spare
        for place in self.by_reading.matching(fields, low // self.step - 1, high // self.step + 2):
            if place not in self.facts:
                self.facts[place] = self.instants_of(self.readings[place])
            kind, *instants = self.facts[place]
            if kind == "gap":
                found.update({"run_after": instants[:1], "shift": instants[1:], "skip": []}[gap])
            else:
                found.update({"first": instants[:1], "second": instants[1:], "both": instants}[overlap])
        return sorted(second for second in found if start <= second < end)

    def instants_of(self, reading: datetime) -> tuple[str, int, int]:
        """By fold round trips: ("shown", first, second) or ("gap", end of the gap, moved on by its length)."""
        early = int(reading.replace(tzinfo=self.zone, fold=0).timestamp())
        late = int(reading.replace(tzinfo=self.zone, fold=1).timestamp())
        if local(early, self.zone) == reading:
            return "shown", early, late
        # fold=1 applies the offset after the gap, which lands before it: walk on until the clocks jump.
        for known in self.ends_of_gaps:
            if late < known <= early:
                return "gap", known, early
        before, second = offset(late, self.zone), late
        while offset(second, self.zone) == before:
            second += 1
        self.ends_of_gaps.append(second)
        return "gap", second, early


def change_in_year(zone_name: str, year: int, pick: int) -> int | None:
    """The second of one of the offset changes of that year, found by asking every hour; None without any."""
    zone = zone_of(zone_name)
    first = (datetime(year, 1, 1) - EPOCH) // SECOND
    days = [day for day in range(366) if offset(first + day * 86_400, zone) != offset(first + (day + 1) * 86_400, zone)]
    if not days:
        return None
    second = first + days[pick % len(days)] * 86_400
    while offset(second, zone) == offset(second + 60, zone):
        second += 60
    while offset(second, zone) == offset(second + 1, zone):
        second += 1
    return second + 1


# --- a few fires in a short window ------------------------------------------------------------

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
DAY = 86_400


@lru_cache(maxsize=4096)
def stretches(zone_name: str, first_day: int, last_day: int) -> tuple[tuple[int, int, int], ...]:
    """(from, to, offset): the stretches of constant offset from one day to another, found by asking every third hour."""
    zone = zone_of(zone_name)
    found: list[tuple[int, int, int]] = []
    begin, end = first_day * DAY, last_day * DAY
    shown = offset(begin, zone)
    for early in range(begin, end, 3 * 3600):
        late = early + 3 * 3600
        if offset(late, zone) == shown:
            continue
        while late - early > 1:
            middle = (early + late) // 2
            early, late = (middle, late) if offset(middle, zone) == shown else (early, middle)
        found.append((begin, late, shown))
        begin, shown = late, offset(late, zone)
    return (*found, (begin, end, shown))


def readings(fields: dict[str, str], first: int, last: int) -> list[int]:
    """Every wall clock reading in [first, last) that the expression names, as seconds since 1970 on that wall."""
    hours, minutes, seconds = (sorted(values(name, fields[name])) for name in ("hour", "minute", "second"))
    found: list[int] = []
    for day in range(first // DAY, -(-last // DAY)):
        if not date_matches(fields, (EPOCH + timedelta(days=day)).date()):
            continue
        for hour in hours:
            start = day * DAY + hour * 3600
            if start + 3600 <= first or start >= last:
                continue
            for minute in minutes:
                at = start + minute * 60
                if first - 60 < at < last:
                    found += [at + second for second in seconds if first <= at + second < last]
    return found


def cron_fires(text: str, seconds: bool, zone_name: str, gap: str, overlap: str, start: int, end: int) -> list[int]:
    """Every fire in [start, end) as seconds since 1970: the same as `Walk.fires`, without a walk that many expressions share."""
    fields = split(MACROS.get(text.strip().lower(), text), seconds)
    wild = is_wild(fields)
    found: set[int] = set()
    known = stretches(zone_name, start // DAY - 2, end // DAY + 3)
    for place, (begin, until, shown) in enumerate(known):
        for reading in readings(fields, max(begin, start) + shown, min(until, end) + shown):
            repeats = place > 0 and reading < begin + known[place - 1][2]
            repeated = place + 1 < len(known) and reading >= until + known[place + 1][2]
            if wild or not ((repeats and overlap == "first") or (repeated and overlap == "second")):
                found.add(reading - shown)
        if place == 0 or wild or gap == "skip":
            continue
        before = known[place - 1][2]
        for reading in readings(fields, begin + before, begin + shown):
            found.add(begin if gap == "run_after" else reading - before)
    return sorted(second for second in found if start <= second < end)
