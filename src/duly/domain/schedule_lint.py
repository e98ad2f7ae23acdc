"""What a person may not have meant by a schedule. Nothing here is an error.

A time that the clocks touch is no finding by itself: with the default policies it still runs
exactly once, and the preview says so at the fire. It becomes one when the number of runs changes.
"""

from __future__ import annotations

import re

from duly.domain.cron import Cron
from duly.domain.cron_days import MONTH_LENGTHS
from duly.domain.cron_fields import CronField
from duly.domain.dst import DstGap, DstOverlap, LocalTimes, readings_in_gap
from duly.domain.fire_notes import clock
from duly.domain.instants import DAY, SECOND, Instant, from_rfc3339
from duly.domain.schedule import CronSchedule, RuleSchedule, Schedule, next_fire, plain_of
from duly.domain.zones import LocalSecond, Stretch, changes, stretch_at

# Without a `now` the zone is judged by what tzdata knows of its future.
_REFERENCE: Instant = from_rfc3339("2037-01-01T00:00:00Z")
_TWO_YEARS = 731 * DAY

_STEP = re.compile(r"(?:\*|([0-9]+)-([0-9]+))/([0-9]+)")


def lint(schedule: Schedule, *, now: Instant | None = None) -> list[str]:
    """Warnings, each a sentence. `now` lets it look at the coming clock changes and at schedules that are over."""
    plain = plain_of(schedule)
    found: list[str] = []
    if isinstance(plain, CronSchedule):
        cron = plain.cron
        found += [*_either_day(cron), *_uneven_steps(cron), *_rare_days(cron)]
    if isinstance(plain, CronSchedule | RuleSchedule):
        found += _clock_changes(plain, _REFERENCE if now is None else now)
    if now is not None and next_fire(schedule, now) is None:
        found.append("never fires again")
    return found


def _either_day(cron: Cron) -> list[str]:
    if cron.day.is_star or cron.weekday.is_star:
        return []
    return ["day-of-month and day-of-week are both restricted: it fires on days that match either, not only on those that match both"]


def _uneven_steps(cron: Cron) -> list[str]:
    found = []
    for field, width, unit, around in (
        (cron.second, 60, "second", "minute"),
        (cron.minute, 60, "minute", "hour"),
        (cron.hour, 24, "hour", "day"),
    ):
        step = _step_over_all(field, width)
        if step is None:
            continue
        rest = width - field.values[-1] + field.values[0]
        if len(field.values) == 1:
            found.append(f"{field.text} chooses one {unit} only: {field.values[0]}")
        elif rest != step:
            found.append(f"{field.text} {unit}s is not evenly spaced: {_count(rest, unit)} at the {around}'s end")
    if cron.day.text.startswith("*/"):
        found.append(f"{cron.day.text} days is not evenly spaced: it starts again on the 1st of each month")
    if cron.weekday.text.startswith("*/") and len(cron.weekday.values) > 1:
        found.append(f"{cron.weekday.text} weekdays is not evenly spaced: it starts again each Sunday")
    return found


def _step_over_all(field: CronField, width: int) -> int | None:
    """The step of a field that is one stepped range over the whole field, such as */7 or 3-59/7."""
    match = _STEP.fullmatch(field.text)
    if match is None:
        return None
    step = int(match[3])
    if match[1] is not None and (int(match[1]) >= step or int(match[2]) != width - 1):
        return None
    return step


def _rare_days(cron: Cron) -> list[str]:
    by_month = {
        month: [length for length in lengths if any(cron.days[(length - 28) * 7 + first] for first in range(7))]
        for month, lengths in enumerate(MONTH_LENGTHS, start=1)
        if cron.month.mask >> month & 1
    }
    if all(lengths in ([], [29]) for lengths in by_month.values()):
        in_leap_years = [cron.days[7 + first] for first in range(7)]
        years = "a leap year" if all(in_leap_years) else "some leap years"
        when = "on 29 February" if all(days in (0, 1 << 29) for days in in_leap_years) else "in a February of 29 days"
        return [f"fires only {when}, so only in {years}"]
    without = [month for month, lengths in by_month.items() if lengths != list(MONTH_LENGTHS[month - 1])]
    if not without:
        return []
    day = cron.day.text
    return [f"months without day {day} are skipped; L is the last day of every month" if day.isdigit() else "some months have no such day"]


def _clock_changes(schedule: CronSchedule | RuleSchedule, since: Instant) -> list[str]:
    found: dict[str, None] = {}
    for change in changes(schedule.zone, since, since + _TWO_YEARS):
        after = stretch_at(schedule.zone, change.at // SECOND)
        warning = _forward(schedule, after) if change.is_gap else _back(schedule, after)
        if warning is not None:
            found[warning] = None
    return list(found)


def _forward(schedule: CronSchedule | RuleSchedule, after: Stretch) -> str | None:
    times = schedule.times
    skipped = readings_in_gap(times, after, 100)
    if not skipped:
        return None
    when = "when the clocks go forward"
    if times.is_wild:
        return None if _fires_on(times, after) else f"has no run on the day {when}: {_times(skipped)} not exist then"
    if schedule.gap is DstGap.SKIP:
        return f"{_times(skipped)} not exist {when}, and dstGap=skip leaves the run out"
    landing = (
        [after.start + after.offset]
        if schedule.gap is DstGap.RUN_AFTER
        else [reading + after.offset - after.offset_before for reading in skipped]
    )
    joined = [reading for reading in landing if times.matches(reading)]
    if schedule.gap is DstGap.RUN_AFTER and len(skipped) > 1:
        return f"{_times(skipped)} not exist {when}, and become one run at {clock(landing[0])}"
    if joined:
        return f"{_times(skipped)} not exist {when}, and {'becomes' if len(skipped) == 1 else 'become'} one run with {clock(joined[0])}"
    return None


def _back(schedule: CronSchedule | RuleSchedule, after: Stretch) -> str | None:
    times = schedule.times
    if times.is_wild or schedule.overlap is not DstOverlap.BOTH:
        return None
    first = times.at_or_after(after.start + after.offset)
    if first is None or first >= after.repeats_until:
        return None
    return f"{clock(first)} happens twice when the clocks go back, and dstOverlap=both runs it twice"


def _fires_on(times: LocalTimes, after: Stretch) -> bool:
    """Does the day of a jump forward keep any reading that the expression names?"""
    skipped, shown = after.gap
    midnight = skipped // 86_400 * 86_400
    before = times.at_or_after(midnight)
    later = times.at_or_after(shown)
    return (before is not None and before < skipped) or (later is not None and later < midnight + 86_400)


def _times(readings: list[LocalSecond]) -> str:
    if len(readings) == 1:
        return f"{clock(readings[0])} does"
    return f"{clock(readings[0])} to {clock(readings[-1])} do"


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
