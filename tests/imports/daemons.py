"""How two schedulers decide, written out as they do it, minute by minute: the loop of Debian's cron, and the controller's of Kubernetes.

Slow and plain on purpose, and without a line of the product: every minute of 400 days is looked at.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

EPOCH_DAY = date(1970, 1, 1).toordinal()
NAMES = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
NICKNAMES = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *"}


@lru_cache(maxsize=4)
def wall(zone: str, begin: int, days: int) -> list[int]:
    """What the wall shows in each minute after `begin`: minutes since 1970 on it. No clock changes inside a quarter of an hour."""
    known, found = ZoneInfo(zone), []
    for quarter in range(begin, begin + days * 86_400, 900):
        shown = datetime.fromtimestamp(quarter, known).replace(tzinfo=UTC)
        first = int(shown.timestamp()) // 60
        found += range(first, first + 15)
    last = datetime.fromtimestamp(begin + days * 86_400, known).replace(tzinfo=UTC)
    return [*found[1:], int(last.timestamp()) // 60]


class Fields:
    """Five fields as sets."""

    def __init__(self, text: str, *, star_with_step: bool) -> None:
        parts = NICKNAMES.get(text, text).lower().split()
        self.minutes, self.hours, self.days, self.months, weekdays = (
            {value for item in part.split(",") for value in self._item(item, *limits)} for part, limits in zip(parts, LIMITS, strict=True)
        )
        self.weekdays = {day % 7 for day in weekdays}
        self.wild = parts[0].startswith("*") or parts[1].startswith("*")
        self.both = any(part.startswith("*") and (star_with_step or "/" not in part) for part in (parts[2], parts[4]))

    @staticmethod
    def _item(item: str, low: int, high: int) -> range:
        span, _, step = item.partition("/")
        if span == "*":
            return range(low, min(high, 6) + 1 if high == 7 else high + 1, int(step or 1))
        first, _, last = span.partition("-")
        numbers = [NAMES[word] if word in NAMES else int(word) for word in (first, last or first)]
        return range(numbers[0], numbers[1] + 1, int(step or 1))

    def match(self, number: int) -> bool:
        """Whether this minute of the wall is named."""
        if number % 60 not in self.minutes or number // 60 % 24 not in self.hours:
            return False
        day = date.fromordinal(EPOCH_DAY + number // 1440)
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (by_month and by_week) if self.both else (by_month or by_week)


def cron(text: str, zone: str, begin: int, days: int) -> list[int]:
    """The daemon: when the wall jumps ahead by less than three hours, jobs that name times run for each minute that it jumped over; when
    it goes back, only jobs with a star run until the wall has caught up."""
    fields, found = Fields(text, star_with_step=True), []
    minutes = wall(zone, begin, days)
    virtual = minutes[0] - 1
    for place, shown in enumerate(minutes, 1):
        ahead = shown - virtual
        if ahead <= 0:
            if fields.wild and fields.match(shown):
                found.append(begin + place * 60)
            continue
        for number in range(virtual + 1, shown):
            if not fields.wild and fields.match(number):
                found.append(begin + place * 60)
        virtual = shown
        if fields.match(shown):
            found.append(begin + place * 60)
    return found


def controller(text: str, zone: str, begin: int, days: int) -> list[int]:
    """The controller: whatever the wall shows."""
    fields = Fields(text, star_with_step=False)
    return [begin + place * 60 for place, shown in enumerate(wall(zone, begin, days), 1) if fields.match(shown)]
