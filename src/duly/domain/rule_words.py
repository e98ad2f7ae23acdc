"""A recurrence rule as a sentence."""

from __future__ import annotations

from duly.domain.phrases import MONTH_NAMES, join, nth, ordinal
from duly.domain.rule import Rule
from duly.domain.rule_parts import Freq, Parts

_DAY_NAMES = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_UNITS = {Freq.YEARLY: "year", Freq.MONTHLY: "month", Freq.WEEKLY: "week", Freq.DAILY: "day"}
_MOST_TIMES = 6


def describe_rule(rule: Rule, place: str) -> str:
    """The rule in one sentence, without a full stop; `place` is the zone as people say it."""
    parts = rule.parts
    unit = _UNITS[parts.freq]
    every = f"Every {unit}" if parts.interval == 1 else f"Every {parts.interval} {unit}s"
    sentence = " ".join([every, *_days(parts)])
    if parts.positions:
        sentence += f", the {join([nth(position) for position in parts.positions])} of these"
    times = [f"{time // 3600:02}:{time % 3600 // 60:02}{f':{time % 60:02}' if time % 60 else ''}" for time in rule.times]
    sentence += (
        f" at {join(times)} {place}" if len(times) <= _MOST_TIMES else f" at {len(times)} times from {times[0]} to {times[-1]} {place}"
    )
    if parts.count is not None:
        sentence += ", once" if parts.count == 1 else f", {parts.count} times"
    if parts.until is not None:
        sentence += f", until {parts.until.moment:%Y-%m-%d %H:%M}{' UTC' if parts.until.is_utc else ''}"
    return sentence


def _days(parts: Parts) -> list[str]:
    said: list[str] = []
    if parts.weekdays:
        each = [_DAY_NAMES[day] for day, number in parts.weekdays if number == 0]
        numbered = [f"the {nth(number)} {_DAY_NAMES[day]}" for day, number in parts.weekdays if number]
        said.append(f"on {join(each + numbered)}")
    if parts.month_days:
        said.append(f"on {join([f'the {ordinal(day)}' if day > 0 else f'the {nth(day)} day' for day in parts.month_days])}")
    if parts.year_days:
        said.append(f"on {join([f'the {nth(day)} day of the year' for day in parts.year_days])}")
    if parts.week_numbers:
        said.append(f"in {join([f'the {nth(week)} week' for week in parts.week_numbers])}")
    if parts.months:
        said.append(f"in {join([MONTH_NAMES[month - 1] for month in parts.months])}")
    return said
