"""Numbers, spans and times as people read them."""

from __future__ import annotations

import json
from datetime import datetime, tzinfo
from typing import Any

from duly.domain.instants import Instant, from_rfc3339, to_datetime

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def span(milliseconds: float | None) -> str:
    """A length of time in two units at most: 840 ms, 4.2 s, 4 m 12 s, 3 d 4 h. Spaces do not break."""
    if milliseconds is None:
        return "–"
    if abs(milliseconds) < 1000:
        return f"{round(milliseconds)}\u00a0ms"
    seconds = milliseconds / 1000
    if abs(seconds) < 60:
        return f"{seconds:.1f}\u00a0s" if abs(seconds) < 10 else f"{round(seconds)}\u00a0s"
    parts: list[str] = []
    rest = round(abs(seconds))
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count}\u00a0{unit}" if count else "")
        if len(parts) == 2:
            break
    return ("−" if seconds < 0 else "") + "\u00a0".join(part for part in parts if part)


def number(value: float) -> str:
    """With thin groups of three digits."""
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else f"{value:,.1f}".replace(",", "\u202f")


def counted(count: int, one: str, many: str | None = None) -> str:
    """1 job, 2 jobs."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def moment(iso: str) -> Instant:
    """An instant from what the API answers."""
    return from_rfc3339(iso)


def between(start: str | None, end: str | None) -> float | None:
    """Milliseconds from one time to another; None when one of them is not there."""
    return None if start is None or end is None else (moment(end) - moment(start)) / 1000


def begun(run: dict[str, Any]) -> str | None:
    """When an execution, or an attempt, began. No worker runs a workflow: that begins when it was made and is due."""
    started: str | None = run["startedAt"]
    if started is None and run.get("attempt") == 0 and run.get("state") in ("RUNNING", "SUCCEEDED", "DEAD"):
        return str(max(run["scheduledAt"], run["createdAt"], key=moment))
    return started


def took(run: dict[str, Any]) -> float | None:
    """How long an execution's last attempt ran, or an attempt, or a run of a workflow, in milliseconds."""
    return between(begun(run), run["finishedAt"])


def local(at: Instant, zone: tzinfo) -> datetime:
    """An instant as a clock in the zone shows it."""
    return to_datetime(at).astimezone(zone)


def clock_text(at: Instant, now: Instant, zone: tzinfo) -> str:
    """As short as can be without being mistaken: the time today, the day and the time this year, all of it otherwise."""
    then, today = local(at, zone), local(now, zone)
    if then.date() == today.date():
        return f"{then:%H:%M:%S}"
    if then.year == today.year:
        return f"{then:%a} {then.day} {then:%b} {then:%H:%M:%S}"
    return f"{then.day} {then:%b} {then:%Y} {then:%H:%M:%S}"


def full_text(at: Instant, zone: tzinfo) -> str:
    """Day, date, time and offset."""
    then = local(at, zone)
    return f"{then:%a} {then.day} {then:%b} {then:%Y} {short_clock(then)} {offset_text(then)}"


def short_clock(then: datetime) -> str:
    """Hours and minutes, and seconds if there are any."""
    return f"{then:%H:%M:%S}" if then.second else f"{then:%H:%M}"


def offset_text(then: datetime) -> str:
    """+02:00"""
    text = then.strftime("%z")
    return f"{text[:3]}:{text[3:5]}"


def pretty(value: Any) -> str:
    """JSON for reading. Integers keep all their digits."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def plain(value: Any) -> str:
    """JSON in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def short_id(id: str) -> str:
    """An id as it is told apart at a glance: the kind and the last eight digits."""
    kind, _, digits = id.partition("_")
    return f"{kind}_…{digits[-8:]}" if len(digits) > 12 else id
