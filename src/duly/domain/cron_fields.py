"""One field of a cron expression: from text to a set of values and a canonical text.

A field is a list of items. Plain items are numbers and fold into one bit mask; the day fields
also know forms that only a month can answer (`L`, `15W`, `5#2`), which stay as `DayForm`s.
`H` is answered here and now from the hash key, so that what is kept holds plain numbers only.
Everything is checked before it is expanded: no text makes this slow.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from duly.domain.errors import Invalid

MOST_ITEMS = 64
MOST_DIGITS = 3

MALFORMED = "DULY-E101"

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_NUMBER_OR_NAME = r"[0-9]+|[A-Z]{3}"
_PLAIN = re.compile(rf"({_NUMBER_OR_NAME})(?:-({_NUMBER_OR_NAME}))?(?:/([0-9]+))?")
_STAR = re.compile(r"\*(?:/([0-9]+))?")
_HASH = re.compile(rf"H(?:\(({_NUMBER_OR_NAME})-({_NUMBER_OR_NAME})\))?(?:/([0-9]+))?")
_LAST_MINUS = re.compile(r"L-([0-9]+)")
_NEAREST_WEEKDAY = re.compile(r"([0-9]+)W")
_NTH_WEEKDAY = re.compile(rf"({_NUMBER_OR_NAME})#([0-9]+)")
_LAST_OF_WEEKDAY = re.compile(r"([0-9]+|SUN|MON|TUE|WED|THU|FRI|SAT)L")


class DayKind(Enum):
    """The forms whose day only the month decides."""

    LAST = "L"  # L and L-n: `number` days before the last
    LAST_WORKDAY = "LW"
    NEAREST_WORKDAY = "W"  # `number`W: Monday to Friday, never leaving the month
    NTH_WEEKDAY = "#"  # `weekday`#`number`
    LAST_WEEKDAY = "dL"  # the last `weekday` of the month


class DayForm(NamedTuple):
    """A day of the month that is found by looking at the month."""

    kind: DayKind
    number: int = 0
    weekday: int = 0


class FieldKind(NamedTuple):
    """What one of the six positions accepts. `place` seeds `H`, so it must never change."""

    place: int
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many different values the field has."""
        return self.high - self.low + 1

    @property
    def is_days(self) -> bool:
        """True for the two fields that choose days, where `?` is allowed."""
        return self in (DAY, WEEKDAY)


SECOND = FieldKind(0, "second", 0, 59)
MINUTE = FieldKind(1, "minute", 0, 59)
HOUR = FieldKind(2, "hour", 0, 23)
DAY = FieldKind(3, "day-of-month", 1, 31)
MONTH = FieldKind(4, "month", 1, 12, MONTHS)
WEEKDAY = FieldKind(5, "day-of-week", 0, 6, WEEKDAYS)

# `H` keeps to days that every month has.
_HASHED_HIGH = {DAY: 28}


@dataclass(frozen=True, slots=True)
class CronField:
    """A parsed field: `mask` has a bit per plain value, `forms` the rest, `text` says both again."""

    text: str
    mask: int
    is_star: bool
    forms: tuple[DayForm, ...] = ()

    @property
    def values(self) -> list[int]:
        """The plain values, ascending."""
        return [value for value in range(self.mask.bit_length()) if self.mask >> value & 1]


class _Item(NamedTuple):
    text: str
    mask: int = 0
    form: DayForm | None = None


def refuse(message: str, hint: str) -> Invalid:
    """A malformed expression; the message names the part, the hint what to write instead."""
    return Invalid(MALFORMED, message, field="schedule", hint=hint)


def shown(part: str) -> str:
    """A caller's text made safe for a message: printable ASCII, short, quoted."""
    return ascii(part if len(part) <= 40 else part[:37] + "...")


def parse_field(kind: FieldKind, text: str, hash_key: str) -> CronField:
    """Read one field. Raises Invalid (DULY-E101) naming the field and the part that is wrong."""
    if text == "?" and kind.is_days:
        return CronField("*", _full(kind), is_star=True)
    parts = text.upper().split(",")
    if len(parts) > MOST_ITEMS:
        raise refuse(f"the {kind.name} field lists {len(parts)} items; at most {MOST_ITEMS} are allowed.", "Use a range or a step.")
    items: dict[str, _Item] = {}
    for part in parts:
        item = _parse_item(kind, part, hash_key)
        items.setdefault(item.text, item)
    mask = 0
    for item in items.values():
        mask |= item.mask
    forms = tuple(item.form for item in items.values() if item.form)
    return CronField(",".join(items), mask, is_star=parts[0].startswith("*"), forms=forms)


def _parse_item(kind: FieldKind, part: str, hash_key: str) -> _Item:
    if not part:
        raise refuse(f"the {kind.name} field has an empty item.", "Remove the extra comma.")
    if match := _STAR.fullmatch(part):
        step = _step(kind, part, match[1])
        return _Item("*" if step == 1 else f"*/{step}", _spread(kind.low, kind.high, step))
    if part.startswith("H") and (match := _HASH.fullmatch(part)):
        return _hashed(kind, part, match, hash_key)
    if kind is DAY and (item := _month_day_form(part)):
        return item
    if kind is WEEKDAY and (item := _weekday_form(part)):
        return item
    if match := _PLAIN.fullmatch(part):
        return _plain(kind, part, match)
    raise _unreadable(kind, part)


def _plain(kind: FieldKind, part: str, match: re.Match[str]) -> _Item:
    step = _step(kind, part, match[3])
    if match[2] is not None:
        low, high = _ends(kind, part, match[1], match[2])
        return _range(kind, low, high, step)
    low = _value(kind, part, match[1])
    # n/s reads "from n on", as in Quartz.
    return _range(kind, low, low if match[3] is None else kind.high, step)


def _hashed(kind: FieldKind, part: str, match: re.Match[str], hash_key: str) -> _Item:
    low, high = kind.low, _HASHED_HIGH.get(kind, kind.high)
    if match[1] is not None:
        low, high = _ends(kind, part, match[1], match[2])
    slot = int.from_bytes(hashlib.sha256(f"{hash_key}\0{kind.place}".encode("utf-8", "surrogatepass")).digest()[:8])
    if match[3] is None:
        value = low + slot % (high - low + 1)
        return _range(kind, value, value, 1)
    step = _step(kind, part, match[3])
    return _range(kind, low + slot % min(step, high - low + 1), high, step)


def _ends(kind: FieldKind, part: str, low_text: str, high_text: str) -> tuple[int, int]:
    """The ends of a range. Sunday may end one, as 7 or as 0: SAT-SUN, 6-0 and 6-7 are the same."""
    low, high = _raw_value(kind, part, low_text), _raw_value(kind, part, high_text)
    if kind is WEEKDAY and high == 0 and low > 0:
        high = 7
    if low > high:
        raise _reversed(kind, part, low, high)
    return low, high


def _range(kind: FieldKind, low: int, high: int, step: int) -> _Item:
    mask = _spread(low, high, step)
    if kind is WEEKDAY:
        mask = mask & 0x7F | mask >> 7
        if low == high:
            low = high = low % 7
    if low == high:
        return _Item(str(low), mask)
    return _Item(f"{low}-{high}" if step == 1 else f"{low}-{high}/{step}", mask)


def _month_day_form(part: str) -> _Item | None:
    if part == "L":
        return _Item("L", form=DayForm(DayKind.LAST))
    if part == "LW":
        return _Item("LW", form=DayForm(DayKind.LAST_WORKDAY))
    if match := _LAST_MINUS.fullmatch(part):
        number = _number(DAY, part, match[1])
        if not 0 <= number <= 30:
            raise refuse(f"the day-of-month {shown(part)} is out of range.", "L-n counts back from the last day: L-1 to L-30.")
        return _Item(f"L-{number}" if number else "L", form=DayForm(DayKind.LAST, number))
    if match := _NEAREST_WEEKDAY.fullmatch(part):
        number = _value(DAY, part, match[1])
        return _Item(f"{number}W", form=DayForm(DayKind.NEAREST_WORKDAY, number))
    return None


def _weekday_form(part: str) -> _Item | None:
    if match := _NTH_WEEKDAY.fullmatch(part):
        weekday, number = _value(WEEKDAY, part, match[1]), _number(WEEKDAY, part, match[2])
        if not 1 <= number <= 5:
            raise refuse(f"the day-of-week {shown(part)} is out of range.", "Write #1 to #5; no month has a sixth of any weekday.")
        return _Item(f"{weekday}#{number}", form=DayForm(DayKind.NTH_WEEKDAY, number, weekday))
    if match := _LAST_OF_WEEKDAY.fullmatch(part):
        weekday = _value(WEEKDAY, part, match[1])
        return _Item(f"{weekday}L", form=DayForm(DayKind.LAST_WEEKDAY, weekday=weekday))
    return None


def _value(kind: FieldKind, part: str, text: str) -> int:
    """A number or name of the field; Sunday is 0."""
    value = _raw_value(kind, part, text)
    return value % 7 if kind is WEEKDAY else value


def _raw_value(kind: FieldKind, part: str, text: str) -> int:
    if not text.isdigit():
        if text in kind.names:
            return kind.names.index(text) + kind.low
        raise _unreadable(kind, part)
    number = _number(kind, part, text)
    high = 7 if kind is WEEKDAY else kind.high
    if not kind.low <= number <= high:
        raise refuse(f"the {kind.name} {shown(part)} is out of range.", f"Write a number from {kind.low} to {high}.")
    return number


def _number(kind: FieldKind, part: str, digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise refuse(f"the {kind.name} {shown(part)} has a number of more than {MOST_DIGITS} digits.", "Write a shorter number.")
    return int(digits)


def _step(kind: FieldKind, part: str, digits: str | None) -> int:
    if digits is None:
        return 1
    step = _number(kind, part, digits)
    if step == 0:
        raise refuse(f"the {kind.name} {shown(part)} has a step of 0.", "Write a step of 1 or more.")
    if step > kind.width:
        raise refuse(
            f"the {kind.name} {shown(part)} has a step wider than the field.",
            f"Steps start again with each {_AROUND[kind.place]}: write {kind.width} at most, or use an interval schedule.",
        )
    return step


_AROUND = ("minute", "hour", "day", "month", "year", "week")


def _spread(low: int, high: int, step: int) -> int:
    mask = 0
    for value in range(low, high + 1, step):
        mask |= 1 << value
    return mask


def _full(kind: FieldKind) -> int:
    return _spread(kind.low, kind.high, 1)


def _reversed(kind: FieldKind, part: str, low: int, high: int) -> Invalid:
    if kind is WEEKDAY:
        instead = f"0-{high}" if low == 7 else f"{low}-7,{'1' if high == 1 else f'1-{high}'}"
    elif high == kind.low:
        instead = f"{low}-{kind.high},{high}"
    else:
        instead = f"{low}-{kind.high},{kind.low}-{high}"
    return refuse(f"the {kind.name} range {shown(part)} runs backwards.", f"Write {instead}.")


def _unreadable(kind: FieldKind, part: str) -> Invalid:
    hint = f"Write a number from {kind.low} to {kind.high}, a range a-b, a step */n, or a list of these."
    if part == "?" or "?" in part:
        hint = "? stands alone, and only in the day-of-month or day-of-week field."
    elif kind is WEEKDAY and part == "L":
        hint = "Name the weekday: 5L is the last Friday of the month."
    elif kind in (MONTH, WEEKDAY):
        hint = f"Write a number, or one of {' '.join(kind.names)}; ranges, steps and lists of these."
    elif kind is DAY:
        hint = "Write a number from 1 to 31, a range, a step, L, L-n, LW, nW, or a list of these."
    return refuse(f"the {kind.name} {shown(part)} is not understood.", hint)
