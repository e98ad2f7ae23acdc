"""Times as they are typed: with an offset, on the clocks of a zone, as a time of the day, or as a duration.

A time without an offset is one of the zone that `--tz` or `--utc` names, of this machine otherwise.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from duly.cli.output import shown_in
from duly.cli.values import moment_of, seconds_of
from duly.domain.errors import Invalid

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_READING = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ Tt]([0-9]{1,2}:[0-9]{2}(:[0-9]{2})?)")
_SPAN = re.compile(r"[0-9][0-9.]*([a-z][0-9a-z. ]*)?")


def later_of(text: str, field: str, zone: tzinfo | None = None) -> datetime:
    """A time to come: a clock's is the next such time, a duration counts from now on."""
    return _time_of(text, field, zone, 1)


def earlier_of(text: str, field: str, zone: tzinfo | None = None) -> datetime:
    """A time that was: a clock's is the last such time, a duration counts back from now, a day is its beginning."""
    return _time_of(text, field, zone, -1)


def _time_of(text: str, field: str, zone: tzinfo | None, direction: int) -> datetime:
    text = text.strip()
    zone = zone or shown_in.get()
    now = datetime.now(UTC)
    if _CLOCK.fullmatch(text):
        return _of_the_day(_clock(text), zone, now, direction)
    if _SPAN.fullmatch(text):
        return now + direction * timedelta(seconds=seconds_of(text, field))
    if _DAY.fullmatch(text):
        text = f"{text} 00:00"
    reading = _READING.fullmatch(text)
    if reading is None:
        return moment_of(text, field)
    try:
        found = _instant(datetime.combine(date.fromisoformat(reading[1]), _clock(reading[2])), zone)
    except (ValueError, OverflowError):
        return moment_of(text, field)
    if found is None:
        hint = "The clocks are put forward over it: give a time before or after, or one with an offset."
        raise Invalid("DULY-E105", f"{text!r} does not exist in {zone or 'the zone of this machine'}.", field=field, hint=hint)
    return found


def _clock(text: str) -> time:
    return time.fromisoformat(text.zfill(5 if text.count(":") == 1 else 8))


def _of_the_day(clock: time, zone: tzinfo | None, now: datetime, direction: int) -> datetime:
    """The nearest such time; a day on which the clocks leave it out has none."""
    today = now.astimezone(zone).date()
    for days in range(4):
        found = _instant(datetime.combine(today + direction * timedelta(days=days), clock), zone)
        if found is not None and (found > now if direction > 0 else found <= now):
            return found
    raise AssertionError("no zone leaves a time out for days")


def _instant(reading: datetime, zone: tzinfo | None) -> datetime | None:
    """What the clocks of a zone show, as an instant: the first of two, None for one that does not exist."""
    found = (reading.astimezone() if zone is None else reading.replace(tzinfo=zone)).astimezone(UTC)
    return found if found.astimezone(zone).replace(tzinfo=None) == reading else None
