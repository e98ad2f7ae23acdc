"""iCalendar files (RFC 5545) as far as a calendar needs them: whole days become holidays, times become windows.

A small reader of our own: the files of holiday services use a handful of properties, and what is
bounded here (lines, events, occurrences) is not bounded in the libraries for it. What cannot be
read is left out and said in a remark; a text that is no iCalendar at all is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from duly.domain.calendars import BAD_CALENDAR, LONGEST_LABEL, MOST_HOLIDAYS, MOST_WINDOWS, Holiday, Window
from duly.domain.dst import DstGap, DstOverlap
from duly.domain.errors import Invalid
from duly.domain.instants import DAY, SECOND, Instant, Micros
from duly.domain.kinds import RuleSchedule, plain_next
from duly.domain.rule import parse_rule
from duly.domain.zones import DAY_SECONDS, LocalSecond, stretch_at, zone_names

MOST_LINES = 100_000
MOST_EVENTS = 5_000
MOST_REMARKS = 20
# Events that repeat are written out for so long from now on; what is over for longer than a year is left out.
AHEAD: Micros = 5 * 366 * DAY
BEHIND: Micros = 366 * DAY

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_LINE = re.compile(r"([A-Za-z0-9-]+)((?:;[A-Za-z0-9-]+=(?:\"[^\"]*\"|[^\";:]*))*):(.*)", re.DOTALL)
_PARAMETER = re.compile(r";([A-Za-z0-9-]+)=(\"[^\"]*\"|[^\";:]*)")
_DATE = re.compile(r"[0-9]{8}")
_TIME = re.compile(r"[0-9]{8}T[0-9]{6}Z?")
_DURATION = re.compile(r"\+?P(?:([0-9]{1,4})W)?(?:([0-9]{1,4})D)?(?:T(?:([0-9]{1,5})H)?(?:([0-9]{1,5})M)?(?:([0-9]{1,6})S)?)?")
_ESCAPE = re.compile(r"\\(.)")


@dataclass(slots=True)
class IcsEntries:
    """What a file says."""

    holidays: list[Holiday] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Property:
    """One line of an event."""

    value: str
    parameters: dict[str, str]


class _Unreadable(Exception):
    """One event cannot be read; the words say why."""


def read_ics(text: str, zone: str, now: Instant) -> IcsEntries:
    """Read a file. Times without a zone are of `zone`. Raises Invalid (DULY-E135) for what is no iCalendar, or too much of it."""
    found = IcsEntries()
    for nth, event in enumerate(_events(text)):
        if nth >= MOST_EVENTS:
            raise _refuse(f"has more than {MOST_EVENTS:,} events.", "Leave out what is over, or split it into several calendars.")
        try:
            _read_event(event, zone, now, found)
        except (_Unreadable, Invalid) as error:
            if len(found.remarks) < MOST_REMARKS:
                why = error.message if isinstance(error, Invalid) else str(error)
                found.remarks.append(f"{_name(event) or f'event {nth + 1}'}: {why}")
        if len(found.holidays) > 2 * MOST_HOLIDAYS or len(found.windows) > 2 * MOST_WINDOWS:
            raise _refuse(f"has more than {MOST_HOLIDAYS:,} days or {MOST_WINDOWS:,} windows.", "Leave out what is over.")
    return found


def _refuse(message: str, hint: str) -> Invalid:
    return Invalid(BAD_CALENDAR, message, field="ics", hint=hint)


def _events(text: str) -> Iterator[dict[str, list[_Property]]]:
    """The properties of each VEVENT by name; of what is nested in it (alarms), nothing."""
    lines = _unfolded(text)
    if not lines or lines[0].strip().upper() != "BEGIN:VCALENDAR":
        raise _refuse("is not an iCalendar file.", "It begins with BEGIN:VCALENDAR.")
    stack: list[str] = []
    event: dict[str, list[_Property]] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        name, value = match[1].upper(), match[3]
        if name == "BEGIN":
            stack.append(value.strip().upper())
            if len(stack) > 8:
                raise _refuse("is nested too deeply.", "Export it again.")
            if stack[-1] == "VEVENT":
                event = {}
        elif name == "END":
            if not stack or stack.pop() != value.strip().upper():
                raise _refuse("has a BEGIN without its END.", "Export it again.")
            if value.strip().upper() == "VEVENT":
                yield event
        elif stack and stack[-1] == "VEVENT":
            parameters = {key.upper(): given.strip('"') for key, given in _PARAMETER.findall(match[2])}
            event.setdefault(name, []).append(_Property(value.strip(), parameters))
    if stack:
        raise _refuse("ends in the midst of something.", "Export it again.")


def _unfolded(text: str) -> list[str]:
    """Lines, with those that begin with a blank joined to the line before."""
    lines: list[list[str]] = []
    for nth, line in enumerate(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")):
        if nth >= MOST_LINES:
            raise _refuse(f"has more than {MOST_LINES:,} lines.", "Leave out what is over.")
        if line[:1] in (" ", "\t") and lines:
            lines[-1].append(line[1:])
        elif line:
            lines.append([line])
    return ["".join(parts) for parts in lines]


def _read_event(event: dict[str, list[_Property]], zone: str, now: Instant, found: IcsEntries) -> None:
    if _one(event, "STATUS") is not None and _given(event, "STATUS").value.upper() == "CANCELLED":
        return
    if _one(event, "DTSTART") is None:
        raise _Unreadable("has no DTSTART")
    start = _given(event, "DTSTART")
    name = _name(event)
    if _DATE.fullmatch(start.value):
        _read_days(event, start, name, now, found)
    else:
        _read_times(event, start, zone, name, now, found)


def _read_days(event: dict[str, list[_Property]], start: _Property, name: str | None, now: Instant, found: IcsEntries) -> None:
    """Whole days: each day up to, and without, DTEND is a holiday."""
    first = _day(start.value)
    length = 1
    if _one(event, "DTEND") is not None:
        length = _day(_given(event, "DTEND").value) - first
    elif _one(event, "DURATION") is not None:
        length = _duration(_given(event, "DURATION").value) // DAY
    if not 0 < length <= 366:
        raise _Unreadable("does not last from 1 to 366 days")
    excluded = {_day(value) for value in _values(event, "EXDATE") if _DATE.fullmatch(value)}
    added = {_day(value) for value in _values(event, "RDATE") if _DATE.fullmatch(value)}
    begins = {at // DAY for at in _occurrences(event, first * DAY_SECONDS, "UTC", now)} | added
    today = now // DAY
    for begin in sorted(begins - excluded):
        for day in range(begin, begin + length):
            if today - BEHIND // DAY <= day <= today + AHEAD // DAY:
                found.holidays.append(Holiday(day=date.fromordinal(day + _EPOCH_DAY), name=name))


def _read_times(event: dict[str, list[_Property]], start: _Property, zone: str, name: str | None, now: Instant, found: IcsEntries) -> None:
    """Times: each occurrence is a window."""
    here = _zone(start, zone)
    first = _instant(start, zone)
    if _one(event, "DTEND") is not None:
        length = _instant(_given(event, "DTEND"), zone) - first
    elif _one(event, "DURATION") is not None:
        length = _duration(_given(event, "DURATION").value)
    else:
        raise _Unreadable("has neither DTEND nor DURATION")
    if not 0 < length <= 366 * DAY:
        raise _Unreadable("does not last from a moment to 366 days")
    excluded = {_instant(_Property(value, given.parameters), zone) for given in event.get("EXDATE", ()) for value in given.value.split(",")}
    begins = set(_occurrences(event, _reading(start.value), here, now)) if _one(event, "RRULE") is not None else {first}
    for begin in sorted(begins - excluded):
        if now - BEHIND <= begin <= now + AHEAD:
            found.windows.append(Window(start=begin, end=begin + length, name=name))


def _occurrences(event: dict[str, list[_Property]], start: LocalSecond, zone: str, now: Instant) -> Iterator[Instant]:
    """When the event begins, from about a year ago to five years from now."""
    if _one(event, "RRULE") is None:
        yield start * SECOND
        return
    rule = parse_rule(_given(event, "RRULE").value, start, zone)
    schedule = RuleSchedule(rule, zone, DstGap.RUN_AFTER, DstOverlap.FIRST)
    at = now - BEHIND - 366 * DAY
    for _ in range(MOST_HOLIDAYS):
        following = plain_next(schedule, at)
        if following is None or following > now + AHEAD:
            return
        yield following
        at = following


def _values(event: dict[str, list[_Property]], key: str) -> list[str]:
    return [value for given in event.get(key, ()) for value in given.value.split(",")]


def _one(event: dict[str, list[_Property]], key: str) -> _Property | None:
    return event[key][0] if key in event else None


def _given(event: dict[str, list[_Property]], key: str) -> _Property:
    return event[key][0]


def _name(event: dict[str, list[_Property]]) -> str | None:
    summary = _one(event, "SUMMARY")
    if summary is None:
        return None
    plain = _ESCAPE.sub(lambda escape: "\n" if escape[1] in "nN" else escape[1], summary.value)
    words = " ".join("".join(c if c.isprintable() else " " for c in plain).split())
    return words[:LONGEST_LABEL] or None


def _zone(given: _Property, zone: str) -> str:
    """The zone of a time. TZID is an IANA name, perhaps behind the path of whoever made the file."""
    if given.value.endswith("Z"):
        return "UTC"
    named = given.parameters.get("TZID")
    if named is None:
        return zone
    known = zone_names()
    for candidate in (named, "/".join(named.split("/")[-2:]), "/".join(named.split("/")[-3:])):
        if candidate in known:
            return candidate
    raise _Unreadable(f"its zone {named[:60]!r} is not an IANA name")


def _instant(given: _Property, zone: str) -> Instant:
    """The first instant at which the zone's clock shows it; past a gap, the first after it."""
    local, here = _reading(given.value), _zone(given, zone)
    stretch = stretch_at(here, local - DAY_SECONDS)
    while stretch.end + stretch.offset <= local:
        stretch = stretch_at(here, stretch.end)
    return max(local - stretch.offset, stretch.start) * SECOND


def _reading(text: str) -> LocalSecond:
    if not _TIME.fullmatch(text):
        raise _Unreadable(f"{text[:40]!r} is not a time")
    try:
        moment = datetime.strptime(text.removesuffix("Z"), "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        raise _Unreadable(f"{text[:40]!r} is not a time") from None
    if not 1970 <= moment.year <= 9998:
        raise _Unreadable(f"{text[:40]!r} is out of range")
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)


def _day(text: str) -> int:
    if not _DATE.fullmatch(text):
        raise _Unreadable(f"{text[:40]!r} is not a date")
    return _reading(f"{text}T000000") // DAY_SECONDS


def _duration(text: str) -> Micros:
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise _Unreadable(f"{text[:40]!r} is not a duration")
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return (((weeks * 7 + days) * 24 + hours) * 3600 + minutes * 60 + seconds) * SECOND
