"""How an attempt is reported: what its handler returned or raised, or why it was stopped, as a Finished."""

from __future__ import annotations

import traceback

import msgspec

from duly.domain import decide
from duly.domain.execution import Finished, Lost, Verdict, WorkerId
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.lifecycle import Outcome, State
from duly.ports.clock import Clock, Entropy
from duly.ports.endings import Died, Discard, Failure, Snooze, kinds_of
from duly.ports.handlers import Attempt, storable
from duly.ports.words import LONGEST_NAME, name_of, words_of
from duly.roles.calls import Running
from duly.roles.plans import Plan

# A traceback starts at the user's own frame.
_OUR_FRAMES = ("/duly/roles/", "/duly/executors/", "/duly/sdk/", "/concurrent/futures/", "/asyncio/")
LONGEST_MESSAGE = 4096
LONGEST_DETAIL = 16_384
CANCELLED = '{"reason":"cancelled"}'
_encode = msgspec.json.encode


class Endings:
    """Asks the decisions and writes the report; the runners call it and send it."""

    def __init__(self, worker: WorkerId, clock: Clock, entropy: Entropy) -> None:
        self._worker = worker
        self._clock = clock
        self._entropy = entropy

    def succeeded(self, attempt: Attempt, plan: Plan, result: str | None) -> Finished:
        """The handler came to its end."""
        return Finished(
            attempt.id,
            attempt.fence,
            Outcome.SUCCEEDED,
            State.SUCCEEDED,
            attempt.started_at,
            self._clock.now(),
            plan.job_id,
            plan.shard,
            attempt.holds_place,
            result,
            is_step=plan.is_step,
        )

    def raised(self, attempt: Attempt, plan: Plan, error: BaseException, *, asked_to_stop: bool) -> Finished:
        """The handler raised this. `asked_to_stop`: somebody wants it cancelled, though it has not heard of it."""
        try:
            return self._raised(attempt, plan, error, asked_to_stop)
        except BaseException:
            # Its class is the handler's code, and may be anything: what cannot be told as it asks is a plain failure.
            return self._failed(attempt, plan, _told(attempt, name_of(error), words_of(error), None), kinds_of(error))

    def _raised(self, attempt: Attempt, plan: Plan, error: BaseException, asked_to_stop: bool) -> Finished:
        match error:
            case Snooze():
                return self._snoozed(attempt, plan, error.wait)
            case Discard():
                said = storable(attempt.redacted(words_of(error)))[:LONGEST_MESSAGE]
                reason = _encode({"reason": "discarded", "message": said}).decode()
                return self._report(attempt, plan, Outcome.CANCELLED, Verdict(State.CANCELLED, None, reason))
            case Died():
                return self._died(attempt, plan, error, asked_to_stop)
            case Failure():
                told = _told(attempt, error.type, words_of(error), error.detail)
                return self._failed(attempt, plan, told, kinds_of(error), retry=error.retry, wait=error.retry_after)
            case _:
                # SystemExit and KeyboardInterrupt as well: a handler that calls sys.exit() must not end the worker.
                return self._failed(attempt, plan, _told(attempt, name_of(error), words_of(error), _trace(error)), kinds_of(error))

    def stopped(self, attempt: Attempt, plan: Plan, why: str | None, note: str | None) -> Finished:
        """It was stopped, or stopped itself. `why` a limit ended it; the `note` says what became of a handler that did not stop."""
        match attempt.stop:
            case Outcome.RELEASED:
                return self._report(attempt, plan, Outcome.RELEASED, Verdict(State.SCHEDULED, attempt.due_at, None))
            case Outcome.CANCELLED:
                error = CANCELLED if note is None else _encode({"reason": "cancelled", "message": note}).decode()
                return self._report(attempt, plan, Outcome.CANCELLED, Verdict(State.CANCELLED, None, error))
            case Outcome.TIMED_OUT:
                told = _told(attempt, "TimedOut", "; ".join(part for part in (why, note) if part), None)
                return self._failed(attempt, plan, told, ("TimedOut",), outcome=Outcome.TIMED_OUT)
            case _:
                told = _told(attempt, "CancelledError", "the handler cancelled itself", None)
                return self._failed(attempt, plan, told, ("CancelledError",))

    def too_late(self, attempt: Attempt, plan: Plan) -> Finished:
        """Its time for all attempts was over before this one began."""
        error = decide.execution_timeout(f"not run again: {all_together(plan.execution_timeout or 0)}")
        return self._report(attempt, plan, Outcome.TIMED_OUT, Verdict(State.DEAD, None, error))

    def _snoozed(self, attempt: Attempt, plan: Plan, wait: Micros) -> Finished:
        verdict = decide.after_snooze(wait, attempt.attempt, self._clock.now(), _deadline(attempt, plan))
        return self._report(attempt, plan, Outcome.RELEASED if verdict.state is State.SCHEDULED else Outcome.TIMED_OUT, verdict)

    def _died(self, attempt: Attempt, plan: Plan, death: Died, asked_to_stop: bool) -> Finished:
        version = plan.version
        lost = Lost(
            id=attempt.id,
            lease=attempt.fence,
            worker=self._worker,
            granted_at=attempt.started_at,
            attempt=attempt.attempt,
            failures=attempt.failures,
            losses=attempt.extras.losses,
            cancelled=asked_to_stop,
            job_id=version.job_id,
            job_version=version.number,
            holds_place=attempt.holds_place,
        )
        how = storable(attempt.redacted("\n".join(part for part in (str(death), death.detail) if part)))[:LONGEST_DETAIL]
        return self._report(attempt, plan, Outcome.WORKER_LOST, decide.after_loss(lost, version.spec.retry, self._clock.now(), how))

    def _failed(
        self,
        attempt: Attempt,
        plan: Plan,
        error: str,
        kinds: tuple[str, ...],
        *,
        outcome: Outcome = Outcome.FAILED,
        retry: bool = True,
        wait: Micros | None = None,
    ) -> Finished:
        verdict = decide.after_failure(
            plan.version.spec.retry,
            attempt.failures,
            self._clock.now(),
            self._entropy(53) / (1 << 53),
            error=error,
            kinds=kinds,
            retry=retry,
            wait=wait,
            deadline=_deadline(attempt, plan),
        )
        return self._report(attempt, plan, outcome, verdict)

    def _report(self, attempt: Attempt, plan: Plan, outcome: Outcome, verdict: Verdict) -> Finished:
        return Finished(
            attempt.id,
            attempt.fence,
            outcome,
            verdict.state,
            attempt.started_at,
            self._clock.now(),
            plan.job_id,
            plan.shard,
            attempt.holds_place,
            None,
            verdict.error,
            verdict.retry_at,
            plan.is_step,
        )


def limit_reached(call: Running, boottime: Micros, now: Instant) -> str | None:
    """Which limit ends a call now, in words."""
    plan, silence, stopping = call.plan, call.plan.heartbeat_timeout, call.stopping
    if call.limit is not None and call.limit <= boottime:
        # Past the time for all attempts together, that is what it died of, whatever its own limit was.
        spent = plan.execution_timeout is not None and call.attempts[0].due_at + plan.execution_timeout <= now
        return all_together(plan.execution_timeout or 0) if spent else f"ran longer than {(plan.timeout or 0) / SECOND:g} s"
    heard_at = None if stopping is None else stopping.heard_at
    if silence is not None and heard_at is not None and heard_at + silence <= boottime:
        return f"no heartbeat for {silence / SECOND:g} s"
    return None


def all_together(limit: Micros) -> str:
    """Why the time for all attempts ended it."""
    return f"all attempts together took longer than {limit / SECOND:g} s"


def _deadline(attempt: Attempt, plan: Plan) -> Instant | None:
    return None if plan.execution_timeout is None else attempt.due_at + plan.execution_timeout


def _told(attempt: Attempt, kind: str, message: str, detail: str | None) -> str:
    """What is kept of it. Redacted before it is cut: half a secret would not be found."""
    told = {"type": storable(kind)[:LONGEST_NAME], "message": storable(attempt.redacted(message))[:LONGEST_MESSAGE]}
    if detail:
        told["detail"] = storable(attempt.redacted(detail))[-LONGEST_DETAIL:]
    return _encode(told).decode()


def _trace(error: BaseException) -> str | None:
    """The traceback from the user's own frame on; None when it cannot be had."""
    try:
        frames = traceback.extract_tb(error.__traceback__)
    except BaseException:
        return None
    own = [frame for frame in frames if not any(part in frame.filename.replace("\\", "/") for part in _OUR_FRAMES)]
    lines = traceback.format_list(own or list(frames))
    return "".join(["Traceback (most recent call last):\n", *lines, f"{name_of(error)}: {words_of(error)}\n"])
