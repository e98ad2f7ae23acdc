"""What was claimed, as attempts that can be run: with its job's plan, and with what earlier attempts have left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from duly.domain.execution import Claimed, Finished
from duly.domain.secrets import has_marks
from duly.ports.clock import Clock
from duly.ports.handlers import Attempt, Kept
from duly.ports.store import Outcomes
from duly.roles.ancestry import Ancestors
from duly.roles.keeper import CheckpointKeeper
from duly.roles.plans import Plan, Plans
from duly.roles.reports import released


class Arrivals:
    """One worker's."""

    def __init__(self, name: str, plans: Plans, keeper: CheckpointKeeper, ancestors: Ancestors, outcomes: Outcomes, clock: Clock) -> None:
        self._name = name
        self._plans = plans
        self._keeper = keeper
        self._ancestors = ancestors
        self._outcomes = outcomes
        self._clock = clock

    async def of(self, claimed: Claimed) -> tuple[list[Finished], list[tuple[Attempt, Plan]]]:
        """What goes back because this release cannot read its job, and what can be run."""
        plans = await self._plans.of(claimed.job_versions, self._clock.boottime())
        lease, clock, name, keeper, marked = claimed.lease, self._clock.now, self._name, self._keeper.keep, claimed.marked
        rows = zip(
            claimed.ids,
            claimed.attempts,
            claimed.failures,
            claimed.job_versions,
            claimed.due_ats,
            claimed.holds_place,
            claimed.payloads,
            claimed.scheduled_ats,
            strict=True,
        )
        unreadable: list[Finished] = []
        readable: list[tuple[Attempt, Plan]] = []
        for id, attempt, failures, number, due_at, holds_place, payload, scheduled_at in rows:
            plan = plans.get(number)
            if plan is None:
                unreadable.append(released(id, lease, self._clock.now(), holds_place=holds_place))
            else:
                made = Attempt(id, attempt, failures, lease, due_at, plan.version, payload, clock, name, holds_place, keeper)
                if scheduled_at != due_at:
                    made.nominal_at = scheduled_at
                if marked and has_marks(payload):
                    made.marked = True
                if plan.is_step:
                    self._ancestors.attach(made)
                readable.append((made, plan))
        if claimed.traces:
            there = [nth for nth, number in enumerate(claimed.job_versions) if number in plans] if unreadable else None
            _trace(readable, claimed.traces if there is None else [at for at, nth in enumerate(there) if nth in claimed.traces])
        if max(claimed.attempts) > 1:
            await self._remember([(attempt, plan) for attempt, plan in readable if attempt.attempt > 1])
        return unreadable, readable

    async def _remember(self, again: Sequence[tuple[Attempt, Plan]]) -> None:
        """What earlier attempts have left: the last checkpoint, and how many of their processes died."""
        saved = await self._keeper.saved([attempt.id for attempt, _ in again])
        for attempt, plan in again:
            if (last := saved.get(attempt.id)) is not None and last.number:
                attempt.extras.kept = Kept(last.number, last.checkpoint)
            if plan.may_die:
                attempt.extras.losses = await self._outcomes.losses(attempt.id)


def _trace(readable: list[tuple[Attempt, Plan]], places: Iterable[int]) -> None:
    """Those at these places are traced, and run by another plan: the others, mostly all of them, are called as if nobody was."""
    for nth in places:
        attempt, plan = readable[nth]
        if plan.traced is not None:
            readable[nth] = attempt, plan.traced
