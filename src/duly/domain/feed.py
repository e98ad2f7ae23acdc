"""A calendar feed: fires to come as iCalendar (RFC 5545), for those who look at calendars."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC

from duly.domain.ids import JobId, execution_text, fire_id
from duly.domain.instants import MINUTE, Instant, Micros, to_datetime

LONGEST_LINE = 73
SHORTEST: Micros = MINUTE


@dataclass(frozen=True, slots=True)
class Fire:
    """A fire as a calendar shows it; `takes` is what its runs mostly do."""

    at: Instant
    job_id: JobId
    name: str
    pool: str
    takes: Micros | None = None
    note: str | None = None


def calendar_feed(fires: Iterable[Fire], title: str, now: Instant) -> str:
    """The feed. A fire keeps its name in it, so that a calendar that reads it again shows it once."""
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//duly//fires//EN",
        f"X-WR-CALNAME:{_text(title)}",
        "REFRESH-INTERVAL;VALUE=DURATION:PT1H",
    ]
    for fire in fires:
        lines += [
            "BEGIN:VEVENT",
            f"UID:{execution_text(fire_id(fire.job_id, fire.at))}@duly",
            f"DTSTAMP:{_stamp(now)}",
            f"DTSTART:{_stamp(fire.at)}",
            f"DTEND:{_stamp(fire.at + max(fire.takes or 0, SHORTEST))}",
            f"SUMMARY:{_text(fire.name)}",
            f"DESCRIPTION:{_text(f'pool {fire.pool}' + (f'; {fire.note}' if fire.note else ''))}",
            "TRANSP:TRANSPARENT",
            "END:VEVENT",
        ]
    return "".join(f"{part}\r\n" for line in [*lines, "END:VCALENDAR"] for part in _folded(line))


def _stamp(at: Instant) -> str:
    return f"{to_datetime(at).astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _text(words: str) -> str:
    return words.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,").replace("\r", "").replace("\n", "\\n")


def _folded(line: str) -> list[str]:
    """Lines of at most 75 octets; what follows a break begins with a space."""
    parts: list[str] = []
    rest = line
    while len(rest.encode()) > LONGEST_LINE:
        cut = LONGEST_LINE
        while len(rest[:cut].encode()) > LONGEST_LINE:
            cut -= 1
        parts.append(rest[:cut])
        rest = f" {rest[cut:]}"
    return [*parts, rest]
