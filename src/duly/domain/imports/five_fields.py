"""Cron expressions as other systems read them: the sets they name, and which days those make.

The dialects differ in small ways that matter: whether `*/2` still counts as a star when days of the month and weekdays are
joined, whether `5/15` means from 5 on, whether Sunday may be 7, whether `?` is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a system reads its expressions."""

    name: str
    is_star_with_a_step: bool = True
    has_open_steps: bool = False
    has_seventh_day: bool = True
    has_question_mark: bool = False
    has_macros: bool = True


VIXIE = Dialect("cron")
DULY = Dialect("Duly", has_open_steps=True, has_question_mark=True)
GITHUB = Dialect("GitHub", has_open_steps=True, has_seventh_day=False, has_macros=False)
KUBERNETES = Dialect("Kubernetes", is_star_with_a_step=False, has_open_steps=True, has_seventh_day=False, has_question_mark=True)


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression of five fields: what it names, and where it has stars."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    # Whether minute or hour begins with a star: it follows the clock instead of naming times.
    is_wild: bool
    # Whether both kinds of days must match; otherwise one of them is enough.
    needs_both: bool

    def is_day(self, day: date) -> bool:
        """Whether it names this day."""
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (by_month and by_week) if self.needs_both else (by_month or by_week)


def read(text: str, dialect: Dialect) -> Expression:
    """Read an expression or a macro. Raises ValueError, with the reason, when the old system would not take it either."""
    written_out = MACROS.get(text.strip().lower())
    if written_out is not None and not dialect.has_macros:
        raise ValueError(f"{dialect.name} does not take {text.strip()} and never ran it; write {written_out}")
    parts = (written_out or text).split()
    if len(parts) != 5:
        raise ValueError(f"it has {len(parts)} fields, and {dialect.name} takes five")
    minute, hour, day, month, weekday = parts

    def is_star(field: str) -> bool:
        first = field.split(",")[0]
        return first[:1] in ("*", "?") and (dialect.is_star_with_a_step or "/" not in first)

    weekdays = _values(weekday, 0, 7 if dialect.has_seventh_day else 6, WEEKDAYS, dialect)
    return Expression(
        minutes=_values(minute, 0, 59, (), dialect),
        hours=_values(hour, 0, 23, (), dialect),
        days=_values(day, 1, 31, (), dialect),
        months=_values(month, 1, 12, MONTHS, dialect),
        weekdays=frozenset(value % 7 for value in weekdays),
        is_wild=minute.startswith("*") or hour.startswith("*"),
        needs_both=is_star(day) or is_star(weekday),
    )


def _values(field: str, low: int, high: int, names: tuple[str, ...], dialect: Dialect) -> frozenset[int]:
    found: set[int] = set()
    for item in field.split(","):
        span, slash, step_text = item.partition("/")
        step = _number(step_text, item) if slash else 1
        if step == 0:
            raise ValueError(f"{item!r} has a step of 0")
        if span == "*" or (span == "?" and dialect.has_question_mark):
            # The seventh day is Sunday once more, and a star means each day once.
            first, last = low, min(high, 6) if names is WEEKDAYS else high
        else:
            first_text, dash, last_text = span.partition("-")
            first = _value(first_text, low, names, item)
            last = _value(last_text, low, names, item) if dash else first
            if slash and not dash:
                if not dialect.has_open_steps:
                    raise ValueError(f"{item!r} has a step without a range, which {dialect.name} does not take")
                last = min(high, 6) if names is WEEKDAYS else high
        if not low <= first <= last <= high:
            raise ValueError(f"{item!r} is out of range or runs backwards")
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _value(text: str, low: int, names: tuple[str, ...], item: str) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + (low if names is MONTHS else 0)
    return _number(text, item)


def _number(text: str, item: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 3:
        raise ValueError(f"{item!r} is not understood")
    return int(text)
