"""What a change of the clocks did to one fire, in words that state facts."""

from __future__ import annotations

from datetime import UTC, datetime

from duly.domain.dst import DstGap, DstOverlap, LocalTimes, readings_in_gap
from duly.domain.zones import LocalSecond, Stretch, UtcSecond, stretch_at

# More readings than this in one gap are told as a range.
_FEW = 3
_MANY = 10_000


def note_on_fire(times: LocalTimes, zone: str, gap: DstGap, overlap: DstOverlap, second: UtcSecond) -> str | None:
    """The note for a fire at this second; None when the clocks did nothing to it."""
    stretch = stretch_at(zone, second)
    reading = second + stretch.offset
    if not times.is_wild:
        note = _gap_note(times, stretch, gap, second)
        if note is not None:
            return note
    if not times.matches(reading):
        return None
    shown_before = stretch.offset_before > stretch.offset and reading < stretch.repeats_until
    shown_again = stretch.offset_after < stretch.offset and reading >= stretch.repeated_from
    if not shown_before and not shown_again:
        return None
    ordinal = "second" if shown_before else "first"
    verb = "this is" if times.is_wild or overlap is DstOverlap.BOTH else "runs at"
    return f"{clock(reading)} happens twice on this day; {verb} the {ordinal}"


def clock(reading: LocalSecond) -> str:
    """A wall clock reading as people write it; seconds only when there are some."""
    shown = datetime.fromtimestamp(reading, UTC)
    return shown.strftime("%H:%M:%S" if shown.second else "%H:%M")


def _gap_note(times: LocalTimes, stretch: Stretch, gap: DstGap, second: UtcSecond) -> str | None:
    if stretch.offset_before >= stretch.offset or gap is DstGap.SKIP:
        return None
    here = second + stretch.offset
    if gap is DstGap.SHIFT:
        nominal = second + stretch.offset_before
        if nominal >= stretch.gap[1] or not times.matches(nominal):
            return None
        return _moved([nominal], here, "moved to", joined=times.matches(here))
    if second != stretch.start:
        return None
    skipped = readings_in_gap(times, stretch, _MANY)
    return _moved(skipped, here, "runs at", joined=times.matches(here)) if skipped else None


def _moved(skipped: list[LocalSecond], here: LocalSecond, verb: str, *, joined: bool) -> str:
    same_day = skipped[0] // 86_400 == here // 86_400
    there = clock(here) if same_day else f"{clock(here)} on {_date(here)}"
    together = ", one run for both" if joined and len(skipped) == 1 else ""
    where = "on this day" if same_day else ""
    if len(skipped) == 1:
        what, does = clock(skipped[0]), "does not exist"
    elif len(skipped) <= _FEW:
        names = [clock(reading) for reading in skipped]
        what, does = f"{', '.join(names[:-1])} and {names[-1]}", "do not exist"
    else:
        what, does = f"{len(skipped)} times from {clock(skipped[0])} to {clock(skipped[-1])}", "do not exist"
    if not same_day:
        what = f"{what} on {_date(skipped[0])}"
    if len(skipped) > 1:
        verb = "all run once at"
    sentence = f"{what} {does} {where}".rstrip()
    return f"{sentence}; {verb} {there}{together}"


def _date(reading: LocalSecond) -> str:
    return datetime.fromtimestamp(reading, UTC).strftime("%Y-%m-%d")
