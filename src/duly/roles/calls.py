"""One call of a handler, while it runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec

from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant, Micros
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt
from duly.roles.plans import Plan

LARGEST_RESULT = 1 << 20


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
    """What a runner calls now: a handler with one attempt, or with those of a batch. One for each runner, which makes one call at a time.

    `limit` is boottime; most calls never need a `stopping`.
    """

    __slots__ = ("attempts", "limit", "plan", "stopping", "task")

    plan: Plan

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.attempts: tuple[Attempt, ...] = ()
        self.limit: Micros | None = None
        self.stopping: Stopping | None = None

    def begin(self, attempts: tuple[Attempt, ...], plan: Plan) -> None:
        """The next call."""
        self.attempts = attempts
        self.plan = plan
        self.limit = self.stopping = None

    def limit_it(self, now: Instant, boottime: Micros) -> None:
        """When it is stopped: at the attempt's own limit, or when the time for all attempts is over, whichever comes first."""
        limits = [] if self.plan.timeout is None else [self.plan.timeout]
        if self.plan.execution_timeout is not None:
            limits += [attempt.due_at + self.plan.execution_timeout - now for attempt in self.attempts]
        if limits:
            self.limit = boottime + min(limits)
            for attempt in self.attempts:
                attempt.deadline = now + min(limits)

    def listen(self, now: Micros) -> None:
        """Note whether it has been heard of, where silence would end it."""
        if self.plan.heartbeat_timeout is None:
            return
        watched, beats = self.watched(), sum(attempt.extras.beats for attempt in self.attempts)
        if watched.heard_at is None or beats != watched.beats:
            watched.heard_at, watched.beats = now, beats

    @property
    def next_limit(self) -> Micros | None:
        """When it has to be looked at: at its limit, at the end of a silence, or when what was asked to stop is ended."""
        stopping, silence = self.stopping, self.plan.heartbeat_timeout
        if stopping is not None and stopping.is_asked:
            return stopping.kill_at
        if silence is None:
            return self.limit
        heard = None if stopping is None else stopping.heard_at
        spoken = 0 if heard is None else heard + silence
        return spoken if self.limit is None else min(self.limit, spoken)

    def watched(self) -> Stopping:
        """Its `stopping`, made when it is first needed."""
        if self.stopping is None:
            self.stopping = Stopping()
        return self.stopping


def encoded_result(attempt: Attempt, result: Any) -> str:
    """What a handler returned, as it is kept."""
    encoded = msgspec.json.encode(result).decode()
    if not attempt.is_plain:
        encoded = attempt.hidden_json(encoded)
    if len(encoded) > LARGEST_RESULT:
        told = f"the result has {len(encoded):,} characters; at most {LARGEST_RESULT:,} are kept"
        raise Failure(told, type="ResultTooLarge", retry=False)
    return encoded


def one_each(results: Any, count: int) -> Sequence[Any]:
    """What a batch handler returned, as one result for each."""
    if results is None:
        return [None] * count
    # A copy: a list of somebody's own may be another one at every look.
    found = list(results) if isinstance(results, list | tuple) else None
    if found is None or len(found) != count:
        got = f"a {type(results).__name__}" if found is None else f"{len(found)} results"
        raise Failure(f"the handler returned {got} for {count} executions; it returns a list of one each, or None", type="WrongResults")
    return found


def is_closed_from_outside(task: asyncio.Task[None]) -> bool:
    """Whether somebody else closes what this task runs: then it must end at once. A GeneratorExit while it runs is its handler's."""
    return asyncio.current_task(task.get_loop()) is not task


async def swallow_cancel(me: asyncio.Task[None]) -> None:
    """Take back every cancel of this task that has been asked for: whom it was meant for has ended."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    while me.cancelling():
        me.uncancel()
