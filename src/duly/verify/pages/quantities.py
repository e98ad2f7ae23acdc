"""How numbers, times and durations are said: short, and exact enough to look a thing up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

MICROSECOND, MILLISECOND, SECOND = 1, 1_000, 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def count(number: int) -> str:
    """50,000."""
    return f"{number:,}"


def many(number: int, one: str, more: str | None = None) -> str:
    """1 finding, 2 findings."""
    return f"{count(number)} {one if number == 1 else more or one + 's'}"


def duration(micros: int) -> str:
    """Three figures and a unit: 0 ms, 4.12 s, 12.4 s, 30 s, 2 min 5 s, 1 h 12 min."""
    if micros < 0:
        return "-" + duration(-micros)
    if micros < MILLISECOND:
        return "0 ms" if micros == 0 else f"{micros} µs"
    # Rounded before the unit is chosen: nothing is ever 1000 ms or 60 s.
    if round(micros / MILLISECOND, _places(micros, MILLISECOND)) < 1000:
        return f"{micros / MILLISECOND:.{_places(micros, MILLISECOND)}f} ms"
    if round(micros / SECOND, _places(micros, SECOND)) < 60:
        return f"{micros / SECOND:.{_places(micros, SECOND)}f} s"
    if micros < HOUR - SECOND // 2:
        return _two(round(micros / SECOND), 60, "min", "s")
    if micros < DAY - MINUTE // 2:
        return _two(round(micros / MINUTE), 60, "h", "min")
    return _two(round(micros / HOUR), 24, "d", "h")


def instant(micros: int) -> str:
    """2026-03-01 12:00:04.125 UTC, or the bare number if no calendar has it."""
    found = moment(micros)
    if found is None:
        return f"{micros} µs"
    fraction = micros % SECOND
    digits = f".{fraction:06d}" if fraction % MILLISECOND else f".{fraction // MILLISECOND:03d}" if fraction else ""
    return f"{found:%Y-%m-%d %H:%M:%S}{digits} UTC"


def moment(micros: int) -> datetime | None:
    """As a datetime, or None where the calendar ends."""
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def _places(micros: int, unit: int) -> int:
    if micros % unit == 0:
        return 0
    value = micros / unit
    return 2 if value < 10 else 1 if value < 100 else 0


def _two(smaller: int, ratio: int, big: str, small: str) -> str:
    whole, rest = divmod(smaller, ratio)
    return f"{whole} {big} {rest} {small}" if rest else f"{whole} {big}"
