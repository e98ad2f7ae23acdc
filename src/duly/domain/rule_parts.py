"""The text of a recurrence rule (RFC 5545) as checked parts. What is wrong is said here, with a way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from itertools import product
from typing import Any

from duly.domain.errors import Invalid

BAD_RULE = "DULY-E134"
LONGEST_RULE = 512
MOST_FIRES_A_DAY = 96
MOST_COUNT = 10_000
MOST_INTERVAL = 1000
MOST_POSITIONS = 31

DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

_EXAMPLE = "For example FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9."
_WEEKDAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_NUMBER = re.compile(r"[+-]?[0-9]{1,5}")
_UNTIL = re.compile(r"([0-9]{8})(?:T([0-9]{6})(Z?))?")


class Freq(IntEnum):
    """The period of a rule, in the order that the library numbers them."""

    YEARLY = 0
    MONTHLY = 1
    WEEKLY = 2
    DAILY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """The last reading of a rule. `is_utc`: as the clock in Greenwich shows it."""

    moment: datetime
    is_utc: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A rule as it is written, every part within its bounds; an empty tuple is a part that was left out."""

    freq: Freq
    interval: int = 1
    count: int | None = None
    until: Until | None = None
    week_start: int = 0
    months: tuple[int, ...] = ()
    week_numbers: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: tuple[tuple[int, int], ...] = ()  # (weekday, Monday 0; which one of the period, 0 each)
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()

    def times(self, start: tuple[int, int, int]) -> tuple[int, ...]:
        """The seconds of a day at which it fires; what the rule leaves out is the start's."""
        hours, minutes, seconds = (given or (own,) for given, own in zip((self.hours, self.minutes, self.seconds), start, strict=True))
        return tuple(sorted(hour * 3600 + minute * 60 + second for hour, minute, second in product(hours, minutes, seconds)))


def read_parts(text: str) -> Parts:
    """Read a rule. Raises Invalid (DULY-E134) for anything that is malformed or that Duly does not fire."""
    if len(text) > LONGEST_RULE:
        raise refuse(f"the rule is {len(text)} characters long; at most {LONGEST_RULE} are allowed.", "Leave out what repeats the default.")
    given: dict[str, str] = {}
    for part in text.strip().removeprefix("RRULE:").rstrip(";").split(";"):
        key, sign, value = part.partition("=")
        key = key.strip().upper()
        if not sign or not value.strip():
            raise refuse(f"{part[:40]!r} is not a part of a rule.", f"Parts are KEY=VALUE, with ; between them. {_EXAMPLE}")
        if key in given:
            raise refuse(f"{key} stands twice in the rule.", "Put all its values into one part, with commas between them.")
        if key not in _READERS:
            raise refuse(f"{key[:40]!r} is not a part of a rule.", f"There are {', '.join(_READERS)}.")
        given[key] = value.strip().upper()
    if "FREQ" not in given:
        raise refuse("the rule has no FREQ.", _EXAMPLE)
    parts = Parts(**{name: read(key, given[key]) for key, (name, read) in _READERS.items() if key in given})
    _check_together(parts)
    return parts


def refuse(message: str, hint: str) -> Invalid:
    """Why a rule cannot be used."""
    return Invalid(BAD_RULE, message, field="schedule", hint=hint)


def _check_together(parts: Parts) -> None:
    if parts.count is not None and parts.until is not None:
        raise refuse("COUNT and UNTIL contradict one another.", "Leave one of them out.")
    if parts.week_numbers and parts.freq is not Freq.YEARLY:
        raise refuse("BYWEEKNO goes with FREQ=YEARLY only.", "Use FREQ=YEARLY, or INTERVAL.")
    if parts.year_days and parts.freq is not Freq.YEARLY:
        raise refuse("BYYEARDAY goes with FREQ=YEARLY only.", "Use BYMONTHDAY.")
    if parts.month_days and parts.freq is Freq.WEEKLY:
        raise refuse("BYMONTHDAY does not go with FREQ=WEEKLY.", "Use FREQ=MONTHLY or FREQ=DAILY.")
    if any(nth for _, nth in parts.weekdays) and (parts.freq > Freq.MONTHLY or parts.week_numbers):
        raise refuse(
            "a weekday with a number goes with FREQ=MONTHLY or YEARLY, and not with BYWEEKNO.", "For example FREQ=MONTHLY;BYDAY=-1FR."
        )
    if parts.freq is Freq.MONTHLY and any(abs(nth) > 5 for _, nth in parts.weekdays):
        raise refuse("no month has more than five of a weekday.", "BYDAY takes 1 to 5 and -1 to -5 with FREQ=MONTHLY.")
    if parts.positions and not (parts.months or parts.week_numbers or parts.year_days or parts.month_days or parts.weekdays or parts.hours):
        raise refuse("BYSETPOS chooses from what another BY… part names.", "For example FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1.")
    if max(1, len(parts.hours)) * max(1, len(parts.minutes)) * max(1, len(parts.seconds)) > MOST_FIRES_A_DAY:
        raise refuse(f"the rule fires more than {MOST_FIRES_A_DAY} times a day.", "Use a CRON schedule, or an INTERVAL.")


def _freq(key: str, value: str) -> Freq:
    if value in ("SECONDLY", "MINUTELY", "HOURLY"):
        raise refuse(f"FREQ={value} is not for rules.", 'Use a CRON schedule such as "*/15 * * * *", or an INTERVAL.')
    if value not in Freq.__members__:
        raise refuse(f"FREQ={value[:40]} is unknown.", f"It is one of {', '.join(Freq.__members__)}.")
    return Freq[value]


def _one(low: int, high: int) -> Callable[[str, str], int]:
    def read(key: str, value: str) -> int:
        return _number(key, value, low, high)

    return read


def _many(low: int, high: int, *, signed: bool = False, most: int = 366) -> Callable[[str, str], tuple[int, ...]]:
    """A list of numbers; `signed`: also counted from the end, and 0 is none of them."""

    def read(key: str, value: str) -> tuple[int, ...]:
        found = [_number(key, item, -high if signed else low, high) for item in value.split(",")]
        if signed and 0 in found:
            raise refuse(f"{key} has no 0.", f"It takes 1 to {high}, and -1 to -{high} from the end.")
        if len(found) > most:
            raise refuse(f"{key} has {len(found)} values; at most {most} are allowed.", "Leave some out.")
        return tuple(sorted(set(found)))

    return read


def _number(key: str, value: str, low: int, high: int) -> int:
    if not _NUMBER.fullmatch(value) or not low <= int(value) <= high:
        raise refuse(f"{key}={value[:40]} is not a number from {low} to {high}.", _EXAMPLE)
    return int(value)


def _weekdays(key: str, value: str) -> tuple[tuple[int, int], ...]:
    found: set[tuple[int, int]] = set()
    for item in value.split(","):
        match = _WEEKDAY.fullmatch(item)
        nth = int(match[1]) if match is not None and match[1] is not None else 0
        if match is None or (match[1] is not None and not 1 <= abs(nth) <= 53):
            raise refuse(f"{item[:40]!r} is not a weekday.", f"Write {', '.join(DAYS)}, or 1MO and -1FR for the first and the last.")
        found.add((DAYS.index(match[2]), nth))
    return tuple(sorted(found))


def _week_start(key: str, value: str) -> int:
    if value not in DAYS:
        raise refuse(f"WKST={value[:40]} is not a weekday.", f"It is one of {', '.join(DAYS)}.")
    return DAYS.index(value)


def _until(key: str, value: str) -> Until:
    match = _UNTIL.fullmatch(value)
    try:
        if match is None:
            raise ValueError(value)
        # A date holds for the whole of its day.
        moment = datetime.strptime(f"{match[1]}{match[2] or '235959'}", "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        raise refuse(f"UNTIL={value[:40]} is not a time.", "Write 20261231, 20261231T170000 (local) or 20261231T170000Z (UTC).") from None
    return Until(moment=moment, is_utc=match[3] == "Z")


_READERS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "FREQ": ("freq", _freq),
    "INTERVAL": ("interval", _one(1, MOST_INTERVAL)),
    "COUNT": ("count", _one(1, MOST_COUNT)),
    "UNTIL": ("until", _until),
    "WKST": ("week_start", _week_start),
    "BYMONTH": ("months", _many(1, 12)),
    "BYWEEKNO": ("week_numbers", _many(1, 53, signed=True)),
    "BYYEARDAY": ("year_days", _many(1, 366, signed=True)),
    "BYMONTHDAY": ("month_days", _many(1, 31, signed=True)),
    "BYDAY": ("weekdays", _weekdays),
    "BYHOUR": ("hours", _many(0, 23)),
    "BYMINUTE": ("minutes", _many(0, 59)),
    "BYSECOND": ("seconds", _many(0, 59)),
    "BYSETPOS": ("positions", _many(1, 366, signed=True, most=MOST_POSITIONS)),
}
