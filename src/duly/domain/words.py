"""Schedules as sentences.

    describe(schedule)   "Every day at 02:30 New York time"
    lint(schedule)       what a person may not have meant, as a list of facts

Every sentence is exact: where no idiom fits, the fields are listed. A day part is said in two
ways, because English puts it first with a time of day ("Every Monday at 09:00") and last with
a repetition ("Every 15 minutes on Mondays").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, assert_never

from duly.domain.cron import Cron
from duly.domain.cron_fields import CronField, DayForm, DayKind
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND, Instant, Micros, to_datetime
from duly.domain.phrases import MONTH_NAMES, join, ordinal
from duly.domain.rule_words import describe_rule
from duly.domain.schedule import CalendarSchedule, CronSchedule, IntervalSchedule, OneTimeSchedule, OnExcluded, RuleSchedule, Schedule
from duly.domain.schedule_lint import lint
from duly.domain.zone_words import zone_in_words
from duly.domain.zones import changes, offset_at

__all__ = ["describe", "lint", "zone_in_words"]

# More times of day than this are told by their fields.
_MOST_TIMES = 6

_DAY_NAMES = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
_ORDINALS = ("", "first", "second", "third", "fourth", "fifth")
_WORKDAYS, _WEEKEND = 0b0111110, 0b1000001
_STEP = re.compile(r"\*/([0-9]+)")
_EXCLUDING = {
    OnExcluded.SKIP: "except as excluded by",
    OnExcluded.NEXT_BUSINESS_DAY: "or on the next business day by",
    OnExcluded.PREVIOUS_BUSINESS_DAY: "or on the previous business day by",
}


def describe(schedule: Schedule) -> str:
    """The schedule as one sentence, without a full stop."""
    match schedule:
        case CronSchedule(cron, zone):
            sentence = _describe_cron(cron, zone)
        case RuleSchedule(rule, zone):
            sentence = describe_rule(rule, zone_in_words(zone))
        case IntervalSchedule(every):
            sentence = _describe_interval(every)
        case CalendarSchedule(base, calendars, on_excluded):
            return f"{describe(base)}, {_EXCLUDING[on_excluded]} {join([calendar.name for calendar in calendars])}"
        case OneTimeSchedule(at):
            return f"On {_date(at)} at {_time(at)} UTC, once"
        case _:
            assert_never(schedule)
    if schedule.start_at is not None:
        sentence += f", from {_date(schedule.start_at)} {_time(schedule.start_at)} UTC"
    if schedule.end_at is not None:
        sentence += f", until {_date(schedule.end_at)} {_time(schedule.end_at)} UTC"
    return sentence


class _Days(NamedTuple):
    """The day part: before a time of day (empty when it only goes after), after a repetition."""

    leading: str
    trailing: str


def _describe_cron(cron: Cron, zone: str) -> str:
    place = zone_in_words(zone)
    days = _days(cron)
    times = _times_of_day(cron)
    if times is not None:
        if not days.leading:
            return f"At {join(times)} {days.trailing}, {place}"
        return f"{_capital(days.leading)} at {join(times)} {place}"
    repetition = _capital(_repetition(cron))
    sentence = f"{repetition} {days.trailing}".rstrip()
    if not days.trailing and cron.hour.text == "*" and _keeps_whole_hours(zone):
        return sentence
    return f"{sentence}, {place}"


@lru_cache(maxsize=1024)
def _keeps_whole_hours(zone: str) -> bool:
    """True when minutes are the same in the zone and in UTC, so that an hourly sentence needs no zone."""
    return offset_at(zone, 0) % 3600 == 0 and all(change.offset_after % 3600 == 0 for change in changes(zone, 0, 70 * 366 * DAY))


# --- times of day -----------------------------------------------------------------------------


def _times_of_day(cron: Cron) -> list[str] | None:
    """The times of a day one by one, when they are few and the expression is not a repetition."""
    if cron.is_wild:
        return None
    hours, minutes, seconds = cron.hour.values, cron.minute.values, cron.second.values
    if len(hours) * len(minutes) * len(seconds) > _MOST_TIMES:
        return None
    return [
        f"{hour:02}:{minute:02}" + (f":{second:02}" if seconds != [0] else "") for hour in hours for minute in minutes for second in seconds
    ]


def _repetition(cron: Cron) -> str:
    if cron.second.mask != 1:
        return _seconds_repetition(cron)
    minutes, hours = cron.minute, cron.hour
    every = _evenly(minutes, 60)
    if every is not None:
        each = _every(every, "minute")
        if hours.text == "*":
            return each
        stretch = _run(hours.values)
        if stretch is not None:
            return f"{each} from {stretch[0]:02}:00 to {stretch[1]:02}:{minutes.values[-1]:02}"
        return f"{each} of {_listed('hour', hours.values)}"
    past = "" if minutes.mask == 1 else f" at {_listed('minute', minutes.values)}"
    if hours.text == "*":
        return f"every hour{past}"
    every = _evenly(hours, 24)
    if every is not None and every > 1:
        return f"every {every} hours{past}"
    stretch = _run(hours.values)
    if stretch is not None and stretch[0] != stretch[1] and len(minutes.values) == 1:
        minute = minutes.values[0]
        return f"every hour from {stretch[0]:02}:{minute:02} to {stretch[1]:02}:{minute:02}"
    return f"at {_listed('minute', minutes.values)} of {_listed('hour', hours.values)}"


def _seconds_repetition(cron: Cron) -> str:
    every = _evenly(cron.second, 60)
    seconds = _every(every, "second") if every is not None else f"at {_listed('second', cron.second.values)}"
    if cron.minute.text == "*" and cron.hour.text == "*":
        return seconds if every is not None else f"every minute {seconds}"
    minutes = "every minute" if cron.minute.text == "*" else _listed("minute", cron.minute.values)
    hours = "every hour" if cron.hour.text == "*" else _listed("hour", cron.hour.values)
    return f"{seconds} of {minutes} of {hours}"


def _evenly(field: CronField, width: int) -> int | None:
    """The spacing when the field is `*` or a `*/n` that divides the width; None when it is not even."""
    if field.text == "*":
        return 1
    match = _STEP.fullmatch(field.text)
    if match and width % int(match[1]) == 0 and int(match[1]) < width:
        return int(match[1])
    return None


def _run(values: list[int]) -> tuple[int, int] | None:
    """The ends, when the values follow one another without a hole."""
    return (values[0], values[-1]) if values[-1] - values[0] == len(values) - 1 else None


# --- days -------------------------------------------------------------------------------------


def _days(cron: Cron) -> _Days:
    any_day, any_weekday = cron.day.text == "*", cron.weekday.text == "*"
    months = [] if cron.month.text == "*" else cron.month.values
    within = f" in {join([MONTH_NAMES[month - 1] for month in months])}" if months else ""
    if any_day and any_weekday:
        return _Days(f"every day{within}", within.strip())
    if any_day:
        return _weekdays(cron.weekday, months, within)
    if any_weekday:
        return _month_days(cron.day, months)
    by_day, by_weekday = _month_days(cron.day, months), _weekdays(cron.weekday, months, within)
    if cron.day.is_star or cron.weekday.is_star:
        trailing = f"{by_day.trailing} when that is also {_weekday_choice(cron.weekday)}"
    else:
        trailing = f"{by_day.trailing}, and {by_weekday.trailing}"
    return _Days(f"{trailing},", trailing)


def _weekdays(weekday: CronField, months: list[int], within: str) -> _Days:
    if not weekday.forms:
        if weekday.mask in (_WORKDAYS, _WEEKEND):
            name = "weekdays" if weekday.mask == _WORKDAYS else "weekends"
            return _Days("", f"on {name}{within}")
        names = [_DAY_NAMES[value] for value in _monday_first(weekday.values)]
        return _Days(f"every {join(names)}{within}", f"on {join([f'{name}s' for name in names])}{within}")
    nouns = _weekday_nouns(weekday, _month_noun(months))
    return _Days(f"on {nouns}", f"on {nouns}")


def _weekday_nouns(weekday: CronField, month: str) -> str:
    plain = [f"every {_DAY_NAMES[value]}" + ("" if month == "the month" else f" of {month}") for value in _monday_first(weekday.values)]
    return join(plain + [f"{_form(form)} of {month}" for form in weekday.forms])


def _weekday_choice(weekday: CronField) -> str:
    plain = [f"a {_DAY_NAMES[value]}" for value in _monday_first(weekday.values)]
    return join(plain + [f"{_form(form)} of the month" for form in weekday.forms], "or")


def _month_days(day: CronField, months: list[int]) -> _Days:
    month = _month_noun(months)
    step = _STEP.fullmatch(day.text)
    if step:
        said = f"on every {ordinal(int(step[1]))} day of {month} from the 1st"
        return _Days(said, said)
    if len(months) == 1 and not day.forms and len(day.values) == 1:
        said = f"on {day.values[0]} {month}"
        return _Days(f"{said} of every leap year" if said == "on 29 February" else f"every year {said}", said)
    nouns = [f"the {part}" for part in _ranges(day.values, ordinal)] + [_form(form) for form in day.forms]
    said = f"on {join(nouns)} of {month}"
    return _Days(said, said)


def _form(form: DayForm) -> str:
    match form.kind:
        case DayKind.LAST:
            if form.number == 0:
                return "the last day"
            return "the day before the last" if form.number == 1 else f"the day {form.number} days before the last"
        case DayKind.LAST_WORKDAY:
            return "the last weekday (Monday to Friday)"
        case DayKind.NEAREST_WORKDAY:
            return f"the weekday (Monday to Friday) nearest the {ordinal(form.number)}"
        case DayKind.NTH_WEEKDAY:
            return f"the {_ORDINALS[form.number]} {_DAY_NAMES[form.weekday]}"
        case DayKind.LAST_WEEKDAY:
            return f"the last {_DAY_NAMES[form.weekday]}"
        case _:
            assert_never(form.kind)


def _month_noun(months: list[int]) -> str:
    return join([MONTH_NAMES[month - 1] for month in months]) if months else "the month"


def _monday_first(weekdays: list[int]) -> list[int]:
    return sorted(weekdays, key=lambda weekday: (weekday - 1) % 7)


# --- small words ------------------------------------------------------------------------------


def _describe_interval(every: Micros) -> str:
    if every == DAY:
        return "Every 24 hours"  # not "every day": it does not follow the clocks
    for unit, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second"), (1000, "millisecond")):
        if every % unit == 0:
            return _capital(_every(every // unit, name))
    return _capital(_every(every, "microsecond"))


def _every(count: int, unit: str) -> str:
    return f"every {unit}" if count == 1 else f"every {count} {unit}s"


def _listed(unit: str, values: list[int]) -> str:
    return f"{unit}{'' if len(values) == 1 else 's'} {join(_ranges(values, str))}"


def _ranges(values: list[int], say: Callable[[int], str]) -> list[str]:
    """Runs of three or more as "a to b", the rest one by one."""
    said: list[str] = []
    start = 0
    while start < len(values):
        end = start
        while end + 1 < len(values) and values[end + 1] == values[end] + 1:
            end += 1
        if end - start >= 2:
            said.append(f"{say(values[start])} to {say(values[end])}")
        else:
            said += [say(value) for value in values[start : end + 1]]
        start = end + 1
    return said


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _date(instant: Instant) -> str:
    return to_datetime(instant).strftime("%Y-%m-%d")


def _time(instant: Instant) -> str:
    return to_datetime(instant).strftime("%H:%M:%S" if instant % MINUTE else "%H:%M")
