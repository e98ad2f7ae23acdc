"""What a caller expects of a definition that it changes: a version, that there is one, or that there is none."""

from __future__ import annotations

from duly.domain.errors import Conflict

# Versions count from 1.
ABSENT = 0
PRESENT = -1


def holds(expected: int | None, version: int) -> bool:
    """Whether a definition of this version (ABSENT: there is none) is as it is expected. None expects nothing."""
    return expected is None or (version != ABSENT if expected == PRESENT else version == expected)


def unmet(what: str, expected: int | None) -> Conflict:
    """The error of an expectation that does not hold."""
    if expected == ABSENT:
        return Conflict("DULY-E209", f"The {what} is there already.", field="If-None-Match", hint="Read it, and change it with If-Match.")
    if expected == PRESENT:
        return Conflict("DULY-E209", f"There is no such {what} to change.", field="If-Match", hint="Leave If-Match out to make it.")
    return Conflict("DULY-E209", f"The {what} has changed meanwhile.", hint="Read it again and repeat the change.")
