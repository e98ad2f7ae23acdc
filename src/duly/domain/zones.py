"""Time zones, from the pinned `tzdata` package alone, and the stretches of constant offset in them.

A zone is used in two ways. `load_zone` gives the `tzinfo` for people who format times. The
schedule core wants something else: the **stretch** of constant offset around an instant, with
the offsets of its neighbours, because every question about a gap or an overlap is a question
about two neighbouring stretches. Stretches are found by asking `utcoffset()` and halving,
one block of about a year at a time; nothing here knows what daylight saving is (`dst()` is
negative in Dublin and Casablanca, so it is never asked).
"""

from __future__ import annotations

import difflib
from bisect import bisect_right
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from importlib import resources
from typing import NamedTuple
from zoneinfo import ZoneInfo

from duly.domain.errors import Invalid
from duly.domain.instants import EPOCH, LATEST, SECOND, Instant

LONGEST_NAME = 64

UNKNOWN_ZONE = "DULY-E103"

# A wall clock reading as seconds since 1970-01-01 00:00 on that wall, whatever the zone.
LocalSecond = int
# Seconds since 1970-01-01 UTC; cron never needs a finer instant.
UtcSecond = int

DAY_SECONDS = 86_400

# Blocks of 2**25 seconds, 388 days: one or two probes of the table answer a year of fires.
BLOCK_BITS = 25
# Zones change their offset at most once in six days (a test holds the pinned data to it), so
# probes three days apart see every change.
PROBE_SECONDS = 3 * DAY_SECONDS
# How far beyond its edges a block looks, so that no gap or overlap straddles an unseen change.
MARGIN_SECONDS = 3 * DAY_SECONDS

# Beyond this, local time could pass the year 9999, which datetime cannot say.
_LAST_PROBE: UtcSecond = LATEST // SECOND - 2 * DAY_SECONDS


class Stretch(NamedTuple):
    """A time of constant offset: `start <= utc second < end`, and the offsets just outside it.

    `offset_before == offset` or `offset_after == offset` marks an edge that is no change of
    the clocks but only the end of what was looked at; no change lies within `MARGIN_SECONDS` of it.
    """

    start: UtcSecond
    end: UtcSecond
    offset: int
    offset_before: int
    offset_after: int

    @property
    def gap(self) -> tuple[LocalSecond, LocalSecond]:
        """The local readings skipped on entering this stretch, half open; empty when none were."""
        return self.start + self.offset_before, self.start + self.offset

    @property
    def repeats_until(self) -> LocalSecond:
        """Readings of this stretch below this one were already shown before it began."""
        return self.start + self.offset_before

    @property
    def repeated_from(self) -> LocalSecond:
        """Readings of this stretch from this one on are shown again after it ends."""
        return self.end + self.offset_after


class Change(NamedTuple):
    """The clocks of a zone move at `at` from one offset (seconds east of UTC) to another."""

    at: Instant
    offset_before: int
    offset_after: int

    @property
    def is_gap(self) -> bool:
        """True when the clocks jump forward, so that some local times do not exist."""
        return self.offset_after > self.offset_before


def load_zone(name: str) -> tzinfo:
    """The zone of that IANA name, exactly as spelled there. Raises Invalid (DULY-E103) otherwise."""
    return _zone(name)


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    if name not in zone_names():
        raise _unknown(name)
    *folders, file = name.split("/")
    path = resources.files(".".join(["tzdata.zoneinfo", *folders])).joinpath(file)
    with path.open("rb") as stream:
        return ZoneInfo.from_file(stream, key=name)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Every name that `load_zone` knows. The list also decides: a name not in it never reaches a file."""
    names = resources.files("tzdata").joinpath("zones").read_text("ascii").split()
    # "Factory" is the name of a machine whose zone nobody has set; no person means it.
    return frozenset(names) - {"Factory"}


@lru_cache(maxsize=1)
def tzdata_version() -> str:
    """The IANA release that all instants are computed with, such as "2026f" (rule Z10)."""
    with resources.files("tzdata.zoneinfo").joinpath("tzdata.zi").open("r", encoding="ascii") as stream:
        first = stream.readline()
    return first.rsplit(maxsplit=1)[-1]


def _unknown(name: str) -> Invalid:
    example = 'Give an IANA name such as "Europe/Berlin" or "UTC".'
    if not name:
        return Invalid(UNKNOWN_ZONE, "the time zone is missing.", field="timezone", hint=example)
    if len(name) > LONGEST_NAME or not name.isascii() or not name.isprintable():
        return Invalid(
            UNKNOWN_ZONE,
            f"the time zone must be a plain IANA name of at most {LONGEST_NAME} characters.",
            field="timezone",
            hint=example,
        )
    close = close_zone_names(name)
    hint = f"Did you mean {' or '.join(close)}?" if close else f"{example} Abbreviations and offsets are not names."
    return Invalid(UNKNOWN_ZONE, f"the time zone {name!r} is unknown (tzdata {tzdata_version()}).", field="timezone", hint=hint)


def close_zone_names(name: str) -> list[str]:
    """Up to three names a person may have meant: another case first, then the city, then the spelling."""
    wanted = name.strip().lower().replace(" ", "_")
    by_lower = {known.lower(): known for known in sorted(zone_names())}
    if wanted in by_lower:
        return [by_lower[wanted]]
    by_city = [known for lower, known in by_lower.items() if "/" in lower and lower.rsplit("/", 1)[1] == wanted.rsplit("/", 1)[-1]]
    if by_city:
        return by_city[:3]
    return [by_lower[lower] for lower in difflib.get_close_matches(wanted, by_lower, n=3, cutoff=0.75)]


def offset_at(name: str, second: UtcSecond) -> int:
    """Seconds east of UTC at that second. The pinned data knows offsets of seconds (Monrovia, 1971)."""
    return stretch_at(name, second).offset


def instant_to_local(name: str, instant: Instant) -> datetime:
    """What the wall clock of the zone shows, as an aware datetime that also knows its fold."""
    return (EPOCH + timedelta(microseconds=instant)).astimezone(_zone(name))


def stretch_at(name: str, second: UtcSecond) -> Stretch:
    """The stretch of constant offset that holds this second; its edges may be nearer than the next change."""
    starts, stretches = _block(name, second >> BLOCK_BITS)
    return stretches[bisect_right(starts, second) - 1]


def changes(name: str, after: Instant, until: Instant) -> list[Change]:
    """Every change of the zone's offset in (after, until], in order."""
    found: list[Change] = []
    second = after // SECOND
    while True:
        stretch = stretch_at(name, second)
        if stretch.end * SECOND > until:
            return found
        if stretch.offset_after != stretch.offset:
            found.append(Change(stretch.end * SECOND, stretch.offset, stretch.offset_after))
        second = stretch.end


@lru_cache(maxsize=16_384)
def _block(name: str, index: int) -> tuple[list[UtcSecond], list[Stretch]]:
    zone = _zone(name)
    first, last = index << BLOCK_BITS, (index + 1) << BLOCK_BITS
    moves = _moves(zone, first - MARGIN_SECONDS, last + MARGIN_SECONDS)
    if not moves:
        offset = _probe(zone, first)
        return [first], [Stretch(first, last, offset, offset, offset)]
    starts = [at for at, _, _ in moves]
    stretches = []
    head, before, _ = moves[0]
    if head > first:
        starts.insert(0, first)
        stretches.append(Stretch(first, head, before, before, moves[0][2]))
    for (at, before, offset), following in zip(moves, [*moves[1:], None], strict=True):
        end, after = (following[0], following[2]) if following else (max(last, at + 1), offset)
        stretches.append(Stretch(at, end, offset, before, after))
    return starts, stretches


def _moves(zone: ZoneInfo, first: UtcSecond, last: UtcSecond) -> list[tuple[UtcSecond, int, int]]:
    """Changes in (first, last] as (second, offset before, offset from then on)."""
    moves = []
    low, low_offset = first, _probe(zone, first)
    while low < last:
        high = min(low + PROBE_SECONDS, last)
        high_offset = _probe(zone, high)
        if high_offset != low_offset:
            moves.append((_halve(zone, low, high), low_offset, high_offset))
        low, low_offset = high, high_offset
    return moves


def _halve(zone: ZoneInfo, low: UtcSecond, high: UtcSecond) -> UtcSecond:
    """The first second after `low` with the offset of `high`."""
    offset = _probe(zone, high)
    while high - low > 1:
        middle = (low + high) // 2
        if _probe(zone, middle) == offset:
            high = middle
        else:
            low = middle
    return high


def _probe(zone: ZoneInfo, second: UtcSecond) -> int:
    moment = datetime.fromtimestamp(min(second, _LAST_PROBE), UTC).astimezone(zone)
    offset = moment.utcoffset()
    if offset is None:
        raise AssertionError("a loaded zone always has an offset")
    return offset // timedelta(seconds=1)
