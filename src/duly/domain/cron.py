"""Cron expressions as values: parse one, print it, and walk the local times it names.

Nothing here knows a time zone. A `Cron` names readings of a wall clock ("nominal local times");
what becomes of a reading that a zone skips or shows twice is decided in `dst`.

    parse_cron("30 2 * * MON-FRI")            five fields
    parse_cron("0 30 2 * * *", seconds=True)  six, seconds first
    parse_cron("H H * * *", hash_key="shop")  a quiet time of its own, the same every time
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache

from duly.domain import cron_fields as fields
from duly.domain.cron_days import DayTable, can_fire, day_table
from duly.domain.cron_fields import CronField, parse_field, refuse, shown
from duly.domain.errors import Invalid

LONGEST_TEXT = 256

CANNOT_FIRE = "DULY-E102"

# 29 February on a given weekday may wait 40 years (2072 to 2112); nothing waits longer (Z8).
SEARCH_YEARS = 41

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_FIVE = (fields.MINUTE, fields.HOUR, fields.DAY, fields.MONTH, fields.WEEKDAY)
_SIX = (fields.SECOND, *_FIVE)
_BLANKS = re.compile("[ \t]+")
_DAY = 86_400
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_LAST_DAY = date.max.toordinal() - _EPOCH_ORDINAL
_FIRST_DAY = date.min.toordinal() - _EPOCH_ORDINAL


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression that can fire. Equal when the canonical texts are equal.

    Local times are whole seconds since 1970-01-01 00:00 on the wall clock.
    """

    text: str
    source: str = field(compare=False, repr=False)
    second: CronField = field(compare=False, repr=False)
    minute: CronField = field(compare=False, repr=False)
    hour: CronField = field(compare=False, repr=False)
    day: CronField = field(compare=False, repr=False)
    month: CronField = field(compare=False, repr=False)
    weekday: CronField = field(compare=False, repr=False)
    has_seconds: bool = field(compare=False, repr=False)
    is_wild: bool = field(compare=False, repr=False)
    days: DayTable = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    def matches(self, local: int) -> bool:
        """True when this wall clock reading is one that the expression names."""
        return self.at_or_after(local) == local

    def at_or_after(self, local: int) -> int | None:
        """The least named reading that is not before `local`; None after the year 9999."""
        day, second = divmod(local, _DAY)
        if not _FIRST_DAY <= day <= _LAST_DAY:
            return None if day > 0 else self.at_or_after(_FIRST_DAY * _DAY)
        if self._has_day(day):
            time = self._time_at_or_after(second)
            if time is not None:
                return day * _DAY + time
        following = self._day_after(day)
        return None if following is None else following * _DAY + self._first_time()

    def at_or_before(self, local: int) -> int | None:
        """The greatest named reading that is not after `local`; None when 41 years hold none."""
        day, second = divmod(local, _DAY)
        if not _FIRST_DAY <= day <= _LAST_DAY:
            return None if day < 0 else self.at_or_before((_LAST_DAY + 1) * _DAY - 1)
        if self._has_day(day):
            time = self._time_at_or_before(second)
            if time is not None:
                return day * _DAY + time
        preceding = self._day_before(day)
        return None if preceding is None else preceding * _DAY + self._last_time()

    def _has_day(self, day: int) -> bool:
        today = date.fromordinal(day + _EPOCH_ORDINAL)
        if not self.month.mask >> today.month & 1:
            return False
        return bool(self._days_of(today.year, today.month) >> today.day & 1)

    def _days_of(self, year: int, month: int) -> int:
        # Weekday of the first: toordinal() counts from a Monday, and Sunday is 0 here.
        first = date(year, month, 1).toordinal() % 7
        return self.days[(_length(year, month) - 28) * 7 + first]

    def _day_after(self, day: int) -> int | None:
        today = date.fromordinal(day + _EPOCH_ORDINAL)
        year, month = today.year, today.month
        # Days up to today are over; a chosen day left in this month wins.
        if self.month.mask >> month & 1:
            left = self._days_of(year, month) >> today.day + 1
            if left:
                return day + _lowest(left) + 1
        for _ in range(12 * SEARCH_YEARS + 1):
            later = self.month.mask >> month + 1
            if later:
                month += 1 + _lowest(later)
            else:
                year, month = year + 1, _lowest(self.month.mask)
                if year > date.max.year:
                    return None
            chosen = self._days_of(year, month)
            if chosen:
                return date(year, month, _lowest(chosen)).toordinal() - _EPOCH_ORDINAL
        raise AssertionError(f"{self.text} passed the check that it can fire, and does not")

    def _day_before(self, day: int) -> int | None:
        today = date.fromordinal(day + _EPOCH_ORDINAL)
        year, month = today.year, today.month
        if self.month.mask >> month & 1:
            left = self._days_of(year, month) & (1 << today.day) - 1
            if left:
                return day - today.day + _highest(left)
        for _ in range(12 * SEARCH_YEARS + 1):
            earlier = self.month.mask & (1 << month) - 1
            if earlier:
                month = _highest(earlier)
            else:
                year, month = year - 1, _highest(self.month.mask)
                if year < date.min.year:
                    return None
            chosen = self._days_of(year, month)
            if chosen:
                return date(year, month, _highest(chosen)).toordinal() - _EPOCH_ORDINAL
        raise AssertionError(f"{self.text} passed the check that it can fire, and does not")

    def _first_time(self) -> int:
        return _lowest(self.hour.mask) * 3600 + _lowest(self.minute.mask) * 60 + _lowest(self.second.mask)

    def _last_time(self) -> int:
        return _highest(self.hour.mask) * 3600 + _highest(self.minute.mask) * 60 + _highest(self.second.mask)

    def _time_at_or_after(self, second_of_day: int) -> int | None:
        hours, minutes, seconds = self.hour.mask, self.minute.mask, self.second.mask
        hour, rest = divmod(second_of_day, 3600)
        minute, second = divmod(rest, 60)
        if hours >> hour & 1:
            if minutes >> minute & 1 and (left := seconds >> second):
                return second_of_day + _lowest(left)
            if left := minutes >> minute + 1:
                return hour * 3600 + (minute + 1 + _lowest(left)) * 60 + _lowest(seconds)
        if left := hours >> hour + 1:
            return (hour + 1 + _lowest(left)) * 3600 + _lowest(minutes) * 60 + _lowest(seconds)
        return None

    def _time_at_or_before(self, second_of_day: int) -> int | None:
        hours, minutes, seconds = self.hour.mask, self.minute.mask, self.second.mask
        hour, rest = divmod(second_of_day, 3600)
        minute, second = divmod(rest, 60)
        if hours >> hour & 1:
            if minutes >> minute & 1 and (left := seconds & (2 << second) - 1):
                return hour * 3600 + minute * 60 + _highest(left)
            if left := minutes & (1 << minute) - 1:
                return hour * 3600 + _highest(left) * 60 + _highest(seconds)
        if left := hours & (1 << hour) - 1:
            return _highest(left) * 3600 + _highest(minutes) * 60 + _highest(seconds)
        return None


def parse_cron(text: str, *, seconds: bool = False, hash_key: str | None = None) -> Cron:
    """Read a cron expression of five fields, or of six with `seconds`, or a macro such as `@daily`.

    `hash_key` (the job's name, say) decides what `H` stands for. Raises Invalid: DULY-E101 when
    the text is malformed, DULY-E102 when no date it names exists.
    """
    if not isinstance(text, str):
        raise refuse("the schedule must be text.", 'Write a cron expression such as "30 2 * * *".')
    if len(text) > LONGEST_TEXT:
        raise refuse(f"the schedule is {len(text)} characters long; at most {LONGEST_TEXT} are allowed.", "Use ranges and steps.")
    return _parse(text, seconds, hash_key or "")


@lru_cache(maxsize=8192)
def _parse(text: str, seconds: bool, hash_key: str) -> Cron:
    if "\n" in text or "\r" in text:
        where = "ends with" if not any(end in text.strip() for end in "\r\n") else "has"
        raise refuse(f"the schedule {shown(text)} {where} a line break.", "Write it on one line, without a newline at its end.")
    if not text.isascii() or any(character != "\t" and not character.isprintable() for character in text):
        raise refuse(f"the schedule {shown(text)} has characters that are not plain ASCII.", "Write it in digits and letters.")
    parts = _split(text, seconds)
    second, minute, hour, day, month, weekday = (
        parse_field(kind, part, hash_key) for kind, part in zip(_SIX, parts if seconds else ["0", *parts], strict=True)
    )
    days = day_table(day, weekday)
    if not can_fire(month.mask, days):
        raise Invalid(
            CANNOT_FIRE,
            f"the schedule {shown(text.strip())} can never fire: no month it names has such a day.",
            field="schedule",
            hint="Check the day-of-month against the month; February has 29 days at most.",
        )
    chosen = (second, minute, hour, day, month, weekday)
    return Cron(
        text=" ".join(part.text for part in (chosen if seconds else chosen[1:])),
        source=text,
        second=second,
        minute=minute,
        hour=hour,
        day=day,
        month=month,
        weekday=weekday,
        has_seconds=seconds,
        is_wild=minute.is_star or hour.is_star or (seconds and second.is_star),
        days=days,
    )


def _split(text: str, seconds: bool) -> list[str]:
    parts = _BLANKS.split(text.strip(" \t"))
    if parts[0].startswith("@") and len(parts) == 1:
        return _expand(parts[0], seconds)
    kinds = _SIX if seconds else _FIVE
    if len(parts) == len(kinds) and parts[0]:
        return parts
    count = len(parts) if parts[0] else 0
    order = ", ".join(kind.name for kind in kinds)
    hint = f"Write {order}."
    if count == 6 and not seconds:
        hint = 'Six fields need "seconds": true, with the seconds first; otherwise remove one.'
    elif count == 5 and seconds:
        hint = 'With "seconds": true the seconds come first; put "0 " in front to keep the meaning.'
    elif count == 7:
        hint = "There is no year field; bound the schedule with startAt and endAt."
    raise refuse(f"the schedule has {count} field{'' if count == 1 else 's'} where {len(kinds)} are expected.", hint)


def _expand(macro: str, seconds: bool) -> list[str]:
    name = macro.lower()
    if name == "@reboot":
        raise refuse("@reboot is not a time.", "A fleet has no boot to wait for; enqueue the job when the service starts.")
    if name not in MACROS:
        raise refuse(f"the macro {shown(macro)} is unknown.", f"Write one of {', '.join(MACROS)}.")
    parts = MACROS[name].split(" ")
    return ["0", *parts] if seconds else parts


def _length(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _highest(mask: int) -> int:
    return mask.bit_length() - 1
