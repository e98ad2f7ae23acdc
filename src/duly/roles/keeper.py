"""Keeps checkpoints for the handlers of one worker, and gives the next attempt the last one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future

from duly.domain.errors import LeaseLost, Unavailable
from duly.domain.execution import Saved
from duly.domain.ids import ExecutionId, execution_text
from duly.ports.clock import Clock
from duly.ports.handlers import Attempt, Kept
from duly.ports.store import Checkpoints
from duly.roles.heartbeat import Heartbeat

# While the store is away a checkpoint is sent again and again, as long as the worker trusts its lease.
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0


class CheckpointKeeper:
    """Made on the worker's event loop; handlers call it from wherever they run."""

    def __init__(self, checkpoints: Checkpoints, heartbeat: Heartbeat, clock: Clock) -> None:
        self._checkpoints = checkpoints
        self._heartbeat = heartbeat
        self._clock = clock
        self._loop = asyncio.get_running_loop()

    def keep(self, attempt: Attempt, data: str) -> Future[None]:
        """Save a checkpoint under the attempt's lease. The future is done when it is committed, or refused (LeaseLost)."""
        return asyncio.run_coroutine_threadsafe(self._keep(attempt, data), self._loop)

    async def saved(self, ids: Sequence[ExecutionId]) -> dict[ExecutionId, Saved]:
        """The last checkpoints of these executions; those that have none are left out."""
        return await self._checkpoints.saved(ids)

    async def _keep(self, attempt: Attempt, data: str) -> None:
        kept = attempt.extras.kept = attempt.kept or Kept()
        async with kept.writing:
            # Used up whatever comes of it: a handler that did not wait for the answer may have it committed, and its number with other
            # data is refused.
            number = kept.number = kept.number + 1
            if not await self._save(attempt, number, data):
                raise LeaseLost.of(execution_text(attempt.id))
            kept.data = data

    async def _save(self, attempt: Attempt, number: int, data: str) -> bool:
        worker, pause = self._heartbeat.worker, FIRST_PAUSE
        while not attempt.over and self._heartbeat.is_trusted:
            try:
                return await self._checkpoints.save(worker, attempt.fence, attempt.id, number, data, self._clock.now())
            except Unavailable:
                # Whether it was written is not known: the same number again is accepted either way.
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
        return False
