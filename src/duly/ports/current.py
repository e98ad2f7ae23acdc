"""Which attempt's handler runs here: for whoever hears it speak without being called by it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from duly.domain.ids import execution_text
from duly.ports.handlers import Attempt


class Speaker(Protocol):
    """What a handler was given: it stands for an attempt."""

    @property
    def speaks_for(self) -> Attempt:
        """Whose log gets what the handler says."""


# Set as a handler begins, by whoever calls it. A runner's own task keeps it until its next handler begins, so what Duly itself says
# there is not the handler's: whoever listens leaves the loggers of Duly out, and attempts whose end was reported.
speaker: ContextVar[Speaker | None] = ContextVar("duly_current", default=None)


def current_attempt() -> Attempt | None:
    """The attempt whose handler runs in this context; None outside of one."""
    found = speaker.get()
    return None if found is None else found.speaks_for


def about_attempt(attempt: Attempt) -> dict[str, object]:
    """What a record of Duly's own about an attempt is given as `extra`: lines for machines show it."""
    return {"execution_id": execution_text(attempt.id), "attempt": attempt.attempt, "job": attempt.version.spec.name}


# The request that is being answered here, for whatever is logged meanwhile.
request_id: ContextVar[str | None] = ContextVar("duly_request", default=None)
