"""One call of a handler, while it runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from duly.domain.ids import ExecutionId
from duly.domain.instants import Micros
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt
from duly.roles.plans import Plan


class Stopping:
    """What a call is watched for, and how far its stop has come. Times are boottime: a step of the clock must not end anybody."""

    __slots__ = ("beats", "heard_at", "is_asked", "is_ended", "kill_at", "kills", "note", "why")

    def __init__(self) -> None:
        self.heard_at: Micros | None = None
        self.beats = 0
        # Whether it was asked to stop, why a limit did it, when asking ends, whether it has, and what came of it.
        self.is_asked = False
        self.why: str | None = None
        self.kill_at: Micros | None = None
        self.is_ended = False
        self.note: str | None = None
        # Members of a batch that were asked to stop while the others go on.
        self.kills: dict[ExecutionId, Micros] = {}


class Running:
    """One call of a handler: with one attempt, or with those of a batch. `limit` is boottime; most calls never need a `stopping`."""

    __slots__ = ("attempts", "limit", "plan", "stopping", "task")

    def __init__(self, attempts: tuple[Attempt, ...], plan: Plan, task: asyncio.Task[None], limit: Micros | None) -> None:
        self.attempts = attempts
        self.plan = plan
        self.task = task
        self.limit = limit
        self.stopping: Stopping | None = None

    def watched(self) -> Stopping:
        """Its `stopping`, made when it is first needed."""
        if self.stopping is None:
            self.stopping = Stopping()
        return self.stopping


def one_each(results: Any, count: int) -> Sequence[Any]:
    """What a batch handler returned, as one result for each."""
    if results is None:
        return [None] * count
    if not isinstance(results, list | tuple) or len(results) != count:
        got = f"{len(results)} results" if isinstance(results, list | tuple) else f"a {type(results).__name__}"
        raise Failure(f"the handler returned {got} for {count} executions; it returns a list of one each, or None", type="WrongResults")
    return results


async def swallow_cancel(me: asyncio.Task[None]) -> None:
    """Take back every cancel of this task that has been asked for: whom it was meant for has ended."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    while me.cancelling():
        me.uncancel()
