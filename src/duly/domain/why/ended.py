"""Why an execution ended as it did."""

from __future__ import annotations

from collections.abc import Collection

from duly.domain.catchup import plan_fires
from duly.domain.decide import EXECUTION_TIMEOUT, TARGETS_PER_ADVANCE, after_failure
from duly.domain.execution import Attempt
from duly.domain.ids import execution_text, fire_id, job_text
from duly.domain.instants import Instant, to_rfc3339
from duly.domain.lifecycle import COSTS_AN_ATTEMPT, Outcome, SkipReason, State
from duly.domain.retry import RetryPolicy
from duly.domain.why import dependencies, flows
from duly.domain.why.answers import Reason, WhyCode, counted, known, moment, span
from duly.domain.why.errors import error_of, error_words
from duly.domain.why.facts import ExecutionFacts


def ended(facts: ExecutionFacts) -> list[Reason]:
    """Why it is final."""
    match facts.execution.state:
        case State.SUCCEEDED:
            return [_succeeded(facts)]
        case State.DEAD:
            return [*_settled(facts), _dead(facts)]
        case State.SKIPPED:
            return [_skipped(facts)]
        case _:
            return [_cancelled(facts)]


def _succeeded(facts: ExecutionFacts) -> Reason:
    execution = facts.execution
    before = [attempt for attempt in facts.attempts if attempt.outcome is not Outcome.SUCCEEDED]
    after = f" on attempt {execution.attempt}, after {_failures(before)}" if before else ""
    took = (
        "" if execution.started_at is None or execution.finished_at is None else f" in {span(execution.finished_at - execution.started_at)}"
    )
    return Reason(
        WhyCode.SUCCEEDED,
        f"It succeeded{after}{took}, at {moment(execution.finished_at or facts.now)}.",
        known(
            attempt=execution.attempt,
            workerId=None if execution.worker is None else str(execution.worker),
            finishedAt=_shown(execution.finished_at),
            failures=[_told(attempt) for attempt in before] or None,
        ),
        since=execution.finished_at,
    )


def _failures(attempts: list[Attempt]) -> str:
    last = next((words for attempt in reversed(attempts) if (words := error_words(attempt.error))), None)
    tries = "an attempt that did not succeed" if len(attempts) == 1 else f"{len(attempts)} attempts that did not succeed"
    return f"{tries} ({last})" if last else tries


def _told(attempt: Attempt) -> dict[str, object]:
    return known(
        attempt=attempt.attempt,
        outcome=None if attempt.outcome is None else attempt.outcome.name,
        finishedAt=_shown(attempt.finished_at),
        error=error_words(attempt.error),
    )


# ---------------------------------------------------------------- dead


def _dead(facts: ExecutionFacts) -> Reason:
    execution, policy = facts.execution, facts.version.spec.retry
    told = error_of(execution.error)
    words = error_words(execution.error)
    because = f": {words}" if words else ""
    failures = sum(attempt.outcome in COSTS_AN_ATTEMPT for attempt in facts.attempts)
    losses = sum(attempt.outcome is Outcome.WORKER_LOST for attempt in facts.attempts)
    seen = known(
        attempts=len(facts.attempts),
        failures=failures,
        losses=losses or None,
        maxAttempts=policy.max_attempts,
        error=words,
        finishedAt=_shown(execution.finished_at),
        workerId=None if execution.worker is None else str(execution.worker),
    )
    is_used_up = failures > 0 and _is_used_up(policy, failures, told.get("type"), facts.now)
    if told.get("reason") == "poison":
        code, message = WhyCode.POISON, f"It is quarantined: it {told.get('message', 'killed its workers')}."
        hint = "Look at what its workers died of before replaying it."
    elif told.get("reason") == EXECUTION_TIMEOUT:
        code, message = WhyCode.EXECUTION_TIMEOUT, f"All its attempts together took longer than its job allows{because}."
        hint = "Raise executionTimeoutSec, or replay it."
    elif is_used_up:
        code = WhyCode.ATTEMPTS_USED_UP
        last = "its only attempt failed" if failures == 1 else f"all {failures} attempts failed"
        message = f"It is dead: {last}{', at last with ' + words if words else ''}."
        hint = f"Once the cause is gone: duly dead replay {execution_text(execution.id)}"
    else:
        code = WhyCode.GAVE_UP
        message = f"It is dead after {counted(len(facts.attempts), 'attempt')}: it ended in a way that is not tried again{because}."
        hint = f"Once the cause is gone: duly dead replay {execution_text(execution.id)}"
    return Reason(code, message, seen, since=execution.finished_at, hint=None if facts.settlement else hint)


def _is_used_up(policy: RetryPolicy, failures: int, kind: object, now: Instant) -> bool:
    """Whether the budget was the reason: of the policy, whatever the error, or of a rule that retries such errors less often."""

    def ends(after: int, kinds: Collection[str]) -> bool:
        return after_failure(policy, after, now, 0.5, error="{}", kinds=kinds).state is State.DEAD

    return ends(failures - 1, ()) or (isinstance(kind, str) and ends(failures - 1, (kind,)) and not ends(0, (kind,)))


def _settled(facts: ExecutionFacts) -> list[Reason]:
    done = facts.settlement
    if done is None:
        return []
    by, at = facts.who(done.by), moment(done.at)
    if done.replay is not None:
        new = execution_text(done.replay)
        told = {"replayedAs": new, "by": by}
        return [
            Reason(
                WhyCode.REPLAYED,
                f"It died, and {by} replayed it at {at} as {new}.",
                told,
                since=done.at,
                hint=f"How that went: duly why {new}",
            )
        ]
    return [Reason(WhyCode.DISMISSED, f"It died, and {by} discarded it at {at}.", {"by": by}, since=done.at)]


# ---------------------------------------------------------------- cancelled and skipped


def _cancelled(facts: ExecutionFacts) -> Reason:
    execution = facts.execution
    told = error_of(execution.error)
    when = moment(execution.finished_at or facts.now)
    if told.get("reason") == "discarded":
        words = f": {told['message']}" if told.get("message") else ""
        return Reason(
            WhyCode.DISCARDED,
            f"Its handler discarded it at {when}{words}.",
            known(message=told.get("message")),
            since=execution.finished_at,
        )
    by = told.get("by") or (None if facts.wish is None else facts.wish.by)
    name = None if by is None else facts.who(str(by))
    how = "before it had started" if execution.attempt == 0 else f"in attempt {execution.attempt}"
    return Reason(
        WhyCode.CANCELLED,
        f"It was cancelled{f' by {name}' if name else ''} at {when}, {how}.",
        known(by=name, askedAt=None if facts.wish is None else _shown(facts.wish.asked_at), finishedAt=_shown(execution.finished_at)),
        since=execution.finished_at,
        hint=f"To run it all the same: duly run replay {execution_text(execution.id)}",
    )


def _skipped(facts: ExecutionFacts) -> Reason:
    match facts.execution.skip:
        case SkipReason.STEP:
            return flows.skipped(facts)
        case SkipReason.DEPENDENCY:
            return dependencies.skipped(facts)
        case SkipReason.MISFIRE:
            return _misfire(facts)
        case SkipReason.ASKED:
            by = error_of(facts.execution.error).get("by") or facts.job.skip_by
            who = "Somebody" if by is None else facts.who(str(by))
            return Reason(
                WhyCode.SKIPPED_ASKED,
                f"{who} asked to skip the fire at {moment(facts.execution.due_at)}.",
                known(by=None if by is None else who, scheduledAt=to_rfc3339(facts.execution.due_at)),
                since=facts.execution.finished_at,
                hint=f"To run it all the same: duly run replay {execution_text(facts.execution.id)}",
            )
        case _:
            return _overlap(facts)


def _misfire(facts: ExecutionFacts) -> Reason:
    """The outage as far as the history shows it, and what the same plan let run instead."""
    execution, spec = facts.execution, facts.version.spec
    nominal = execution.due_at if execution.scheduled_at is None else execution.scheduled_at
    seen_at, began = execution.created_at, facts.outage_from or nominal
    schedule = facts.version.schedule
    instead: Instant | None = None
    if schedule is not None:
        plan = plan_fires(schedule, spec.catch_up, nominal, seen_at, limit=10 * TARGETS_PER_ADVANCE)
        instead = next((target.at for target in plan.targets if target.runs), None)
    policy = spec.catch_up.policy.value
    ran = f"the one of {moment(instead)} ran instead" if instead is not None else "nothing ran instead"
    return Reason(
        WhyCode.SKIPPED_MISFIRE,
        f"No dispatcher was there from {moment(began)} to {moment(seen_at)}; by catch-up {policy!r} {ran}.",
        known(
            outageFrom=to_rfc3339(began),
            outageTo=to_rfc3339(seen_at),
            catchUp=policy,
            graceSec=spec.catch_up.grace // 1_000_000,
            ranInstead=None if instead is None else execution_text(fire_id(execution.job_id, instead)),
            ranInsteadAt=_shown(instead),
        ),
        since=began,
        until=seen_at,
        hint=f"To make up for it: duly run replay {execution_text(execution.id)}",
    )


def _overlap(facts: ExecutionFacts) -> Reason:
    execution, live = facts.execution, facts.live_then
    policy = facts.version.spec.overlap.policy.value
    if live is None:
        message = f"Another run of the job was live at {moment(execution.created_at)}, and overlap is {policy!r}."
    else:
        until = f"until {moment(live.finished_at)}" if live.finished_at is not None else "and still is"
        message = f"{execution_text(live.id)} was live then, {until}, and overlap is {policy!r}."
    return Reason(
        WhyCode.SKIPPED_OVERLAP,
        message,
        known(
            overlap=policy,
            liveRun=None if live is None else execution_text(live.id),
            liveStartedAt=None if live is None else _shown(live.started_at),
            liveFinishedAt=None if live is None else _shown(live.finished_at),
            jobId=job_text(execution.job_id),
        ),
        since=execution.created_at,
        until=None if live is None else live.finished_at,
        hint='Overlap "queue_one" or "queue_all" lets such a fire wait; "allow" lets it run beside.',
    )


def _shown(at: Instant | None) -> str | None:
    return None if at is None else to_rfc3339(at)
