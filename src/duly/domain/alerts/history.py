"""How often a rule would have fired: the same judgement, over what is recorded, at every instant at which something changed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from duly.domain.alerts.evaluate import Incident, Phase, evaluate
from duly.domain.alerts.facts import Facts, Run, Watched
from duly.domain.alerts.judge import readings
from duly.domain.alerts.rule import DEFAULT_AFTER, GroupBy, Kind, Rule
from duly.domain.expected import Expected
from duly.domain.fire_audit import Missed
from duly.domain.instants import MINUTE, SECOND, Instant, Micros
from duly.domain.lifecycle import State

# So many runs before an instant are looked at, and so many instants of one job.
SEEN_AT_ONCE = 60
MOST_INSTANTS = 4000
# Of these the store keeps no history to judge them by.
NOT_RECORDED = frozenset({Kind.POOL_SATURATED, Kind.WORKER_GONE, Kind.STORE_UNHEALTHY, Kind.DEAD_LETTERS})


@dataclass(frozen=True, slots=True)
class Would:
    """An incident that there would have been. `until` None: it would be open now."""

    since: Instant
    until: Instant | None
    title: str


def replay(
    rule: Rule,
    job: Watched,
    runs: Sequence[Run],
    expected: Expected | None,
    first: Instant,
    now: Instant,
    missed: Sequence[Missed] = (),
) -> list[Would]:
    """The incidents that this rule would have had about a job since `first`. Each job for itself, whatever the rule groups by.

    `missed` are fires of it that the auditor has not found.
    """
    rule = replace(rule, group_by=GroupBy.JOB)
    ordered = sorted(runs, key=lambda run: run.due_at)
    dues = [run.due_at for run in ordered]
    found: list[Would] = []
    live: Incident | None = None
    names = _numbers()
    for at in _instants(rule, ordered, expected, [item.found_at for item in missed], first, now):
        until = bisect_right(dues, at)
        then = [seen for run in ordered[max(0, until - SEEN_AT_ONCE) : until] if (seen := _as_of(run, at)) is not None]
        lacking = [item for item in missed if item.found_at <= at and (item.resolved_at is None or at < item.resolved_at)]
        facts = Facts([job], {job.id: then}, {} if expected is None else {job.id: expected}, lacking, since=first)
        for reading in readings(rule, facts, at):
            move = evaluate(rule, 0, reading, live, at, None, lambda: UUID(int=next(names)))
            if move is None:
                continue
            live = move.after
            if live is not None and live.phase is Phase.RESOLVED:
                found.append(Would(live.since, live.resolved_at, live.about.title))
    if live is not None and live.phase is Phase.OPEN:
        found.append(Would(live.since, None, live.about.title))
    return found


def _numbers() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


def _instants(
    rule: Rule, runs: Sequence[Run], expected: Expected | None, found: Sequence[Instant], first: Instant, now: Instant
) -> list[Instant]:
    """When the verdict may have changed: at starts and ends, and when a patience ran out; the grace and the recovery after each."""
    patience = _patience(rule, expected)
    changes: set[Instant] = {now, *found, *(at + rule.grace + 1 for at in found)}
    for run in runs:
        for at in (run.started_at, run.finished_at):
            if at is not None:
                changes |= {at, at + rule.grace + 1, at + rule.recovery.after + 1}
        if patience is not None:
            for begin in (run.due_at, run.running_since, run.finished_at):
                if begin is not None:
                    changes |= {begin + patience + 1, begin + patience + rule.grace + 1}
    return sorted(at for at in changes if first < at <= now)[-MOST_INSTANTS:]


def _patience(rule: Rule, expected: Expected | None) -> Micros | None:
    if rule.condition.after is not None:
        return rule.condition.after
    if rule.kind is Kind.OVERRUN and expected is not None:
        return max(round(expected.p95 * rule.condition.factor), 10 * SECOND)
    return DEFAULT_AFTER.get(rule.kind, MINUTE if rule.kind is Kind.FAILURE_RATE else None)


def _as_of(run: Run, at: Instant) -> Run | None:
    """The run as it was then."""
    if run.skip is not None:
        return run if run.due_at <= at else None
    if run.finished_at is not None and run.finished_at <= at:
        return run
    if run.started_at is not None and run.started_at <= at:
        return replace(run, state=State.RUNNING, finished_at=None, error=None)
    return replace(run, state=State.PENDING, started_at=None, running_since=None, finished_at=None, error=None)
