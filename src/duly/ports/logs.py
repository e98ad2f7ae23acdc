"""Looking through log lines: bounded, whatever is looked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from duly.domain.execution import LogLine
from duly.domain.ids import ExecutionId, JobId
from duly.domain.logs import LogFilter

# One call looks at no more lines than that, and at no more executions of a job; its answer says where to go on.
LINES_AT_ONCE = 20_000
EXECUTIONS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A line, where it stands in its store, and of which attempt it is."""

    execution: ExecutionId
    sequence: int
    attempt: int
    line: LogLine


# After this line of this execution; 0: with the executions that are older than it.
Place = tuple[ExecutionId, int]


class Logs(Protocol):
    """What the store offers to those who look through log lines. There is no index of words: a search is a bounded scan along a key."""

    async def of_execution(
        self, tenant: int, id: ExecutionId, wanted: LogFilter, after: int, limit: int
    ) -> tuple[list[FoundLine], int | None]:
        """Lines past the sequence number `after`, in order, and the number that was come to; None: there are no more."""

    async def of_job(
        self, tenant: int, job: JobId, wanted: LogFilter, after: Place | None, oldest: ExecutionId, limit: int
    ) -> tuple[list[FoundLine], Place | None]:
        """Lines of the job's executions, newest first and each in order, down to `oldest`, and where to go on; None: that is all."""

    async def volume(self, id: ExecutionId, attempt: int) -> tuple[int, int]:
        """How many lines are kept of an attempt, and how many bytes of text they have."""
