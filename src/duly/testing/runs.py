"""What a test sees of an execution: read from the store whenever it is looked at, so it is never out of date."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from duly.domain.execution import Attempt, Execution, LogLine
from duly.domain.ids import ExecutionId, execution_text
from duly.domain.instants import Instant, to_datetime

if TYPE_CHECKING:
    from duly.testing.world import World

MOST_LOG_LINES = 10_000


@dataclass(frozen=True, slots=True)
class AttemptSeen:
    """One try of an execution. `outcome` is None while it runs; `resumed_from` is the checkpoint it began with."""

    number: int
    outcome: str | None
    error: Any
    started_at: datetime | None
    finished_at: datetime | None
    retry_at: datetime | None
    resumed_from: Any

    @property
    def ran_for(self) -> timedelta | None:
        """How long it took; None while it runs."""
        return None if self.started_at is None or self.finished_at is None else self.finished_at - self.started_at


class Run:
    """One execution of a job in a test."""

    __slots__ = ("_id", "_world")

    def __init__(self, world: World, id: ExecutionId) -> None:
        self._world = world
        self._id = id

    def __repr__(self) -> str:
        seen = self._seen
        return f"<Run {self.id} of {seen.job_name}: {self.state}, attempt {seen.attempt} of {seen.max_attempts}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other._id == self._id

    def __hash__(self) -> int:
        return hash(self._id)

    @property
    def _seen(self) -> Execution:
        return self._world.execution(self._id)

    @property
    def id(self) -> str:
        """`run_…`."""
        return execution_text(self._id)

    @property
    def job(self) -> str:
        """The name of its job."""
        return self._seen.job_name

    @property
    def state(self) -> str:
        """scheduled, blocked, pending, running, succeeded, dead, cancelled or skipped."""
        return self._seen.state.name.lower()

    @property
    def payload(self) -> Any:
        """Its arguments."""
        return _decoded(self._seen.payload)

    @property
    def result(self) -> Any:
        """What its handler returned."""
        return _decoded(self._seen.result)

    @property
    def error(self) -> Any:
        """Why it did not succeed, with `type` and `message`; None when it did."""
        return _decoded(self._seen.error)

    @property
    def skipped_because(self) -> str | None:
        """Of a fire that was skipped: overlap, misfire, asked, step or dependency."""
        skip = self._seen.skip
        return None if skip is None else skip.name.lower()

    @property
    def attempts(self) -> int:
        """How often it was tried so far, the running attempt included."""
        return len(self._world.attempts(self._id))

    def attempt(self, number: int) -> AttemptSeen:
        """One of its attempts, from 1. Raises LookupError, saying what there is, for another one."""
        found = self._world.attempts(self._id)
        for one in found:
            if one.attempt == number:
                return self._attempt(one)
        told = ", ".join(f"{one.attempt} ({'running' if one.outcome is None else one.outcome.name.lower()})" for one in found) or "none"
        raise LookupError(f"{self!r} has no attempt {number}; there are: {told}.{self._world.why_not_killed(self._id)}")

    def _attempt(self, one: Attempt) -> AttemptSeen:
        return AttemptSeen(
            one.attempt,
            None if one.outcome is None else one.outcome.name.lower(),
            _decoded(one.error),
            _moment(one.started_at),
            _moment(one.finished_at),
            _moment(one.retry_at),
            self._world.resumed_from(self._id, one.attempt),
        )

    @property
    def scheduled_at(self) -> datetime:
        """The time it stands for: of a fire, that of the schedule."""
        seen = self._seen
        return to_datetime(seen.due_at if seen.scheduled_at is None else seen.scheduled_at)

    @property
    def due_at(self) -> datetime:
        """When it was due first."""
        return to_datetime(self._seen.due_at)

    @property
    def next_attempt_at(self) -> datetime | None:
        """When it is tried next, if it waits for that."""
        return _moment(self._seen.next_attempt_at)

    @property
    def started_at(self) -> datetime | None:
        """When its last attempt began."""
        return _moment(self._seen.started_at)

    @property
    def finished_at(self) -> datetime | None:
        """When it ended."""
        return _moment(self._seen.finished_at)

    @property
    def logs(self) -> list[LogLine]:
        """What its handler has logged, over all attempts."""
        return self._world.logs(self._id)

    @property
    def checkpoint(self) -> Any:
        """What its last checkpoint saved; None when there is none."""
        return self._world.checkpoint(self._id)

    def cancel(self) -> None:
        """Ask it to stop, as `duly run cancel` does."""
        self._world.cancel(self._id)


def _decoded(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)


def _moment(at: Instant | None) -> datetime | None:
    return None if at is None else to_datetime(at)
