"""The runners: tasks that empty a buffer of claimed attempts, one handler after the other.

A handler that ends at its first step costs no task and no turn of the loop; one that waits keeps only its
own runner. Whatever a handler raises ends its own attempt and nothing else: a runner never dies of it, and
an attempt that was taken in always comes out again as `done`, unless its lease is lost.

What has to stop is asked first (the token, the cancellation of its task) and ended when its grace is over:
asked a second time, a process is killed. What goes on even so, a thread or a coroutine, is left behind: its
attempt is reported, its slot is lost until it ends after all, and whatever it still writes is refused by the fence.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import msgspec

from duly.domain.execution import Finished
from duly.domain.ids import ExecutionId
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.lifecycle import Outcome
from duly.ports.clock import Clock, Entropy
from duly.ports.current import about_attempt
from duly.ports.handlers import Attempt
from duly.roles.breath import Breath
from duly.roles.calls import Running, Stopping, encoded_result, is_closed_from_outside, one_each, swallow_cancel
from duly.roles.endings import Endings, limit_reached
from duly.roles.heartbeat import Heartbeat
from duly.roles.log_pump import LogPump
from duly.roles.plans import Plan

log = logging.getLogger("duly.worker")

# How long runners may keep the loop before others get their turn.
TURN: Micros = 5_000
# How long what is given back or lost may take to stop: somebody else waits for it.
SHORT_GRACE: Micros = 2 * SECOND
# What is ended for good has this long to be gone before it is left behind.
LAST_WORDS: Micros = SECOND


class Runners:
    """What has been claimed and has not been reported: buffered, running, done."""

    def __init__(
        self,
        slots: int,
        heartbeat: Heartbeat,
        clock: Clock,
        entropy: Entropy,
        logs: LogPump,
        wake: asyncio.Event,
        to_report: asyncio.Event,
    ) -> None:
        self._slots = slots
        self._heartbeat = heartbeat
        self._clock = clock
        self._endings = Endings(heartbeat.worker, clock, entropy)
        self._logs = logs
        self._wake = wake
        self._to_report = to_report
        self._tasks: set[asyncio.Task[None]] = set()
        self._mates = 0
        self.buffer: deque[tuple[Attempt, Plan]] = deque()
        self.buffered_at: Micros = 0
        self.running: dict[ExecutionId, Running] = {}
        self.done: list[Finished] = []
        self.longest_run = 0  # of short handlers, by one runner
        self.left_behind = 0
        self.is_closed = False
        # How many have ended since the last look at who has room.
        self.freed = 0
        self.reporting = Breath(slots, to_report)
        self.taking = Breath(slots, wake)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, waits to run, or waits to be reported. What was left behind is not waited for."""
        return not (self.running or self.buffer or self.done or self._tasks)

    @property
    def calls(self) -> int:
        """How many handlers run; a batch is one."""
        return len(self.running) - self._mates

    @property
    def free(self) -> int:
        """Slots in which nothing runs."""
        return self._slots - self.calls - self.left_behind

    @property
    def is_busy(self) -> bool:
        """Whether handlers wait here, and more than half of the slots are taken."""
        return self.calls > self._slots // 2

    def known(self) -> set[ExecutionId]:
        """Every execution that is in here."""
        return {*self.running, *(attempt.id for attempt, _ in self.buffer), *(item.id for item in self.done)}

    def report(self) -> list[Finished]:
        """Take what has ended, unless it waits for a breath."""
        if self.buffer and self.reporting.is_held:
            return []
        done, self.done = self.done, []
        return done

    def speaking(self) -> list[Attempt]:
        """The running attempts that have logged something or told how far they are."""
        return [attempt for id, call in self.running.items() for attempt in call.attempts if attempt.id == id and not attempt.is_plain]

    def take_in(self, attempts: Iterable[tuple[Attempt, Plan]]) -> None:
        """Run these as slots allow."""
        if not self.buffer:
            self.buffered_at = self._clock.boottime()
        self.buffer.extend(attempts)
        self._start(1)
        if len(self.buffer) > 1:
            # Where handlers end at once, one runner has emptied the buffer by then, and tasks for all slots would cost more than they do.
            asyncio.get_running_loop().call_soon(self._start, self._slots)

    def look(self) -> None:
        """Somebody looks what there is room for: until something ends, he need not look again."""
        self.freed = 0
        self.taking.seen_to()

    def give_back(self, items: Sequence[Finished]) -> None:
        """What cannot be run here is to be reported."""
        self.done += items
        self._breathe()

    def _start(self, most: int) -> None:
        """Runners for what is buffered, as slots allow."""
        for _ in range(min(most, len(self.buffer), self._slots - len(self._tasks) - self.left_behind)):
            task = asyncio.create_task(self._run(), name="duly-runner")
            self._tasks.add(task)
            task.add_done_callback(self._gone)

    def _gone(self, task: asyncio.Task[None]) -> None:
        """A runner has ended. One that somebody has cancelled between two handlers, or that died of a fault, leaves its work to others."""
        self._tasks.discard(task)
        fault = asyncio.CancelledError() if task.cancelled() else task.exception()
        if fault is not None and not self.is_closed:
            log.error("a runner died", exc_info=fault)
            self._start(self._slots)

    # ------------------------------------------------------------ running

    async def _run(self) -> None:
        """Empty the buffer. Handlers share this task's context: one that sets a context variable should reset it, as in a thread pool."""
        me = asyncio.current_task()
        assert me is not None
        began = turn_began = self._clock.boottime()
        buffer, running, heartbeat, clock = self.buffer, self.running, self._heartbeat, self._clock.now
        call = Running(me)
        count = 0
        while buffer and not self.is_closed:
            attempt, plan = buffer.popleft()
            if (heartbeat.stops() or plan.execution_timeout is not None) and not self._may_begin(attempt, plan):
                continue
            if plan.run_many is not None:
                call.begin((attempt, *self._mates_of(plan)), plan)
                count += len(call.attempts)
                came_back = await self._run_many(call, plan.run_many)
            else:
                # All that a short handler costs stands here and in `_end_returned`: a call or a coroutine more is a tenth of it.
                call.begin((attempt,), plan)
                attempt.started_at = clock()
                if plan.timeout is not None or plan.execution_timeout is not None:
                    call.limit_it(attempt.started_at, self._clock.boottime())
                running[attempt.id] = call
                try:
                    if attempt.payload is None and plan.payload is not None:
                        attempt.payload = msgspec.json.decode(plan.payload)
                    if attempt.marked or plan.marked:
                        await plan.unveil(attempt)
                    self._end_returned(attempt, plan, await plan.run(attempt))
                except BaseException as error:
                    self._end_by(error, call)
                finally:
                    came_back = attempt.over
                    if not came_back:
                        del running[attempt.id]
                count += 1
            if me.cancelling():
                # A cancel that came while the handler ended must not reach the next one.
                await swallow_cancel(me)
            if came_back:
                # It had been left behind, and others have its work: its slot is free again.
                self.left_behind -= 1
                break
            if count & 31 == 0 and self._clock.boottime() - turn_began > TURN:
                # Others (cancels, logs, the API beside us) get their turn.
                await asyncio.sleep(0)
                turn_began = self._clock.boottime()
        # Not a turn of the loop later: what is taken in meanwhile needs another runner, and so does what was left when this one came back.
        self._tasks.discard(me)
        if buffer and not self.is_closed:
            self._start(self._slots)
        self.longest_run = max(self.longest_run, count if self._clock.boottime() - began < count * TURN else 0)
        self._breathe()

    def _may_begin(self, attempt: Attempt, plan: Plan) -> bool:
        """Whether it still has to run; what was cancelled, or is past its time, ends here."""
        now = attempt.started_at = self._clock.now()
        if attempt.id in self._heartbeat.stops():
            attempt.cancelled, attempt.stop = True, Outcome.CANCELLED
            self._end_stopped(attempt, plan)
            return False
        if plan.execution_timeout is not None and attempt.due_at + plan.execution_timeout <= now:
            self._end(attempt, self._endings.too_late(attempt, plan))
            return False
        return True

    def _mates_of(self, plan: Plan) -> list[Attempt]:
        """What else of this job version was claimed, taken from the buffer: up to a full batch, and nobody is waited for."""
        found: list[Attempt] = []
        rest: list[tuple[Attempt, Plan]] = []
        while self.buffer and len(found) < plan.batch - 1:
            attempt, other = self.buffer.popleft()
            if other is not plan:
                rest.append((attempt, other))
            elif self._may_begin(attempt, plan):
                found.append(attempt)
        self.buffer.extendleft(reversed(rest))
        return found

    async def _run_many(self, call: Running, run_many: Callable[[Sequence[Attempt]], Coroutine[Any, Any, Any]]) -> bool:
        """One call for a batch; each member ends on its own. True when the call had been left behind meanwhile."""
        attempts, plan = call.attempts, call.plan
        started = self._clock.now()
        call.limit_it(started, self._clock.boottime())
        for attempt in attempts:
            self.running[attempt.id] = call
            attempt.started_at = started
        self._mates += len(attempts) - 1
        try:
            for attempt in attempts:
                if attempt.payload is None and plan.payload is not None:
                    attempt.payload = msgspec.json.decode(plan.payload)
            ready = await self._unveil_members(call)
            results = one_each(await run_many(ready), len(ready)) if ready else ()
            for attempt, result in zip(ready, results, strict=True):
                if issubclass(type(result), BaseException):
                    self._end_raised(attempt, plan, result)
                else:
                    try:
                        self._end_returned(attempt, plan, result)
                    except BaseException as error:
                        # One result that cannot be kept is not its neighbours' fault.
                        self._end_raised(attempt, plan, error)
        except BaseException as error:
            self._end_by(error, call)
        finally:
            was_left_behind = self._forget_call(call)
        return was_left_behind

    async def _unveil_members(self, call: Running) -> Sequence[Attempt]:
        """Those whose secrets are in their places; one whose are not ends here, alone."""
        ready, failed = await call.plan.unveil_all(call.attempts)
        for nth, (attempt, error) in enumerate(failed):
            self._end_raised(attempt, call.plan, error)
            attempt.extras.over = True
            if (ready or nth) and self.running.pop(attempt.id, None) is not None:
                self._mates -= 1
        return ready

    def _forget_call(self, call: Running) -> bool:
        """The call is no longer counted. True: it was not any more, because it had been left behind."""
        ours = [attempt.id for attempt in call.attempts if self.running.get(attempt.id) is call]
        for id in ours:
            del self.running[id]
        self._mates -= max(len(ours) - 1, 0)
        return not ours

    # ------------------------------------------------------------ ending

    def _end_returned(self, attempt: Attempt, plan: Plan, result: Any) -> None:
        if attempt.stop is not None and attempt.stop is not Outcome.RELEASED:
            # It was asked to stop and came to its end: that is the stop, whatever it returns.
            self._end_stopped(attempt, plan)
            return
        self._end(attempt, self._endings.succeeded(attempt, plan, None if result is None else encoded_result(attempt, result)))

    def _end_by(self, error: BaseException, call: Running) -> None:
        """A call ended with this; what is meant for the runner itself goes on to it. Before the end a cancel is the handler's own."""
        is_cancel = issubclass(type(error), asyncio.CancelledError)
        if is_cancel and self.is_closed and any(attempt.stop is None for attempt in call.attempts):
            raise error
        if issubclass(type(error), GeneratorExit) and is_closed_from_outside(call.task):
            raise error
        for attempt in call.attempts:
            if is_cancel:
                self._end_stopped(attempt, call.plan)
            else:
                self._end_raised(attempt, call.plan, error)

    def _end_raised(self, attempt: Attempt, plan: Plan, error: BaseException) -> None:
        if attempt.stop is not None:
            self._end_stopped(attempt, plan)
        else:
            asked_to_stop = attempt.id in self._heartbeat.stops()
            self._end(attempt, self._endings.raised(attempt, plan, error, asked_to_stop=asked_to_stop))

    def _end_stopped(self, attempt: Attempt, plan: Plan) -> None:
        # A lost lease is not reported: nothing we say about it counts any more.
        if attempt.stop is not Outcome.WORKER_LOST:
            call = self.running.get(attempt.id)
            stopping = None if call is None else call.stopping
            why, note = (None, None) if stopping is None else (stopping.why, stopping.note)
            self._end(attempt, self._endings.stopped(attempt, plan, why, note))

    def _end(self, attempt: Attempt, report: Finished) -> None:
        if not attempt.is_plain:
            if attempt.over:
                return
            self._logs.ended(attempt)
        self.done.append(report)
        self.freed += 1
        if not (self.buffer and self.reporting.is_held):
            self._breathe()

    def _breathe(self) -> None:
        if self._wake.is_set() and self._to_report.is_set():
            return
        is_busy, is_emptying = self.is_busy, bool(self.buffer)
        self.reporting.after(len(self.done), is_busy=is_busy, is_emptying=is_emptying)
        if not is_emptying:
            # Nothing is taken while something waits to run.
            self.taking.after(self.freed, is_busy=is_busy, is_emptying=False)

    # ------------------------------------------------------------ stopping

    def stop_what_is_over(self) -> None:
        """One sweep over the running serves every limit and every cancel: a timer per handler would cost more than the handler."""
        if not self.running:
            return
        stops, now = self._heartbeat.stops(), self._clock.boottime()
        for call in list(dict.fromkeys(self.running.values())):
            if call.limit is not None or call.plan.heartbeat_timeout is not None:
                self._look_at_limits(call, now)
            if stops:
                self._look_at_cancels(call, stops, now)
            if call.stopping is not None and call.stopping.kill_at is not None and call.stopping.kill_at <= now:
                self._end_for_good(call, call.stopping, now)

    def _look_at_limits(self, call: Running, now: Micros) -> None:
        call.listen(now)
        if any(attempt.stop is None for attempt in call.attempts) and (why := limit_reached(call, now, self._clock.now())) is not None:
            call.watched().why = why
            self._ask(call, Outcome.TIMED_OUT, now + call.plan.stop_grace)

    def _look_at_cancels(self, call: Running, stops: dict[ExecutionId, Instant | None], now: Micros) -> None:
        for attempt in call.attempts:
            if attempt.id not in stops or attempt.over or attempt.stop not in (None, Outcome.CANCELLED):
                continue
            watched, kill_at = call.watched(), stops[attempt.id]
            # From the store's time to boottime, once: an hour's step of the clock must not kill anybody.
            known = watched.kill_at if len(call.attempts) == 1 else watched.kills.get(attempt.id)
            kill = known if known is not None or kill_at is None else now + max(kill_at - self._clock.now(), 0)
            if len(call.attempts) > 1:
                self._look_at_member(call, attempt, kill, now)
            elif attempt.stop is None:
                self._ask(call, Outcome.CANCELLED, kill)
            elif not watched.is_ended:
                watched.kill_at = kill

    def _look_at_member(self, call: Running, attempt: Attempt, kill: Micros | None, now: Micros) -> None:
        """A member of a batch is told; the call is cancelled when nobody is left in it who may go on."""
        attempt.cancelled, attempt.stop = True, Outcome.CANCELLED
        watched = call.watched()
        if kill is not None:
            watched.kills[attempt.id] = kill
        rest = [mate for mate in call.attempts if mate.stop is None]
        if not rest and not watched.is_asked:
            self._ask(call, Outcome.CANCELLED, max(watched.kills.values(), default=None))
        elif not rest and not watched.is_ended:
            watched.kill_at = watched.kill_at or max(watched.kills.values(), default=None)
        elif rest and kill is not None and kill <= now:
            # The call goes on for the others; this member's part in it ends here.
            self._end_stopped(attempt, call.plan)
            attempt.extras.over = True
            del self.running[attempt.id]
            self._mates -= 1

    def _ask(self, call: Running, outcome: Outcome, kill_at: Micros | None) -> None:
        for attempt in call.attempts:
            attempt.cancelled = True
            if attempt.stop is None:
                attempt.stop = outcome
        watched = call.watched()
        watched.kill_at = kill_at
        watched.is_asked = True
        call.task.cancel()

    def _end_for_good(self, call: Running, stopping: Stopping, now: Micros) -> None:
        if not stopping.is_ended:
            stopping.is_ended = True
            stopping.note = "it did not stop when it was asked and was ended"
            stopping.kill_at = now + LAST_WORDS
            call.task.cancel()
            return
        stopping.note = "it did not stop when it was asked and was left behind"
        about = about_attempt(call.attempts[0])
        log.warning("a handler of %s does not stop and is left behind", call.plan.version.spec.name, extra=about)
        for attempt in call.attempts:
            if not attempt.over:
                self._end_stopped(attempt, call.plan)
                attempt.extras.over = True
        self._forget_call(call)
        self._tasks.discard(call.task)
        self.left_behind += 1
        self._wake.set()

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
        self.stop_what_is_over()

    def _stop_running(self, outcome: Outcome) -> None:
        now = self._clock.boottime()
        for call in list(dict.fromkeys(self.running.values())):
            if any(attempt.stop is None for attempt in call.attempts):
                self._ask(call, outcome, now + min(call.plan.stop_grace, SHORT_GRACE))
            elif not (watched := call.watched()).is_ended:
                # It was asked before; now nobody has the time to wait for the rest of its grace.
                soon = now + SHORT_GRACE
                watched.kill_at = soon if watched.kill_at is None else min(watched.kill_at, soon)
            if outcome is Outcome.WORKER_LOST:
                for attempt in call.attempts:
                    attempt.stop = outcome
