"""Why an execution waits: for a time, for another execution, or for a worker."""

from __future__ import annotations

from difflib import get_close_matches

from duly.domain.execution import Attempt
from duly.domain.fairness import share_out, slots_kept
from duly.domain.ids import execution_text
from duly.domain.instants import SECOND, Instant, Micros, to_rfc3339
from duly.domain.lifecycle import Outcome
from duly.domain.serving import Misfit, Needs, misfits, missing_labels
from duly.domain.target import HTTP_HANDLER, SHELL_HANDLER
from duly.domain.why import dependencies, flows
from duly.domain.why.answers import Reason, WhyCode, counted, known, moment, span
from duly.domain.why.errors import error_words
from duly.domain.why.facts import COUNTED_TO, ExecutionFacts, GateFacts, LineFacts, QueueFacts, WorkerFacts

# A dispatcher looks more often than that; who is due for longer is waited for in vain.
DISPATCH_PATIENCE = 2 * SECOND
# A rate from fewer ends than these is a guess.
FEWEST_FOR_A_RATE = 5
_SHARED = 1000
# Longer than a free worker needs to take what is ready.
A_MOMENT: Micros = 5 * SECOND


# ---------------------------------------------------------------- for a time


def scheduled(facts: ExecutionFacts) -> list[Reason]:
    """Why it waits for a time."""
    due_at = facts.execution.next_attempt_at
    due_at = facts.execution.due_at if due_at is None else due_at
    reasons = [_wait(facts, due_at)]
    if facts.now - due_at > DISPATCH_PATIENCE:
        reasons.insert(0, _behind(facts, due_at))
    return reasons


def _wait(facts: ExecutionFacts, due_at: Instant) -> Reason:
    execution = facts.execution
    last = facts.attempts[-1] if facts.attempts else None
    left = f"in {span(due_at - facts.now)}, at {moment(due_at)}" if due_at > facts.now else f"since {moment(due_at)}"
    if last is None:
        nominal = execution.scheduled_at
        later = (
            f", {span(due_at - nominal)} after its fire at {moment(nominal)} (jitter)" if nominal is not None and nominal < due_at else ""
        )
        return Reason(
            WhyCode.NOT_DUE,
            f"It is {'not due yet: it is ' if due_at > facts.now else ''}due {left}{later}.",
            known(
                dueAt=to_rfc3339(due_at),
                scheduledAt=None if nominal is None else to_rfc3339(nominal),
                trigger=execution.trigger.name.lower(),
            ),
            since=execution.created_at,
            until=due_at,
        )
    told = {"attempt": last.attempt, "outcome": _outcome(last), "nextAttempt": execution.attempt, "nextAttemptAt": to_rfc3339(due_at)}
    match last.outcome:
        case Outcome.WORKER_LOST:
            return Reason(
                WhyCode.LOSS_WAIT,
                f"The worker that ran attempt {last.attempt} is gone; it starts again {left}.",
                {**told, "workerId": str(last.worker), "maxLosses": facts.version.spec.retry.max_losses},
                since=last.finished_at,
                until=due_at,
            )
        case Outcome.RELEASED if last.finished_at is not None and due_at > last.finished_at:
            return Reason(
                WhyCode.SNOOZED,
                f"Its handler put it off: attempt {execution.attempt} runs {left}.",
                told,
                since=last.finished_at,
                until=due_at,
                hint=_now_hint(facts),
            )
        case Outcome.RELEASED:
            return Reason(
                WhyCode.RELEASED,
                f"Worker {last.worker} gave it back at {moment(last.finished_at or due_at)}; it costs no attempt and starts again soon.",
                {**told, "workerId": str(last.worker)},
                since=last.finished_at,
                until=due_at,
            )
        case _:
            error = error_words(last.error)
            why = "ran out of time" if last.outcome is Outcome.TIMED_OUT else "failed"
            return Reason(
                WhyCode.RETRY_WAIT,
                f"Attempt {last.attempt} of {execution.max_attempts} {why}{f' ({error})' if error else ''}; the next one runs {left}.",
                {**told, **known(error=error), "maxAttempts": execution.max_attempts},
                since=last.finished_at,
                until=due_at,
                hint=_now_hint(facts),
            )


def _now_hint(facts: ExecutionFacts) -> str:
    return f"To run it now: duly run retry {execution_text(facts.execution.id)}"


def _outcome(attempt: Attempt) -> str | None:
    return None if attempt.outcome is None else attempt.outcome.name


def _behind(facts: ExecutionFacts, due_at: Instant) -> Reason:
    overseer = facts.job.overseer
    owner = None if overseer is None else overseer.owner
    is_held = overseer is not None and owner is not None and overseer.lease_until > facts.now
    return Reason(
        WhyCode.DISPATCHER_BEHIND,
        f"It is due since {span(facts.now - due_at)} and "
        + (f"dispatcher {owner} has not come to it yet." if is_held else "no dispatcher is there to make it ready."),
        known(dueAt=to_rfc3339(due_at), dispatcher=owner if is_held else None, shard=None if overseer is None else overseer.shard),
        since=due_at,
        hint=None if is_held else "Start one: duly up, or duly server.",
    )


# ---------------------------------------------------------------- for others


def blocked(facts: ExecutionFacts) -> list[Reason]:
    """Why it waits for other executions, or for somebody."""
    if facts.held is not None:
        return [flows.held(facts, facts.held)]
    if facts.gates:
        return [
            _at_gate(facts, gate) if gate.awaited is None else dependencies.waits(facts, gate, gate.awaited)
            for gate in sorted(facts.gates, key=lambda gate: (-gate.ahead, gate.gate.int))
        ]
    return [_in_line(facts, facts.line or LineFacts(None, 0, 0))]


def _in_line(facts: ExecutionFacts, line: LineFacts) -> Reason:
    holder = line.holder
    ahead = f", behind {counted(line.ahead, 'other')} that waits" if line.ahead == 1 else f", behind {line.ahead:,} others that wait"
    behind = ahead if line.ahead else ""
    if holder is None:
        message = f"The job runs one at a time and its place is being passed on{behind}."
    else:
        since = f", {holder.state.name.lower()} since {moment(holder.started_at or holder.created_at)}"
        message = f"The job runs one at a time, and {execution_text(holder.id)} has its place{since}{behind}."
    return Reason(
        WhyCode.OVERLAP_QUEUE,
        message,
        known(
            overlap=facts.version.spec.overlap.policy.value,
            holder=None if holder is None else execution_text(holder.id),
            holderState=None if holder is None else holder.state.name,
            holderStartedAt=None if holder is None or holder.started_at is None else to_rfc3339(holder.started_at),
            position=line.ahead + 1,
            waiting=line.waiting,
        ),
        since=facts.execution.created_at,
        hint=None if holder is None else f"Why that one takes so long: duly why {execution_text(holder.id)}",
    )


def _at_gate(facts: ExecutionFacts, gate: GateFacts) -> Reason:
    name, key = gate.about.get("name"), gate.about.get("key")
    values = ", ".join(f"{field}={value}" for field, value in key.items()) if isinstance(key, dict) else None
    quota = gate.about.get("quota")
    if quota is not None:
        what = f"The tenant's quota {quota}"
    else:
        what = (f"The limit {name!r}" if name else "A limit of the job") + (f" for {values}" if values else "")
    place = f"it is number {gate.ahead + 1:,} in line"
    told = known(
        limit=name,
        quota=quota,
        capacity=gate.capacity,
        taken=gate.taken,
        position=gate.ahead + 1,
        holders=[execution_text(id) for id in gate.holders],
        about=dict(gate.about) or None,
    )
    if gate.lasts is None:
        return Reason(
            WhyCode.CONCURRENCY_LIMIT,
            f"{what} lets {gate.capacity:,} run at a time, and {gate.taken:,} do; {place}.",
            told,
            since=facts.execution.created_at,
        )
    free = f"; the next may start at {moment(gate.frees_at)}" if gate.frees_at is not None else ""
    return Reason(
        WhyCode.RATE_LIMIT,
        f"{what} lets {gate.capacity:,} start in {span(gate.lasts)}, and they have{free}; {place}.",
        {**told, "periodMs": gate.lasts // 1000},
        since=facts.execution.created_at,
        until=gate.frees_at,
    )


# ---------------------------------------------------------------- for a worker


def pending(facts: ExecutionFacts) -> list[Reason]:
    """Why it waits for a worker: nobody can take it, or others come first."""
    tenant = facts.execution.tenant
    live = [worker for worker in facts.workers if worker.is_live(facts.now) and worker.tenant in (None, tenant)]
    serving = [worker for worker in live if not _misfits(worker, facts.needs)]
    reasons = nobody_serves(live, facts.needs) if not serving else _others_first(facts, serving)
    released = facts.attempts[-1] if facts.attempts else None
    if released is not None and released.outcome is Outcome.RELEASED:
        reasons.append(
            Reason(
                WhyCode.RELEASED,
                f"Worker {released.worker} gave it back at {moment(released.finished_at or facts.now)}, at no cost in attempts.",
                {"attempt": released.attempt, "workerId": str(released.worker)},
                since=released.finished_at,
            )
        )
    return reasons


def _misfits(worker: WorkerFacts, needs: Needs) -> frozenset[Misfit]:
    return misfits(worker.pool, worker.labels, worker.handlers, needs)


def nobody_serves(live: list[WorkerFacts], needs: Needs) -> list[Reason]:
    """Which part of the route no live worker serves, by name."""
    start = f"duly worker APP --pool {needs.pool}"
    told = {"pool": needs.pool, "handler": needs.handler, **({"labels": needs.labels} if needs.labels else {})}
    if not live:
        return [Reason(WhyCode.NO_WORKER, "No worker is alive.", told, hint=f"Start one: {start}")]
    here = [worker for worker in live if worker.pool == needs.pool]
    if not here:
        pools = sorted({worker.pool for worker in live})
        message = f"No live worker is in pool {needs.pool}; {counted(len(live), 'worker')} in {', '.join(pools[:5])}."
        return [Reason(WhyCode.NO_WORKER_IN_POOL, message, {**told, "livePools": pools[:20]}, hint=f"Start one: {start}")]
    reasons: list[Reason] = []
    offering = [worker for worker in here if needs.handler in worker.handlers]
    fitting = [worker for worker in here if Misfit.LABELS not in _misfits(worker, needs)]
    if not offering:
        reasons.append(_handler_not_offered(here, needs, told))
    if not fitting or offering:
        nearest = min(offering or here, key=lambda worker: len(missing_labels(worker.labels, needs.labels)))
        missing = missing_labels(nearest.labels, needs.labels)
        who = f"worker of pool {needs.pool}" + (f" that offers {needs.handler}" if offering else "")
        message = f"No live {who} has the labels {needs.labels}: {nearest.name} lacks {', '.join(missing)}."
        reasons.append(
            Reason(
                WhyCode.LABELS_MISSING,
                message,
                {**told, "missing": missing, "worker": nearest.name},
                hint=f"Start one: {start} {' '.join(f'--label {label}' for label in missing)}",
            )
        )
    return reasons


def _handler_not_offered(here: list[WorkerFacts], needs: Needs, told: dict[str, str]) -> Reason:
    offered = sorted({name for worker in here for name in worker.handlers})
    close = get_close_matches(needs.handler, offered, n=1)
    if needs.handler == SHELL_HANDLER:
        hint = f"Commands are off by default: start a worker of pool {needs.pool} with --allow-shell, or name the pool in DULY_SHELL_POOLS."
    elif needs.handler == HTTP_HANDLER:
        hint = "Start a worker of this version: every one sends webhooks."
    else:
        hint = f"Did you mean {close[0]}?" if close else f"Start a worker with the application that has {needs.handler}."
    message = f"No live worker of pool {needs.pool} offers {needs.handler}."
    return Reason(WhyCode.HANDLER_NOT_OFFERED, message, {**told, "offered": offered[:50], "workers": len(here)}, hint=hint)


def _others_first(facts: ExecutionFacts, serving: list[WorkerFacts]) -> list[Reason]:
    queue = facts.queue or QueueFacts(0, 0, 0)
    taking = [worker for worker in serving if not worker.draining]
    free = sum(max(worker.slots - worker.running, 0) for worker in taking)
    running, slots = sum(worker.running for worker in taking), sum(worker.slots for worker in taking)
    told = {
        "position": queue.ahead + 1,
        "workers": len(taking),
        "running": running,
        "slots": slots,
        "route": {"pool": facts.needs.pool, "labels": facts.needs.labels, "handler": facts.needs.handler},
    }
    since = facts.execution.attempt_due_at or facts.execution.due_at
    reasons: list[Reason] = []
    if not taking:
        names = ", ".join(worker.name for worker in serving[:5])
        reasons.append(
            Reason(
                WhyCode.WORKERS_DRAINING,
                f"Every worker that could run it is stopping and takes no more: {names}.",
                {"draining": [worker.name for worker in serving[:20]]},
                hint=f"Start another: duly worker APP --pool {facts.needs.pool}",
            )
        )
    elif free == 0:
        busy = sorted(taking, key=lambda worker: worker.id)
        names = ", ".join(f"{worker.name} ({worker.running}/{worker.slots})" for worker in busy[:5])
        reasons.append(
            Reason(
                WhyCode.WORKERS_FULL,
                f"Every worker that could run it is full: {names}.",
                {"workers": [{"name": worker.name, "running": worker.running, "slots": worker.slots} for worker in busy[:20]]},
                hint="It starts as soon as a slot is free; more workers or more slots make that sooner.",
            )
        )
    elif queue.is_shared and free <= sum(slots_kept(worker.slots) for worker in taking) and facts.now - since > A_MOMENT:
        # Who may take them does so in a moment; so this tenant may not.
        reasons.append(
            Reason(
                WhyCode.SLOTS_KEPT_OPEN,
                f"The tenant has its share of the slots; the last {free:,} of {slots:,} are kept for tenants that have less.",
                {"free": free, "slots": slots},
                hint="It starts as soon as one more is free; more workers or more slots make that sooner.",
            )
        )
    if queue.ahead or reasons:
        reasons.append(_queued(facts, queue, told, since))
    else:
        reasons.append(Reason(WhyCode.STARTS_SOON, "It is next, and a worker is free: it starts in a moment.", told, since=since))
    return reasons


def _queued(facts: ExecutionFacts, queue: QueueFacts, told: dict[str, object], since: Instant) -> Reason:
    ahead = f"{COUNTED_TO:,} or more are" if queue.ahead >= COUNTED_TO else "one is" if queue.ahead == 1 else f"{queue.ahead:,} are"
    message = f"It waits for a worker: {ahead} ahead of it in its queue" if queue.ahead else "It is next in its queue"
    until: Instant | None = None
    if queue.ended >= FEWEST_FOR_A_RATE and queue.ended_within > 0:
        wait = round((queue.ahead + 1) * queue.ended_within / queue.ended)
        until = facts.now + wait
        told = {**told, "perSecond": round(queue.ended * SECOND / queue.ended_within, 3), "estimateSec": round(wait / SECOND, 1)}
        message += f"; about {span(wait)} at the recent rate"
    share = _share(facts, queue)
    if share is not None:
        told = {**told, "sharePercent": share}
    return Reason(WhyCode.QUEUED, f"{message}.", told, since=since, until=until)


def _share(facts: ExecutionFacts, queue: QueueFacts) -> int | None:
    """How much of the route this tenant gets while others have work there too, as the claim would share it out."""
    if len({work.tenant for work in queue.work}) < 2:
        return None
    # As if everybody had more than enough: the share is what the weights give, whoever runs out of work first.
    asks = share_out(_SHARED, queue.work, {}, counted_to=1)
    return round(100 * sum(ask.quota for ask in asks if ask.tenant == facts.execution.tenant) / _SHARED)
