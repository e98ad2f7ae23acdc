"""From sets of values to what the API takes: a cron expression where one says the same, a recurrence rule otherwise."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Any

WEEKDAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")
# What a schedule may consist of, so that a larger one is said to be no rule before the server says so.
MOST_TIMES_A_DAY = 96


def listed(values: Collection[int], low: int, high: int, *, star: bool = True) -> str:
    """Numbers as one field of a cron expression: *, */n, a-b, or a list of these.

    Without a `star` the same is written as a range: an expression with a star in minute or hour follows the clock through its changes, and
    one without names times.
    """
    ordered = sorted(set(values))
    if ordered == list(range(low, high + 1)):
        return "*" if star else f"{low}-{high}"
    if len(ordered) > 2 and ordered[0] == low and len({b - a for a, b in pairwise(ordered)}) == 1:
        step = ordered[1] - ordered[0]
        if ordered[-1] + step > high and step > 1:
            return f"*/{step}" if star else f"{low}-{high}/{step}"
    parts: list[str] = []
    start = before = ordered[0]
    for value in [*ordered[1:], None]:
        if value is not None and value == before + 1:
            before = value
            continue
        parts += [f"{start}-{before}"] if before - start > 1 else [str(one) for one in dict.fromkeys((start, before))]
        if value is not None:
            start = before = value
    return ",".join(parts)


def schedule_of(
    *,
    seconds: Collection[int] = (0,),
    minutes: Collection[int],
    hours: Collection[int],
    days: Collection[int] | None,
    months: Collection[int] | None,
    weekdays: Collection[int] | None,
) -> dict[str, Any]:
    """When both days of the month and weekdays must match. None is every one; Sunday is 0; days below 0 count from the end.

    Raises ValueError, with the reason, when neither an expression nor a rule says it.
    """
    if not (days and weekdays) and all(day > 0 for day in days or ()):
        star = len(set(hours)) == 24
        fields = [
            listed(minutes, 0, 59, star=star),
            listed(hours, 0, 23, star=star),
            "*" if days is None else listed(days, 1, 31),
            "*" if months is None else listed(months, 1, 12),
            "*" if weekdays is None else listed(weekdays, 0, 6),
        ]
        if set(seconds) == {0}:
            return {"schedule": " ".join(fields)}
        return {"schedule": " ".join([listed(seconds, 0, 59, star=star), *fields]), "seconds": True}
    if len(hours) * len(minutes) * len(seconds) > MOST_TIMES_A_DAY:
        raise ValueError(f"it names days in a way that takes a rule, and a rule fires at most {MOST_TIMES_A_DAY} times a day")
    parts = ["FREQ=DAILY"]
    if months is not None:
        parts.append("BYMONTH=" + _commas(months))
    if days is not None:
        parts.append("BYMONTHDAY=" + _commas(days))
    if weekdays is not None:
        parts.append("BYDAY=" + ",".join(WEEKDAYS[day] for day in sorted(weekdays)))
    parts += ["BYHOUR=" + _commas(hours), "BYMINUTE=" + _commas(minutes), "BYSECOND=" + _commas(seconds)]
    return {"type": "RRULE", "schedule": ";".join(parts)}


def _commas(values: Collection[int]) -> str:
    return ",".join(map(str, sorted(values)))
