"""Carries handlers' log lines to the store while they run, and the last ones before their attempt is reported."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from duly.domain.errors import Unavailable
from duly.domain.execution import LeaseId, LogLine, WorkerId
from duly.domain.ids import ExecutionId
from duly.ports.handlers import Attempt
from duly.ports.store import Outcomes

log = logging.getLogger("duly.worker")

MOST_LINES = 2000
Line = tuple[LeaseId, ExecutionId, int, LogLine]


class LogPump:
    """Lines are kept under the lease, so they must leave before the finish closes it."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes
        self._ended: list[Attempt] = []

    def ended(self, attempt: Attempt) -> None:
        """The attempt has ended and may have lines left."""
        self._ended.append(attempt)

    def clear(self) -> None:
        """The leases are lost: nobody would keep these lines."""
        self._ended.clear()

    async def send(self, worker: WorkerId, running: Iterable[Attempt]) -> None:
        """Send what there is. What could not be sent is sent the next time."""
        lines: list[Line] = []
        taken: list[tuple[Attempt, int]] = []
        ended, self._ended = self._ended, []
        for attempt in (*running, *ended):
            # A thread may append while we read: what is past our count waits for the next time.
            count = 0 if attempt.logs is None else len(attempt.logs)
            if attempt.logs is not None and count > attempt.logs_sent:
                lines += [(attempt.fence, attempt.id, attempt.attempt, line) for line in attempt.logs[attempt.logs_sent : count]]
                taken.append((attempt, count))
        try:
            for start in range(0, len(lines), MOST_LINES):
                await self._outcomes.append_logs(worker, lines[start : start + MOST_LINES])
        except Unavailable:
            self._ended = ended + self._ended
            raise
        except Exception:
            # A line that cannot be kept must never hold up a result.
            log.exception("%d log lines could not be kept", len(lines))
        for attempt, count in taken:
            attempt.logs_sent = count
