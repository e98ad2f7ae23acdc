"""What the simulated workers run: handlers that obey the payload, and write down what they really did.

The payload says how: `for` seconds of work, `fail` per cent of attempts, `give_up`, `snooze`, `checkpoints`, `stubborn`
(does not stop when asked). Each writes its start and its end, and one effect to a sink that keeps the highest fence.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from duly.domain.errors import LeaseLost
from duly.domain.ids import execution_text, job_text
from duly.ports.endings import Failure, GiveUp, Snooze
from duly.ports.handlers import Attempt, Handler, Registry
from duly.sdk.context import Context
from duly.testing.clocks import StoreClock
from duly.testing.loop import NODE, SimulatedLoop
from duly.verify.history import Effect


@dataclass(slots=True)
class Outside:
    """The world that the jobs act on: the log of what happened, and the sink that refuses a lower fence than it has seen."""

    loop: SimulatedLoop
    clock: StoreClock
    chance: random.Random
    effects: list[Effect] = field(default_factory=list)
    highest: dict[str, int] = field(default_factory=dict)

    def note(self, attempt: Attempt, phase: Any, *, accepted: bool | None = None, checkpoint: int | None = None) -> None:
        self.effects.append(
            Effect(
                phase=phase,
                at=self.clock.now(),
                job=job_text(attempt.version.job_id),
                run=execution_text(attempt.id),
                attempt=attempt.attempt,
                fence=attempt.fence,
                nominal=attempt.scheduled_at,
                node=NODE.get().name,
                accepted=accepted,
                checkpoint=checkpoint,
            )
        )

    def act(self, attempt: Attempt) -> bool:
        """The effect, if nobody with a higher fence was here before."""
        run = execution_text(attempt.id)
        accepted = attempt.fence >= self.highest.get(run, 0)
        if accepted:
            self.highest[run] = attempt.fence
        self.note(attempt, "effect", accepted=accepted)
        return accepted


def registry_of(outside: Outside) -> Registry:
    """The handlers of one worker."""

    async def work(attempt: Attempt) -> Any:
        return await _run(outside, attempt)

    async def work_many(attempts: Sequence[Attempt]) -> Any:
        for attempt in attempts:
            outside.note(attempt, "start")
        await asyncio.sleep(_payload(attempts[0]).get("for", 0))
        results: list[Any] = []
        for attempt in attempts:
            fails = outside.chance.random() * 100 < _payload(attempt).get("fail", 0)
            if not fails:
                outside.act(attempt)
            outside.note(attempt, "end")
            results.append(Failure("drawn") if fails else None)
        return results

    async def work_one(attempt: Attempt) -> Any:
        return (await work_many([attempt]))[0]

    registry = Registry()
    registry.add(Handler("work", work))
    registry.add(Handler("gather", work_one, run_many=work_many, batch=4))
    return registry


def _payload(attempt: Attempt) -> dict[str, Any]:
    return attempt.payload if isinstance(attempt.payload, dict) else {}


async def _run(outside: Outside, attempt: Attempt) -> Any:
    payload = _payload(attempt)
    context = Context(attempt)
    kept = attempt.kept
    outside.note(attempt, "start", checkpoint=None if kept is None else kept.number)
    try:
        if seconds := payload.get("for"):
            await _take(outside, context, seconds, payload)
        if "snooze" in payload and attempt.attempt <= payload["snooze"]:
            raise Snooze(1.0)
        if outside.chance.random() * 100 < payload.get("fail", 0):
            raise GiveUp("drawn") if payload.get("give_up") else Failure("drawn")
        outside.act(attempt)
        if "list" in payload:
            return list(range(payload["list"]))
        return {"node": NODE.get().name} if payload.get("result") else None
    finally:
        if not outside.loop.is_over:
            outside.note(attempt, "end")


async def _take(outside: Outside, context: Context, seconds: float, payload: dict[str, Any]) -> None:
    parts = payload.get("checkpoints", 0)
    until = outside.loop.now + seconds
    for nth in range(parts):
        await asyncio.sleep(seconds / (parts + 1))
        context.progress(nth, parts)
        try:
            await context.checkpoint({"part": nth})
        except LeaseLost:
            return
    while outside.loop.now < until:
        try:
            await asyncio.sleep(until - outside.loop.now)
        except asyncio.CancelledError:
            if not payload.get("stubborn") or outside.loop.is_over:
                raise
