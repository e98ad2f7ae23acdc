"""Carries log lines and progress of handlers to the store while they run, and the last of both before their attempt is reported."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from duly.domain.errors import Unavailable
from duly.domain.execution import LeaseId, LogLine, WorkerId
from duly.domain.ids import ExecutionId
from duly.ports.clock import Clock
from duly.ports.handlers import Attempt
from duly.ports.store import Checkpoints, Outcomes

log = logging.getLogger("duly.worker")

MOST_LINES = 2000
Line = tuple[LeaseId, ExecutionId, int, LogLine]


class LogPump:
    """Both are kept under the lease, so they must leave before the finish closes it."""

    def __init__(self, outcomes: Outcomes, checkpoints: Checkpoints, clock: Clock) -> None:
        self._outcomes = outcomes
        self._checkpoints = checkpoints
        self._clock = clock
        self._ended: list[Attempt] = []

    def ended(self, attempt: Attempt) -> None:
        """The attempt has ended and may have something left to send."""
        attempt.close_log()
        self._ended.append(attempt)

    @property
    def has_ended(self) -> bool:
        """Whether an attempt that has ended may have something left to send."""
        return bool(self._ended)

    def clear(self) -> None:
        """The leases are lost: nobody would keep what is left."""
        self._ended.clear()

    async def send(self, worker: WorkerId, running: Iterable[Attempt]) -> None:
        """Send what there is. What could not be sent is sent the next time."""
        ended, self._ended = self._ended, []
        speaking = [*running, *ended]
        if not speaking:
            return
        try:
            await self._send_lines(worker, speaking)
            await self._send_progress(worker, speaking)
        except BaseException:
            self._ended = ended + self._ended
            raise

    async def _send_lines(self, worker: WorkerId, speaking: Sequence[Attempt]) -> None:
        lines: list[Line] = []
        taken: list[tuple[Attempt, int]] = []
        for attempt in speaking:
            # A thread may append while we read: what is past our count waits for the next time.
            logs, sent = attempt.logs, attempt.extras.logs_sent
            count = len(logs)
            if count > sent:
                lines += [(attempt.fence, attempt.id, attempt.attempt, line) for line in logs[sent:count]]
                taken.append((attempt, count))
        try:
            for start in range(0, len(lines), MOST_LINES):
                await self._outcomes.append_logs(worker, lines[start : start + MOST_LINES])
        except Unavailable:
            raise
        except Exception:
            # A line that cannot be kept must never hold up a result.
            log.exception("%d log lines could not be kept", len(lines))
        for attempt, count in taken:
            attempt.extras.logs_sent = count

    async def _send_progress(self, worker: WorkerId, speaking: Sequence[Attempt]) -> None:
        """Only the latest of each: what was told in between is of no use to anybody."""
        told = [(attempt, progress) for attempt in speaking if (progress := attempt.extras.progress) is not None]
        if not told:
            return
        try:
            reports = [(attempt.fence, attempt.id, progress) for attempt, progress in told]
            await self._checkpoints.report(worker, reports, self._clock.now())
        except Unavailable:
            raise
        except Exception:
            log.exception("the progress of %d attempts could not be kept", len(told))
        for attempt, progress in told:
            if attempt.extras.progress is progress:
                attempt.extras.progress = None
