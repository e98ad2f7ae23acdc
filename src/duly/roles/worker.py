"""The worker: claims, runs handlers, reports.

One step finishes what has ended and claims what there is room for, side by side on two connections.
Claimed attempts go into a buffer that runner tasks empty: a runner awaits one handler after the other, so
a handler that ends at its first step costs no task and no turn of the loop, and one that waits keeps only
its own runner. Short handlers therefore get large batches (the appetite doubles while everything ends at
once); as soon as one waits, the worker takes no more than its slots need.

Every write carries the lease: what the store refuses was given to another worker and is dropped here.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import msgspec

from duly.domain import decide
from duly.domain.execution import Claimed, Finished, LeaseId, WorkerId
from duly.domain.fairness import Work, share_out
from duly.domain.errors import Unavailable
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import JobVersion, satisfies
from duly.domain.lifecycle import Outcome, State
from duly.domain.shards import shard_of
from duly.ports.clock import Clock, Entropy
from duly.ports.handlers import Attempt, Failure, Registry
from duly.ports.store import Definitions, Outcomes, ReadyQueue
from duly.roles.heartbeat import Heartbeat
from duly.roles.log_pump import LogPump
from duly.roles.loop import Step

log = logging.getLogger("duly.worker")

COUNTED_TO = 64
LARGEST_RESULT = 1 << 20
_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What it serves and how much at once. `poll` is the truth; hints only make it earlier."""

    name: str
    pool: str = "default"
    labels: dict[str, str] = field(default_factory=dict)
    slots: int = 50
    largest_batch: int = 1000
    poll: float = 0.5
    look_for_work_every: Micros = 100_000
    look_for_routes_every: Micros = SECOND


@dataclass(slots=True)
class Plan:
    """How executions of one job version are run here: looked up once, used for every one of them."""

    version: JobVersion
    run: Callable[[Attempt], Coroutine[Any, Any, Any]]
    payload: bytes | None
    timeout: Micros | None
    job_id: JobId
    shard: int


class Worker:
    """One worker process's life between a registration and its loss or retirement."""

    name = "worker"

    def __init__(
        self,
        settings: WorkerSettings,
        heartbeat: Heartbeat,
        ready: ReadyQueue,
        outcomes: Outcomes,
        definitions: Definitions,
        registry: Registry,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self.settings = settings
        self.heartbeat = heartbeat
        self.wake = asyncio.Event()
        self._ready = ready
        self._outcomes = outcomes
        self._definitions = definitions
        self._registry = registry
        self._clock = clock
        self._entropy = entropy
        self._id: WorkerId = heartbeat.worker
        self._plans: dict[int, Plan] = {}
        self._buffer: deque[Attempt] = deque()
        self._running: dict[ExecutionId, tuple[Attempt, asyncio.Task[None]]] = {}
        self._runners: set[asyncio.Task[None]] = set()
        self._done: list[Finished] = []
        self._held: dict[LeaseId, int] = {}
        self._logs = LogPump(outcomes)
        self._routes: list[int] = []
        self._routes_looked_at: Micros = -(1 << 60)
        self._work: list[Work] = []
        self._work_looked_at: Micros = -(1 << 60)
        self._credit: dict[int, float] = {}
        self._appetite = settings.slots
        self._claim_is_unknown = False
        self.draining = False
        self.refused = 0

    # ------------------------------------------------------------ the step

    async def step(self, now: Instant) -> Step:
        """Report what has ended, take what there is room for."""
        self.wake.clear()
        if not self.heartbeat.is_trusted:
            self._stop_all(None)
            return Step(self.settings.poll, {"untrusted": 1})
        self._stop_what_is_over(now)
        await self._logs.send(self._id, [attempt for attempt, _ in self._running.values() if attempt.logs is not None])
        done, self._done = self._done, []
        room = self._room()
        if done and room:
            (_, claimed) = await asyncio.gather(self._finish(done, now), self._claim(room, now))
        else:
            if done:
                await self._finish(done, now)
            claimed = await self._claim(room, now) if room else 0
        did = {"finished": len(done), "claimed": claimed, "refused": self.refused}
        if claimed or self._done:
            return Step(0.0, did)
        return Step(self.settings.poll if not self._running else min(self.settings.poll, 0.25), did)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, waits to run, or waits to be reported."""
        return not (self._running or self._buffer or self._done or self._runners)

    def _room(self) -> int:
        if self.draining or self._buffer:
            return 0
        free = self.settings.slots - len(self._running)
        if len(self._running) > self.settings.slots // 4:
            # Handlers wait here: what we took beyond our slots would wait as well, though another worker may be free.
            self._appetite = self.settings.slots
        return 0 if free <= 0 else max(free, self._appetite - len(self._running))

    # ------------------------------------------------------------ claiming

    async def _claim(self, room: int, now: Instant) -> int:
        if self._claim_is_unknown:
            await self._adopt()
        await self._look_for_routes()
        if not self._routes:
            return 0
        await self._look_for_work()
        asks = share_out(room, self._work, self._credit, counted_to=COUNTED_TO)
        if not asks:
            return 0
        try:
            claimed = await self._ready.claim(self._id, asks, now)
        except Unavailable:
            # The lease may exist all the same, and our heartbeat would keep it alive for ever: ask before the next claim.
            self._claim_is_unknown = True
            raise
        wanted = sum(ask.quota for ask in asks)
        if claimed is None or len(claimed.ids) < wanted:
            # Somebody was faster, or the queue is shorter than we knew.
            self._work_looked_at = -(1 << 60)
        if claimed is None:
            return 0
        await self._take_in(claimed)
        return len(claimed.ids)

    async def _adopt(self) -> None:
        """After a claim whose answer was lost: run what we hold without knowing it."""
        for held in await self._ready.held_by(self._id):
            if held.lease not in self._held:
                await self._take_in(held)
        self._claim_is_unknown = False

    async def _look_for_routes(self) -> None:
        now = self._clock.boottime()
        if now - self._routes_looked_at < self.settings.look_for_routes_every:
            return
        offered = set(self._registry.names())
        self._routes = [
            route.number
            for route in await self._ready.routes()
            if route.pool == self.settings.pool and route.handler in offered and satisfies(self.settings.labels, route.labels)
        ]
        self._routes_looked_at = now

    async def _look_for_work(self) -> None:
        now = self._clock.boottime()
        if self._work and now - self._work_looked_at < self.settings.look_for_work_every:
            return
        self._work = await self._ready.work(self._routes, COUNTED_TO)
        self._work_looked_at = now

    async def _take_in(self, claimed: Claimed) -> None:
        plans = await self._learn(set(claimed.job_versions))
        self._held[claimed.lease] = len(claimed.ids)
        lease, clock, name = claimed.lease, self._clock.now, self.settings.name
        self._buffer.extend(
            [
                Attempt(id, attempt, failures, lease, due_at, plans[version].version, payload, clock, name, holds_place)
                for id, attempt, failures, version, due_at, holds_place, payload in zip(
                    claimed.ids, claimed.attempts, claimed.failures, claimed.job_versions, claimed.due_ats, claimed.holds_place, claimed.payloads, strict=True
                )
            ]
        )
        for _ in range(min(len(self._buffer), self.settings.slots - len(self._running))):
            runner = asyncio.create_task(self._run(), name="duly-runner")
            self._runners.add(runner)
            runner.add_done_callback(self._runners.discard)

    async def _learn(self, numbers: set[int]) -> dict[int, Plan]:
        unknown = sorted(numbers - self._plans.keys())
        if unknown:
            if len(self._plans) > 100_000:
                self._plans.clear()
                unknown = sorted(numbers)
            for number, version in (await self._definitions.versions(unknown)).items():
                spec = version.spec
                handler = self._registry.get(spec.target.handler_name)
                run = _unknown_handler(spec.target.handler_name) if handler is None else handler.run
                payload = None if spec.payload is None else spec.payload.encode()
                self._plans[number] = Plan(version, run, payload, spec.timeout, version.job_id, shard_of(version.job_id))
        return self._plans

    # ------------------------------------------------------------ running

    async def _run(self) -> None:
        """Empty the buffer, one handler after the other.

        The handlers share this task's context: a handler that sets a context variable should reset it, as in a thread pool.
        """
        me = asyncio.current_task()
        assert me is not None
        began = self._clock.boottime()
        buffer, running, plans = self._buffer, self._running, self._plans
        count = 0
        while buffer:
            attempt = buffer.popleft()
            running[attempt.id] = (attempt, me)
            await self._run_one(attempt, plans[attempt.version.number], me)
            del running[attempt.id]
            count += 1
            if count & 31 == 0 and self._clock.boottime() - began > 5_000:
                # Others (cancels, logs, the API beside us) get their turn.
                await asyncio.sleep(0)
                began = self._clock.boottime()
        if count > self.settings.slots // 2:
            self._appetite = min(self._appetite * 2, self.settings.largest_batch)
        self.wake.set()

    async def _run_one(self, attempt: Attempt, plan: Plan, me: asyncio.Task[None]) -> None:
        if attempt.payload is None and plan.payload is not None:
            attempt.payload = msgspec.json.decode(plan.payload)
        started = attempt.started_at = self._clock.now()
        if plan.timeout is not None:
            attempt.deadline = started + plan.timeout
        try:
            result = await plan.run(attempt)
            encoded = None if result is None else _encode(result).decode()
            if encoded is not None and len(encoded) > LARGEST_RESULT:
                raise Failure(f"the result has {len(encoded):,} characters; at most {LARGEST_RESULT:,} are kept", type="ResultTooLarge", retry=False)
            self._end(attempt, Outcome.SUCCEEDED, State.SUCCEEDED, result=encoded)
            if me.cancelling():
                # A cancel came while the handler returned: it was too late for this one, and must not reach the next.
                await _swallow_cancel(me)
        except asyncio.CancelledError:
            if attempt.stop is None and me.cancelling():
                raise
            if me.cancelling():
                me.uncancel()
            self._end_stopped(attempt)
        except Failure as failure:
            self._end_failed(attempt, failure.type, str(failure), failure.detail, failure)
        except Exception as error:
            self._end_failed(attempt, type(error).__name__, str(error), _trace(error), None)

    def _end_stopped(self, attempt: Attempt) -> None:
        match attempt.stop:
            case Outcome.TIMED_OUT:
                limit = (attempt.version.spec.timeout or 0) / SECOND
                self._end_failed(attempt, "TimedOut", f"ran longer than {limit:g} s", None, None, Outcome.TIMED_OUT)
            case Outcome.RELEASED:
                self._end(attempt, Outcome.RELEASED, State.SCHEDULED, retry_at=attempt.due_at)
            case Outcome.CANCELLED:
                self._end(attempt, Outcome.CANCELLED, State.CANCELLED, error='{"reason":"cancelled"}')
            case None:
                self._end_failed(attempt, "CancelledError", "the handler cancelled itself", None, None)
            case _:
                pass

    def _end_failed(self, attempt: Attempt, kind: str, message: str, detail: str | None, failure: Failure | None, outcome: Outcome = Outcome.FAILED) -> None:
        error = _encode({"type": kind, "message": _clean(message)[:4096], **({"detail": _clean(detail)[-16384:]} if detail else {})}).decode()
        now = self._clock.now()
        chance = self._entropy(53) / (1 << 53)
        verdict = decide.after_attempt(attempt.version.spec.retry, outcome, attempt.failures, now, chance, error=error, retry=failure is None or failure.retry)
        retry_at = verdict.retry_at
        if retry_at is not None and failure is not None and failure.retry_after is not None:
            retry_at = now + failure.retry_after
        self._end(attempt, outcome, verdict.state, error=error, retry_at=retry_at)

    def _end(
        self, attempt: Attempt, outcome: Outcome, state: State, *, result: str | None = None, error: str | None = None, retry_at: Instant | None = None
    ) -> None:
        self._logs.ended(attempt)
        plan = self._plans[attempt.version.number]
        self._done.append(
            Finished(attempt.id, attempt.fence, outcome, state, attempt.started_at, self._clock.now(), plan.job_id, plan.shard, attempt.holds_place, result, error, retry_at)
        )
        self.wake.set()

    # ------------------------------------------------------------ stopping

    def _stop_what_is_over(self, now: Instant) -> None:
        """One sweep over the running serves every deadline and every cancel: a timer per handler would cost more than the handler."""
        cancels = self.heartbeat.cancels()
        for id, (attempt, task) in list(self._running.items()):
            if attempt.stop is not None:
                continue
            if id in cancels:
                attempt.cancelled = True
                attempt.stop = Outcome.CANCELLED
                task.cancel()
            elif attempt.deadline is not None and attempt.deadline <= now:
                attempt.stop = Outcome.TIMED_OUT
                task.cancel()

    def _stop_all(self, outcome: Outcome | None) -> None:
        """Stop every handler. With an outcome it is reported; without, the leases are lost and nothing we say counts any more."""
        if outcome is None:
            self._buffer.clear()
            self._done.clear()
            self._held.clear()
            self._logs.clear()
        for attempt, task in list(self._running.values()):
            if attempt.stop is None:
                attempt.stop = outcome or Outcome.WORKER_LOST
                task.cancel()

    def release_all(self) -> None:
        """Give back what has not ended, at no cost in attempts: the end of a drain's grace."""
        while self._buffer:
            attempt = self._buffer.popleft()
            attempt.started_at = self._clock.now()
            attempt.stop = Outcome.RELEASED
            self._end_stopped(attempt)
        self._stop_all(Outcome.RELEASED)

    # ------------------------------------------------------------ reporting

    async def _finish(self, done: list[Finished], now: Instant) -> None:
        held = self._held
        closing: list[LeaseId] = []
        for item in done:
            left = held.get(item.lease, 0) - 1
            held[item.lease] = left
            if left <= 0:
                closing.append(item.lease)
        try:
            refused = await self._outcomes.finish(self._id, done, closing, now)
        except Unavailable:
            # Unknown: it is sent again as it is, and what was recorded the first time counts as accepted.
            for item in done:
                held[item.lease] += 1
            self._done = done + self._done
            raise
        for lease in closing:
            held.pop(lease, None)
        if refused:
            self.refused += len(refused)
            log.warning("the store refused %d finished attempts: their leases were lost", len(refused))

    def on_news(self) -> Callable[[], None]:
        """A callback for the heartbeat's thread: the worker looks at once."""
        loop = asyncio.get_running_loop()

        def ring() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.wake.set)

        return ring


def _unknown_handler(name: str) -> Callable[[Attempt], Coroutine[Any, Any, Any]]:
    """Routes keep this from happening; a handler may be gone all the same when a lease is adopted."""

    async def run(attempt: Attempt) -> Any:
        raise Failure(f"this worker does not offer {name!r}", type="UnknownHandler")

    return run


async def _swallow_cancel(me: asyncio.Task[None]) -> None:
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        pass
    while me.cancelling():
        me.uncancel()


def _trace(error: BaseException) -> str:
    """The traceback without our own frames above the handler's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/duly/roles/" not in frame.filename.replace("\\", "/")]
    return "".join(["Traceback (most recent call last):\n", *traceback.format_list(own or list(frames)), *traceback.format_exception_only(error)])


def _clean(text: str) -> str:
    """Text that every store can keep."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()

