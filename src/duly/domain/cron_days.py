"""Which days of a month a cron expression chooses.

Only two facts about a month matter: how long it is and on which weekday it begins. That makes
28 shapes, and a table of 28 bit masks answers every month of every year. It also decides
(rule Z8) whether an expression can fire at all, without a search: each shape that a month can
have comes round within 40 years.
"""

from __future__ import annotations

from functools import lru_cache
from typing import assert_never

from duly.domain.cron_fields import CronField, DayForm, DayKind

# The lengths a month can have, January first.
MONTH_LENGTHS = ((31,), (28, 29), (31,), (30,), (31,), (30,), (31,), (31,), (30,), (31,), (30,), (31,))

# Index with (length - 28) * 7 + weekday of the first (Sunday is 0); bit d of a mask is day d.
DayTable = tuple[int, ...]


@lru_cache(maxsize=4096)
def day_table(day: CronField, weekday: CronField) -> DayTable:
    """The chosen days for each shape of a month; shared by all expressions with the same day fields.

    Both fields restricted means either may choose the day; a field that starts with `*` turns
    that into both (rule Z5), also when it is `*/2`.
    """
    both = day.is_star or weekday.is_star
    # A week of weekdays, repeated until it covers any month that begins in its first week.
    weeks = sum(weekday.mask << 7 * week for week in range(6))
    table = []
    for length in range(28, 32):
        in_month = (2 << length) - 2
        for first in range(7):
            by_day = day.mask
            for form in day.forms:
                by_day |= _form_days(form, length, first)
            by_weekday = weeks >> first << 1
            for form in weekday.forms:
                by_weekday |= _form_days(form, length, first)
            table.append((by_day & by_weekday if both else by_day | by_weekday) & in_month)
    return tuple(table)


def can_fire(months: int, table: DayTable) -> bool:
    """True when some month in the mask, in some year, has a chosen day."""
    lengths = {length for month, possible in enumerate(MONTH_LENGTHS, start=1) if months >> month & 1 for length in possible}
    return any(table[(length - 28) * 7 + first] for length in lengths for first in range(7))


def _form_days(form: DayForm, length: int, first: int) -> int:
    """A mask of the one day that the form names in such a month, or 0 when the month has none."""
    match form.kind:
        case DayKind.LAST:
            found = length - form.number
        case DayKind.LAST_WORKDAY:
            found = _nearest_workday(length, length, first)
        case DayKind.NEAREST_WORKDAY:
            found = _nearest_workday(form.number, length, first)
        case DayKind.NTH_WEEKDAY:
            found = 1 + (form.weekday - first) % 7 + 7 * (form.number - 1)
        case DayKind.LAST_WEEKDAY:
            found = length - (first + length - 1 - form.weekday) % 7
        case _:
            assert_never(form.kind)
    return 1 << found if 1 <= found <= length else 0


def _nearest_workday(day: int, length: int, first: int) -> int:
    """Saturday goes back to Friday and Sunday on to Monday, unless that leaves the month."""
    if day > length:
        return 0
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else 3
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day
