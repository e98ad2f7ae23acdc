"""Aborted batches: what they have made and what has not started is cancelled, and nothing more comes of them.

Who aborts says so first and cancels then; who makes something for a batch looks after each commit whether it was aborted. So
whichever of the two comes last finds what the other has left, and no lock is held between them.
"""

from __future__ import annotations

from uuid import UUID

from duly.domain.access import Actor
from duly.domain.bulk import Match
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant
from duly.domain.lifecycle import State
from duly.ports.letters import Batch, Letters
from duly.usecases.executions import Executions

PAGE = 1000
WAITING = frozenset({State.SCHEDULED, State.BLOCKED, State.PENDING})


def is_aborted(batch: Batch) -> bool:
    """Whether nothing more may come of it."""
    return batch.about.get("abortedAt") is not None


async def cancel_waiting(letters: Letters, executions: Executions, actor: Actor, batch: UUID, now: Instant) -> None:
    """Cancel what a batch has made and what has not started. What runs goes on."""
    before: ExecutionId | None = None
    while True:
        page, before = await letters.candidates(actor.tenant, Match(batch=batch), WAITING, before, PAGE)
        waiting = [candidate for candidate in page if candidate.state in WAITING]
        await executions.cancel_each(actor, batch, waiting, now)
        if before is None:
            return


async def stop_if_aborted(letters: Letters, executions: Executions, actor: Actor, batch: UUID, now: Instant) -> bool:
    """To be asked after each commit that has made something for a batch: True when there is no going on."""
    found = await letters.batch(actor.tenant, batch)
    if found is None or not is_aborted(found):
        return False
    await cancel_waiting(letters, executions, actor, batch, now)
    return True
