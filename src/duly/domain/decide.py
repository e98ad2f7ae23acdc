"""Decisions: values in, one value out. Time and chance are arguments; nothing here reads or writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from json import dumps, loads

from duly.domain.catchup import plan_fires
from duly.domain.dependencies import gates_for
from duly.domain.execution import Advance, DueSchedule, Fire, Lost, Verdict
from duly.domain.ids import fire_id
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.jitter import jitter_of
from duly.domain.job import JobVersion
from duly.domain.lifecycle import SkipReason, State
from duly.domain.limits import gates_of
from duly.domain.retry import RetryPolicy, bounded_wait, delay_before_retry
from duly.domain.schedule import next_fire
from duly.domain.tenants import Quotas, tenant_gates

# An advance takes at most this many targets; the rest of a long outage follows in the next batches.
TARGETS_PER_ADVANCE = 100
# A lost attempt starts again soon, yet not in the same instant on the next worker.
WAIT_AFTER_LOSS: Micros = SECOND
# Attempts are numbered in a small integer. Who snoozes costs none, but is counted among them.
MOST_CALLS = 32_000
# No tenant has quotas.
UNBOUNDED: Mapping[int, Quotas] = {}
# The reason of an execution that is dead because its attempts together took too long.
EXECUTION_TIMEOUT = "execution timeout"


@dataclass(frozen=True, slots=True)
class Firing:
    """A batch for the store: schedules that move, and the fires that follow from it."""

    advances: list[Advance]
    fires: list[Fire]


def firings(
    due: Sequence[DueSchedule],
    versions: Mapping[int, JobVersion],
    now: Instant,
    quotas: Mapping[int, Quotas] = UNBOUNDED,
    *,
    most: int = 2000,
) -> Iterator[Firing]:
    """What the due schedules fire, in batches of about `most`: a herd after an outage must not hold the store in one transaction.

    A schedule whose version is not in `versions` (a newer release wrote it) is left for those who can read it.
    """
    if len(due) * (1 + TARGETS_PER_ADVANCE) < most:
        # Whatever each of them owes, together they are not too many.
        if part := [item for item in due if item.version in versions]:
            yield fires(part, versions, now, quotas)
        return
    part, count = [], 0
    for item in due:
        if item.version not in versions:
            continue
        part.append(item)
        schedule = versions[item.version].schedule
        count += 1
        if schedule is not None and (following := next_fire(schedule, item.next_fire_at)) is not None and following <= now:
            count += TARGETS_PER_ADVANCE
        if count >= most:
            yield fires(part, versions, now, quotas)
            part, count = [], 0
    if part:
        yield fires(part, versions, now, quotas)


def fires(due: Sequence[DueSchedule], versions: Mapping[int, JobVersion], now: Instant, quotas: Mapping[int, Quotas] = UNBOUNDED) -> Firing:
    """What the due schedules fire, in the order of their ids, and where each stands afterwards. `quotas` are those of the tenants.

    Computed from the scheduled time, never from now, so two dispatchers decide the same.
    """
    advances: list[Advance] = []
    made: list[Fire] = []
    for item in due:
        version = versions[item.version]
        schedule = version.schedule
        if schedule is None:
            advances.append(Advance(item.job_id, item.shard, item.version, item.next_fire_at, None, item.skip_at))
            continue
        spec = version.spec
        plan = plan_fires(schedule, spec.catch_up, item.next_fire_at, now, limit=TARGETS_PER_ADVANCE)
        advances.append(Advance(item.job_id, item.shard, item.version, item.next_fire_at, plan.next_at, item.skip_at))
        gates = gates_of(spec.limits, version.tenant, item.job_id, spec.name, spec.payload) if spec.limits.gated else ()
        if version.tenant in quotas:
            gates += tenant_gates(version.tenant, quotas[version.tenant])
        for target in plan.targets:
            asked = target.at == item.skip_at
            delay = jitter_of(schedule, spec.timing.jitter, item.job_id, target.at) if spec.timing.jitter else 0
            made.append(
                Fire(
                    id=fire_id(item.job_id, target.at),
                    job_id=item.job_id,
                    at=target.at,
                    job_version=item.version,
                    tenant=version.tenant,
                    route=version.route,
                    rank=target.at + delay - version.head_start,
                    shard=item.shard,
                    overlap=spec.overlap,
                    skip=SkipReason.ASKED if asked else None if target.runs else SkipReason.MISFIRE,
                    skip_by=item.skip_by if asked else None,
                    delay=delay,
                    gates=gates_for(spec.after, version.tenant, item.job_id, target.at, spec.timing.zone) + gates if spec.after else gates,
                )
            )
    made.sort(key=lambda fire: fire.id.int)
    return Firing(advances, made)


def unwanted(firing: Firing, by: str) -> Firing:
    """The same firing when somebody does not want it any more: what would have run is skipped as asked."""
    fires = [fire if fire.skip is not None else fire._replace(skip=SkipReason.ASKED, skip_by=by) for fire in firing.fires]
    return Firing(firing.advances, fires)


def after_failure(
    policy: RetryPolicy,
    failures: int,
    now: Instant,
    chance: float,
    *,
    error: str,
    kinds: Collection[str] = (),
    retry: bool = True,
    wait: Micros | None = None,
    deadline: Instant | None = None,
) -> Verdict:
    """What becomes of an execution whose attempt failed or timed out. `failures` does not count this attempt yet.

    `kinds` are the names that the policy's rules look for; `wait` is what the handler itself asked for and replaces every other
    wait. No retry is planned past `deadline`, the end of the time for all attempts together.
    """
    rule = policy.rule_for(kinds) if policy.rules and kinds else None
    most = policy.max_attempts if rule is None or rule.max_attempts is None else rule.max_attempts
    if not retry or (rule is not None and not rule.retry) or failures + 1 >= most:
        return Verdict(State.DEAD, None, error)
    if wait is not None:
        wait = bounded_wait(wait)
    elif rule is not None and rule.delay is not None:
        wait = rule.delay
    else:
        wait = delay_before_retry(policy, failures + 1, chance)
    if deadline is not None and now + wait >= deadline:
        return Verdict(State.DEAD, None, dumps(loads(error) | {"reason": EXECUTION_TIMEOUT}))
    return Verdict(State.SCHEDULED, now + wait, error)


def after_snooze(wait: Micros, attempt: int, now: Instant, deadline: Instant | None) -> Verdict:
    """A handler that wants to be called again later costs no attempt; it cannot put itself off for ever, or past its deadline."""
    retry_at = now + bounded_wait(wait)
    if attempt >= MOST_CALLS:
        return Verdict(State.DEAD, None, dumps({"type": "Snooze", "message": f"snoozed {MOST_CALLS:,} times"}))
    if deadline is not None and retry_at >= deadline:
        return Verdict(State.DEAD, None, execution_timeout("snoozed past its deadline"))
    return Verdict(State.SCHEDULED, retry_at, None)


def execution_timeout(message: str) -> str:
    """The error of an execution whose attempts have used up their time together."""
    return dumps({"type": "TimedOut", "message": message, "reason": EXECUTION_TIMEOUT})


def after_loss(lost: Lost, policy: RetryPolicy | None, now: Instant, how: str | None = None) -> Verdict:
    """What becomes of an execution whose worker is gone. Losses have their own budget: what kills its workers is quarantined.

    `how` the process ended, where somebody saw it. Without a `policy` (a newer release wrote it) somebody else says when it is enough.
    """
    if lost.cancelled:
        return Verdict(State.CANCELLED, None, dumps({"reason": "cancelled"}))
    losses = lost.losses + 1
    if policy is not None and losses >= policy.max_losses:
        times = "once" if losses == 1 else f"{losses} times"
        told = {"type": "WorkerLost", "message": f"killed its worker {times}", "reason": "poison"}
        return Verdict(State.DEAD, None, dumps(told | ({"detail": how} if how else {})))
    told = {"type": "WorkerLost", "message": "the process that ran it is gone" if how else "the worker that ran it is gone"}
    return Verdict(State.SCHEDULED, now + WAIT_AFTER_LOSS, dumps(told | ({"detail": how} if how else {})))
