"""What a worker reports: in parts that a message can hold, and what it says of attempts that it cannot run or cannot store."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from duly.domain.errors import Unavailable
from duly.domain.execution import Finished, LeaseId, WorkerId
from duly.domain.ids import ExecutionId
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.lifecycle import Outcome, State
from duly.ports.store import Outcomes
from duly.roles.log_pump import LogPump
from duly.roles.runners import Runners

log = logging.getLogger("duly.worker")

# A version that this release cannot read belongs to a newer worker: back to the queue, for a while.
UNREADABLE_WAIT: Micros = 10 * SECOND
# A message to the store holds a gigabyte at most. So many results of any size fit into one; more of them only if they are small.
SMALL_REPORT = 64
LARGEST_REPORT = 1 << 26


def in_parts(done: list[Finished]) -> list[list[Finished]]:
    """A report as one call, or as several where its results are large: what no message can hold would never be accepted."""
    if len(done) <= SMALL_REPORT or sum(len(item.result) for item in done if item.result is not None) <= LARGEST_REPORT:
        return [done]
    return [done[at : at + SMALL_REPORT] for at in range(0, len(done), SMALL_REPORT)]


def released(id: ExecutionId, lease: LeaseId, now: Instant, *, holds_place: bool) -> Finished:
    """Back, with whatever it holds of its limits: it would wait for itself."""
    return Finished(id, lease, Outcome.RELEASED, State.SCHEDULED, now, now, UUID(int=0), 0, holds_place, retry_at=now + UNREADABLE_WAIT)


def poisoned(item: Finished, error: Exception) -> Finished:
    told = f'{{"type":"NotStored","message":"its outcome could not be stored ({type(error).__name__})"}}'
    return replace(item, outcome=Outcome.FAILED, state=State.DEAD, result=None, error=told, retry_at=None)


class Reports:
    """How one worker reports. Whatever happens, nothing is forgotten: an unknown finish is sent again, and counts once."""

    def __init__(self, worker: WorkerId, outcomes: Outcomes, runners: Runners, logs: LogPump) -> None:
        self._worker = worker
        self._outcomes = outcomes
        self._runners = runners
        self._logs = logs
        # How many attempts of each lease are not reported yet: who reports the last one gives the lease back.
        self.held: dict[LeaseId, int] = {}
        # What is on its way.
        self.sending: list[Finished] = []
        self.refused = 0

    async def send(self, done: list[Finished], now: Instant) -> None:
        """Report what has ended; what ends meanwhile is reported the next time, after its own last lines. What could not be sent is
        done, and to be reported, as before; and all the while it is known."""
        self.sending = done
        try:
            await self._send_logs(done)
            for nth, part in enumerate(parts := in_parts(done) if done else []):
                try:
                    await self._send_part(part, now)
                except BaseException:
                    self._runners.done += [item for later in parts[nth + 1 :] for item in later]
                    raise
        finally:
            self.sending = []

    async def _send_logs(self, done: list[Finished]) -> None:
        try:
            await self._logs.send(self._worker, self._runners.speaking())
        except BaseException:
            self._runners.done = done + self._runners.done
            raise

    async def _send_part(self, done: list[Finished], now: Instant) -> None:
        try:
            await self._send(done, now)
        except Unavailable:
            raise
        except Exception:
            log.exception("a finish of %d attempts failed; they are reported one by one", len(done))
            await self._send_singly(done, now)

    async def _send(self, done: list[Finished], now: Instant) -> None:
        ended = Counter([item.lease for item in done])
        closing = [lease for lease, count in ended.items() if self.held.get(lease, 0) <= count]
        try:
            refused = await self._outcomes.finish(self._worker, done, closing, now)
        except BaseException as error:
            if isinstance(error, Unavailable | asyncio.CancelledError):
                self._runners.done = done + self._runners.done
            raise
        for lease, count in ended.items():
            self.held[lease] = self.held.get(lease, 0) - count
        for lease in closing:
            self.held.pop(lease, None)
        if refused:
            self.refused += len(refused)
            log.warning("the store refused %d finished attempts: their leases were lost", len(refused))

    async def _send_singly(self, done: Sequence[Finished], now: Instant) -> None:
        """One attempt that cannot be stored must not take its neighbours down: it is dead, and says why."""
        for nth, item in enumerate(done):
            try:
                try:
                    await self._send([item], now)
                except Unavailable:
                    raise
                except Exception as error:
                    await self._send([poisoned(item, error)], now)
            except BaseException:
                self._runners.done = list(done[nth + 1 :]) + self._runners.done
                raise
