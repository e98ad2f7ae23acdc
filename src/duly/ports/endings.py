"""What a handler may raise to say how its attempt ends.

Failure                 the attempt failed; says whether and when it is tried again
├── RetryLater("30s")   try again then, whatever the policy's wait is
└── GiveUp("why")       do not try again: straight to the dead letters; also called DeadLetter
Snooze("5m")            no failure: call me again then, at no cost in attempts
Discard("why")          no failure and no success: there is nothing to do any more
Died                    the process that ran it is gone; counted as a loss, not as a failure
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from duly.domain.durations import parse_duration
from duly.domain.instants import SECOND, Micros
from duly.domain.retry import LONGEST_WAIT, bounded_wait
from duly.ports.handlers import storable
from duly.ports.words import names_of


class Failure(Exception):
    """The handler failed in a way that says what comes next.

    `retry=False` goes straight to the dead letters; `retry_after` replaces the policy's wait. `detail` is kept with the
    attempt (a traceback, the end of what a command printed). `kinds` are the names that retry rules look for, where they
    are not those of this class.
    """

    # Of a class of somebody else's that does not make what it inherits.
    type = "Failure"
    retry = True
    retry_after: Micros | None = None
    detail: str | None = None
    kinds: tuple[str, ...] = ()

    def __init__(
        self,
        message: str,
        *,
        type: str = "Failure",
        retry: bool = True,
        retry_after: Micros | None = None,
        detail: str | None = None,
        kinds: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.type = type
        self.retry = retry
        self.retry_after = retry_after
        self.detail = detail
        self.kinds = kinds


class RetryLater(Failure):
    """`raise RetryLater("30s")`: it failed, and is worth another attempt then. Replaces the policy's wait, uses up an attempt."""

    def __init__(self, wait: str | float | timedelta, message: str = "") -> None:
        asked = bounded_wait(_wait(wait))
        super().__init__(message or f"asked to be tried again in {asked / SECOND:g} s", type="RetryLater", retry_after=asked)


class GiveUp(Failure):
    """`raise GiveUp("no such customer")`: no further attempt can help; it goes to the dead letters at once."""

    type, retry = "GiveUp", False

    def __init__(self, message: str) -> None:
        super().__init__(message, type="GiveUp", retry=False)


# The same by the name of the place where it ends.
DeadLetter = GiveUp


class Snooze(Exception):
    """`raise Snooze("5m")`: not now. It is called again then, as if this attempt had never been: no failure, no cost."""

    def __init__(self, wait: str | float | timedelta) -> None:
        self.wait = bounded_wait(_wait(wait))
        super().__init__(f"snoozed for {self.wait / SECOND:g} s")


class Discard(Exception):
    """`raise Discard("the order is gone")`: there is nothing to do any more. It ends as CANCELLED, with the reason."""


class Died(Exception):
    """The process in which the handler ran has ended under it: `message` says how, `detail` is the end of what it printed."""

    def __init__(self, message: str, detail: str | None = None) -> None:
        super().__init__(message)
        self.detail = detail


def kinds_of(error: BaseException) -> tuple[str, ...]:
    """The names that retry rules look for: of the error's class and each base class, plain and qualified."""
    return (*_own_kinds(error), *names_of(error)) if issubclass(type(error), Failure) else tuple(names_of(error))


def _own_kinds(error: Any) -> list[str]:
    """What a failure says it is; a class of somebody else's may have made properties of that."""
    try:
        return [storable(kind) for kind in (error.type, *error.kinds)]
    except BaseException:
        return []


def _wait(wait: str | float | timedelta) -> Micros:
    """A negative number or timedelta is a wait of nothing; text that is no duration raises Invalid."""
    if isinstance(wait, timedelta):
        wait = wait.total_seconds()
    return parse_duration(min(max(wait, 0.0), LONGEST_WAIT / SECOND) if isinstance(wait, int | float) else wait, field="wait")
