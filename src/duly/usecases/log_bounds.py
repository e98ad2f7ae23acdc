"""How much is kept of what an attempt logs over HTTP: the same as of any other, whoever wrote its worker.

What there is already is counted in the store when an attempt is first heard of, and again now and then: other servers may take
lines of it too. Each of them may be that far over, and no further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from json import dumps

from duly.domain.execution import LeaseId, LogLine
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant
from duly.domain.logs import MOST_BYTES, MOST_LINES, Allowance, dropped_words, limit_words
from duly.ports.logs import Logs

Line = tuple[LeaseId, ExecutionId, int, LogLine]

# Attempts that are remembered, and lines after which they are counted anew.
REMEMBERED = 10_000
COUNTED_EVERY = 500


@dataclass(slots=True)
class _Known:
    allowance: Allowance
    # Lines that were let through since the store was asked.
    since: int = 0


class LogBounds:
    """What each attempt may still log, as far as this server knows."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._known: dict[tuple[LeaseId, ExecutionId], _Known] = {}

    async def admit(self, lines: Sequence[Line]) -> tuple[list[Line], int]:
        """The lines that are kept, with one more where the rest begins that is not, and how many are not."""
        kept: list[Line] = []
        dropped = 0
        for lease, id, attempt, line in lines:
            known = await self._of(lease, id, attempt)
            known.since += 1
            if known.allowance.take(len(line.message) + (len(dumps(line.fields)) if line.fields else 0)):
                kept.append((lease, id, attempt, line))
                continue
            dropped += 1
            if known.allowance.dropped_lines == 1 and known.allowance.lines_left > -1:
                kept.append((lease, id, attempt, LogLine(line.at, "warning", limit_words(), {})))
        return kept, dropped

    def last_words(self, ended: Sequence[tuple[LeaseId, ExecutionId, int]], now: Instant) -> list[Line]:
        """What the logs of attempts that end say of what was not kept of them here; they are forgotten."""
        words: list[Line] = []
        for lease, id, attempt in ended if self._known else ():
            known = self._known.pop((lease, id), None)
            if known is not None and known.allowance.dropped_lines:
                said = dropped_words(known.allowance.dropped_lines, known.allowance.dropped_bytes)
                words.append((lease, id, attempt, LogLine(now, "warning", said, {})))
        return words

    async def _of(self, lease: LeaseId, id: ExecutionId, attempt: int) -> _Known:
        known = self._known.get((lease, id))
        if known is not None and (known.since < COUNTED_EVERY or known.allowance.dropped_lines):
            return known
        lines, size = await self._logs.volume(id, attempt)
        while len(self._known) >= REMEMBERED:
            del self._known[next(iter(self._known))]
        # Below nothing: somebody has said already that the rest is not kept.
        fresh = _Known(Allowance(max(MOST_LINES - lines, -1), max(MOST_BYTES - size, 0)))
        self._known[lease, id] = fresh
        return fresh
