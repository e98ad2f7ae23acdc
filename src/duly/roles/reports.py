"""What a worker reports: in parts that a message can hold, and what it says of attempts that it cannot run or cannot store."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from uuid import UUID

from duly.domain.errors import DulyError, Unavailable
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
# A report that fails for a reason that nobody foresaw is sent again for so long, so often: what has succeeded is not given up for a fault
# on the way. After that it is the report itself that is at fault.
PATIENCE: Micros = 5 * SECOND
AGAIN = 0.1


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
        # What failed to be reported for an unforeseen reason, and since when. They are sent one by one, after the others.
        self.doubtful: dict[ExecutionId, Instant] = {}
        self.refused = 0

    def forget(self) -> None:
        """The leases are lost, and all that was done under them."""
        self.held.clear()
        self.doubtful.clear()

    async def send(self, done: list[Finished], now: Instant) -> None:
        """Report what has ended; what ends meanwhile is reported the next time, after its own last lines. What could not be sent is
        done, and to be reported, as before; and all the while it is known."""
        self.sending = done
        try:
            if self._logs.has_ended or self._runners.running:
                await self._send_logs(done)
            if not self.doubtful and len(done) <= SMALL_REPORT:
                if done:
                    await self._send_part(done, now)
                return
            doubted = [item for item in done if item.id in self.doubtful] if self.doubtful else []
            sure = [item for item in done if item.id not in self.doubtful] if doubted else done
            calls = [(self._send_part, part) for part in (in_parts(sure) if sure else ())] + [(self._send_singly, doubted)]
            for nth, (send, part) in enumerate(calls):
                try:
                    await send(part, now)
                except BaseException:
                    self._runners.done += [item for _, later in calls[nth + 1 :] for item in later]
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
        # A Counter takes longer than all that it counts here.
        ended: dict[LeaseId, int] = {}
        for item in done:
            ended[item.lease] = ended.get(item.lease, 0) + 1
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

    async def _send_singly(self, done: list[Finished], now: Instant) -> None:
        """One attempt that cannot be stored must not hold up its neighbours."""
        for nth, item in enumerate(done):
            try:
                try:
                    await self._send([item], now)
                    self.doubtful.pop(item.id, None)
                except Unavailable:
                    raise
                except Exception as error:
                    await self._doubt(item, error, now)
            except BaseException:
                self._runners.done = done[nth + 1 :] + self._runners.done
                raise

    async def _doubt(self, item: Finished, error: Exception, now: Instant) -> None:
        """What the store has an answer to, or what has failed for long enough, is dead, and says why; anything else is sent again."""
        since = self.doubtful.setdefault(item.id, now)
        if not isinstance(error, DulyError) and now - since < PATIENCE:
            self._runners.done.append(item)
            return
        log.error("%s could not be reported and is given up: %r", item.id, error)
        try:
            await self._send([poisoned(item, error)], now)
            # Meanwhile the leases may have been lost, and everything forgotten.
            self.doubtful.pop(item.id, None)
        except Unavailable:
            raise
        except Exception:
            # Forgotten, it would be run again: nobody else knows that it has ended.
            self._runners.done.append(item)
            raise
