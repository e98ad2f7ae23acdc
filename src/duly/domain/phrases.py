"""Small words that sentences about schedules share."""

from __future__ import annotations

from collections.abc import Sequence

MONTH_NAMES = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]


def join(parts: Sequence[str], word: str = "and") -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def ordinal(number: int) -> str:
    """`1st`, `22nd`."""
    suffix = "th" if 10 < number % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def nth(number: int) -> str:
    """`3rd`, `last`, `2nd to last`."""
    if number > 0:
        return ordinal(number)
    return "last" if number == -1 else f"{ordinal(-number)} to last"
