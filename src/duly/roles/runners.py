"""The runners: tasks that empty a buffer of claimed attempts, one handler after the other.

A handler that ends at its first step costs no task and no turn of the loop; one that waits keeps only its
own runner. Whatever a handler raises ends its own attempt and nothing else: a runner never dies of it, and
an attempt that was taken in always comes out again as `done`, unless its lease is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from duly.domain import decide
from duly.domain.execution import Finished
from duly.domain.ids import ExecutionId
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.lifecycle import Outcome, State
from duly.ports.clock import Clock, Entropy
from duly.ports.handlers import Attempt, Failure, storable
from duly.roles.heartbeat import Heartbeat
from duly.roles.log_pump import LogPump
from duly.roles.plans import Plan

LARGEST_RESULT = 1 << 20
# How long runners may keep the loop before others get their turn.
TURN: Micros = 5_000
# A traceback starts at the user's own frame.
_OUR_FRAMES = ("/duly/roles/", "/duly/executors/", "/duly/sdk/", "/concurrent/futures/", "/asyncio/")
_encode = msgspec.json.encode


@dataclass(slots=True)
class Running:
    """An attempt whose handler has been started. `limit` is boottime: a step of the clock must not time it out."""

    attempt: Attempt
    plan: Plan
    task: asyncio.Task[None]
    limit: Micros | None


class Runners:
    """What has been claimed and has not been reported: buffered, running, done."""

    def __init__(self, slots: int, heartbeat: Heartbeat, clock: Clock, entropy: Entropy, logs: LogPump, wake: asyncio.Event) -> None:
        self._slots = slots
        self._heartbeat = heartbeat
        self._clock = clock
        self._entropy = entropy
        self._logs = logs
        self._wake = wake
        self._tasks: set[asyncio.Task[None]] = set()
        self.buffer: deque[tuple[Attempt, Plan]] = deque()
        self.buffered_at: Micros = 0
        self.running: dict[ExecutionId, Running] = {}
        self.done: list[Finished] = []
        self.longest_run = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, waits to run, or waits to be reported."""
        return not (self.running or self.buffer or self.done or self._tasks)

    @property
    def free(self) -> int:
        """Slots in which nothing runs."""
        return self._slots - len(self.running)

    def known(self) -> set[ExecutionId]:
        """Every execution that is in here."""
        return {*self.running, *(attempt.id for attempt, _ in self.buffer), *(item.id for item in self.done)}

    def take_in(self, attempts: Iterable[tuple[Attempt, Plan]]) -> None:
        """Run these as slots allow."""
        if not self.buffer:
            self.buffered_at = self._clock.boottime()
        self.buffer.extend(attempts)
        for _ in range(min(len(self.buffer), self.free)):
            task = asyncio.create_task(self._run(), name="duly-runner")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------ running

    async def _run(self) -> None:
        """Empty the buffer. Handlers share this task's context: one that sets a context variable should reset it, as in a thread pool."""
        me = asyncio.current_task()
        assert me is not None
        turn_began = self._clock.boottime()
        buffer, running, heartbeat = self.buffer, self.running, self._heartbeat
        count = 0
        while buffer:
            attempt, plan = buffer.popleft()
            if heartbeat.stops() and attempt.id in heartbeat.stops():
                attempt.cancelled, attempt.stop, attempt.started_at = True, Outcome.CANCELLED, self._clock.now()
                self._end_stopped(attempt, plan)
                continue
            running[attempt.id] = Running(attempt, plan, me, None if plan.timeout is None else self._clock.boottime() + plan.timeout)
            try:
                await self._run_one(attempt, plan, me)
            finally:
                del running[attempt.id]
            count += 1
            if count & 31 == 0 and self._clock.boottime() - turn_began > TURN:
                # Others (cancels, logs, the API beside us) get their turn.
                await asyncio.sleep(0)
                turn_began = self._clock.boottime()
        self.longest_run = max(self.longest_run, count)
        self._wake.set()

    async def _run_one(self, attempt: Attempt, plan: Plan, me: asyncio.Task[None]) -> None:
        attempt.started_at = self._clock.now()
        if plan.timeout is not None:
            attempt.deadline = attempt.started_at + plan.timeout
        try:
            if attempt.payload is None and plan.payload is not None:
                attempt.payload = msgspec.json.decode(plan.payload)
            result = await plan.run(attempt)
            encoded = None if result is None else _encode(result).decode()
            if encoded is not None and len(encoded) > LARGEST_RESULT:
                raise Failure(
                    f"the result has {len(encoded):,} characters; at most {LARGEST_RESULT:,} are kept", type="ResultTooLarge", retry=False
                )
            self._end(attempt, plan, Outcome.SUCCEEDED, State.SUCCEEDED, result=encoded)
            if me.cancelling():
                # A cancel came while the handler returned: it was too late for this one, and must not reach the next.
                await _swallow_cancel(me)
        except asyncio.CancelledError:
            if attempt.stop is None and me.cancelling():
                raise
            while me.cancelling():
                me.uncancel()
            self._end_stopped(attempt, plan)
        except Failure as failure:
            self._end_failed(attempt, plan, failure.type, _words(failure), failure.detail, failure)
        except GeneratorExit:
            raise
        except BaseException as error:
            # SystemExit and KeyboardInterrupt as well: a handler that calls sys.exit() must not end the worker.
            self._end_failed(attempt, plan, type(error).__name__, _words(error), _trace(error))

    # ------------------------------------------------------------ ending

    def _end_stopped(self, attempt: Attempt, plan: Plan) -> None:
        match attempt.stop:
            case Outcome.TIMED_OUT:
                limit = (plan.timeout or 0) / SECOND
                self._end_failed(attempt, plan, "TimedOut", f"ran longer than {limit:g} s", None, outcome=Outcome.TIMED_OUT)
            case Outcome.RELEASED:
                self._end(attempt, plan, Outcome.RELEASED, State.SCHEDULED, retry_at=attempt.due_at)
            case Outcome.CANCELLED:
                self._end(attempt, plan, Outcome.CANCELLED, State.CANCELLED, error='{"reason":"cancelled"}')
            case None:
                self._end_failed(attempt, plan, "CancelledError", "the handler cancelled itself", None)
            case _:
                # The lease is lost: nothing we say about it counts any more.
                pass

    def _end_failed(
        self,
        attempt: Attempt,
        plan: Plan,
        kind: str,
        message: str,
        detail: str | None,
        failure: Failure | None = None,
        outcome: Outcome = Outcome.FAILED,
    ) -> None:
        told = {"type": kind, "message": storable(message)[:4096]}
        if detail:
            told["detail"] = storable(detail)[-16_384:]
        error = _encode(told).decode()
        now = self._clock.now()
        chance = self._entropy(53) / (1 << 53)
        verdict = decide.after_failure(
            plan.version.spec.retry, attempt.failures, now, chance, error=error, retry=failure is None or failure.retry
        )
        retry_at = verdict.retry_at
        if retry_at is not None and failure is not None and failure.retry_after is not None:
            retry_at = now + failure.retry_after
        self._end(attempt, plan, outcome, verdict.state, error=error, retry_at=retry_at)

    def _end(
        self,
        attempt: Attempt,
        plan: Plan,
        outcome: Outcome,
        state: State,
        *,
        result: str | None = None,
        error: str | None = None,
        retry_at: Instant | None = None,
    ) -> None:
        if attempt.logs is not None:
            self._logs.ended(attempt)
        started, finished = attempt.started_at, self._clock.now()
        self.done.append(
            Finished(
                attempt.id,
                attempt.fence,
                outcome,
                state,
                started,
                finished,
                plan.job_id,
                plan.shard,
                attempt.holds_place,
                result,
                error,
                retry_at,
            )
        )
        self._wake.set()

    # ------------------------------------------------------------ stopping

    def stop_what_is_over(self) -> None:
        """One sweep over the running serves every deadline and every cancel: a timer per handler would cost more than the handler."""
        cancels, now = self._heartbeat.stops(), self._clock.boottime()
        for id, running in list(self.running.items()):
            if running.attempt.stop is not None:
                continue
            if id in cancels:
                running.attempt.cancelled = True
                running.attempt.stop = Outcome.CANCELLED
                running.task.cancel()
            elif running.limit is not None and running.limit <= now:
                running.attempt.stop = Outcome.TIMED_OUT
                running.task.cancel()

    def release_buffer(self) -> None:
        """Give back what has not started, at no cost in attempts."""
        while self.buffer:
            attempt, plan = self.buffer.popleft()
            attempt.started_at = self._clock.now()
            attempt.stop = Outcome.RELEASED
            self._end_stopped(attempt, plan)

    def release_all(self) -> None:
        """Give back everything that has not ended: the end of a drain's grace."""
        self.release_buffer()
        self._stop_running(Outcome.RELEASED)

    def forget(self) -> None:
        """The leases are lost: stop every handler, report nothing."""
        self.buffer.clear()
        self.done.clear()
        self._logs.clear()
        self._stop_running(Outcome.WORKER_LOST)

    def _stop_running(self, outcome: Outcome) -> None:
        for running in list(self.running.values()):
            if running.attempt.stop is None:
                running.attempt.stop = outcome
                running.task.cancel()


async def _swallow_cancel(me: asyncio.Task[None]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    while me.cancelling():
        me.uncancel()


def _words(error: BaseException) -> str:
    """What an error says, even when it cannot say it."""
    try:
        return str(error)
    except Exception:
        return f"(a {type(error).__name__} that cannot be printed)"


def _trace(error: BaseException) -> str:
    """The traceback from the user's own frame on."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(part in frame.filename.replace("\\", "/") for part in _OUR_FRAMES)]
    lines = traceback.format_list(own or list(frames))
    return "".join(["Traceback (most recent call last):\n", *lines, f"{type(error).__name__}: {_words(error)}\n"])
