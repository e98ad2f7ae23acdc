"""One test's world: its time, its store, its fleet, and a way to look at them from outside."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import msgspec

from duly.domain.durations import format_duration
from duly.domain.errors import NotFound, Unavailable
from duly.domain.execution import Attempt, Execution, LogLine
from duly.domain.ids import ExecutionId, execution_text
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import Job
from duly.domain.lifecycle import State
from duly.ports.store import ExecutionFilter
from duly.sdk.app import App
from duly.sdk.blocking import BlockingApp
from duly.sdk.connection import Connection
from duly.testing import strands
from duly.testing.clocks import NodeClock, StoreClock
from duly.testing.crew import places
from duly.testing.database import VirtualEngine, at_once, give_back, lend
from duly.testing.fleet import Fleet
from duly.testing.runs import MOST_LOG_LINES
from duly.testing.worlds import TestLoop
from duly.usecases.executions import Executions

T = TypeVar("T")
AT_ONCE = 500


class World:
    """Opened when a test begins, and closed when it ends: then nothing of it is left."""

    def __init__(
        self,
        app: App,
        start: Instant,
        *,
        workers: int,
        slots: int,
        seed: int,
        secrets: Mapping[str, str],
        runs_work: bool,
        is_inline: bool,
    ) -> None:
        self._stack = contextlib.ExitStack()
        self._app = app
        self.database = lend()
        self.database.begin()
        self._stack.callback(give_back, self.database)
        self.loop = TestLoop(seed, lambda: self.fleet.is_busy)
        self._stack.callback(self._bury)
        store_clock = StoreClock(self.loop, start)
        self.clock = NodeClock(self.loop, store_clock, 0)
        self.store_clock = store_clock
        self.engine = VirtualEngine(self.database, store_clock.now)
        self._is_inline = is_inline
        self._turn = threading.RLock()
        self._is_running = False
        # Something was enqueued that is to run at once.
        self._owes = False
        self._stack.enter_context(self._app.borrowed(self._connect, _Blocking(app, self)))
        self._stack.enter_context(_virtual_sleep())
        self.fleet = Fleet(app, self.loop, store_clock, self.clock, self.engine, workers, slots, seed, runs_work, secrets)
        self.connection = self.fleet.connection = replace(self.fleet.connection, executions=self._noticing(self.fleet.executions))
        try:
            self.run(self.fleet.open())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """The end. What handlers of processes that were killed have left behind is buried."""
        self._stack.close()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run it on the loop of the test, and whatever else can run meanwhile."""
        if self._is_running:
            # From inside, by somebody who blocks the loop: the store answers at once.
            return at_once(call)
        with self._moving():
            result = self._awaited(call)
        return self._settled(result)

    def travel(self, until: Instant) -> None:
        """Let time pass until then."""
        with self._moving():
            self.fleet.travel(until)
        self._settled(None)

    def drain(self, *, with_waits: bool, longest: Micros) -> bool:
        """Run what is ready, and with it what waits for a time; whether all of it came to its end."""
        with self._moving():
            has_ended = self._drain(with_waits, longest)
        return self._settled(has_ended)

    def run_one(self, only: Sequence[str], longest: Micros) -> ExecutionId | None:
        """Run the next execution that is ready, of these handlers if some are named; None when there is none."""
        with self._moving():
            begun = self._run_one(only, longest)
        return self._settled(begun)

    @contextlib.contextmanager
    def _moving(self) -> Iterator[None]:
        """Whoever is inside moves time, and nobody else."""
        if self._is_running:
            raise RuntimeError("time cannot be moved from inside of what runs in it")
        with self._turn:
            self._is_running = True
            try:
                with self.loop.running():
                    yield
            finally:
                self._is_running = False

    def _awaited(self, call: Coroutine[Any, Any, T]) -> T:
        main = self.loop.outside.spawn(call)
        self.loop.run_until(main)
        result: T = main.result()
        return result

    def _settled(self, result: T) -> T:
        self._raise_problems()
        if self._owes:
            self.drain_at_once()
        return result

    def _raise_problems(self) -> None:
        if self.loop.problems:
            told, self.loop.problems = self.loop.problems, []
            raise RuntimeError("in the background: " + "; ".join(told))

    def _bury(self) -> None:
        self.loop.bury()
        strands.end_those_left()

    async def _connect(self) -> Connection:
        return self.connection

    def _noticing(self, executions: Executions) -> Any:
        return _RunsAtOnce(executions, self) if self._is_inline else executions

    def drain_at_once(self) -> None:
        """Of a world where everything that is enqueued runs at once: do it, unless it comes from a handler that runs already."""
        self._owes = self._is_running
        if not self._is_running:
            self.drain(with_waits=True, longest=365 * 86_400 * SECOND)

    # ------------------------------------------------------------ working

    def _drain(self, with_waits: bool, longest: Micros) -> bool:
        fleet = self.fleet
        temporary = [] if fleet.runs_work else self._awaited(fleet.hire_all())
        try:
            return fleet.travel_while(lambda: fleet.is_busy or self._has_work(with_waits), longest)
        finally:
            for hired in temporary:
                if hired in fleet.hired:
                    self._awaited(fleet.dismiss(hired))

    def _has_work(self, with_waits: bool) -> bool:
        counts = self.look(self.fleet.store.insights.standing_counts(self.fleet.actor.tenant))
        return with_waits and bool(counts.get(State.SCHEDULED))

    def _run_one(self, only: Sequence[str], longest: Micros) -> ExecutionId | None:
        fleet = self.fleet
        names: list[str | None] = [*only] or [None]
        standing, fleet.hired = fleet.hired, []
        try:
            for pool, labels in places(self._app):
                for name in names:
                    fleet.stage.begun = None
                    hired = self._awaited(fleet.hire(pool, labels, slots=1, only=name))
                    fleet.step(hired, self.clock.now())
                    hired.worker.draining = True
                    fleet.travel_while(partial(fleet.is_at_work, hired), longest)
                    if hired in fleet.hired:
                        self._awaited(fleet.dismiss(hired))
                    if (begun := fleet.stage.last_begun()) is not None:
                        return begun
        finally:
            fleet.hired = standing + fleet.hired
            # Those who stood aside may have been rung for.
            fleet.alarm.is_heard = False
        return None

    # ------------------------------------------------------------ looking

    def look(self, call: Coroutine[Any, Any, T]) -> T:
        """What a question to the store answers, at once and whatever was injected."""
        with self.fleet.undisturbed():
            return at_once(call)

    def execution(self, id: ExecutionId) -> Execution:
        """Where it stands."""
        found = self.look(self.fleet.store.insights.execution(self.fleet.actor.tenant, id))
        if found is None:
            raise NotFound("DULY-E205", f"There is no execution {execution_text(id)} in this test.")
        return found

    def executions(self, job: Job | None) -> list[Execution]:
        """All of a job, or of all jobs, oldest first."""
        found: list[Execution] = []
        before: ExecutionId | None = None
        while True:
            wanted = ExecutionFilter(self.fleet.actor.tenant, None if job is None else job.id, before=before, limit=AT_ONCE)
            page = self.look(self.fleet.store.insights.executions(wanted))
            found += page
            if len(page) < AT_ONCE:
                return found[::-1]
            before = page[-1].id

    def fires(self, job: Job) -> list[Instant]:
        """The times that its fires stand for, but for those that were skipped. A year of them is asked for at once."""
        rows = self.engine.look("fires_of_job", {"tenant": self.fleet.actor.tenant, "job_id": job.id})
        return [row["at"] for row in rows]

    def job(self, name: str) -> Job | None:
        """The job of that name."""
        return self.look(self.fleet.jobs.named(self.fleet.actor, name))

    def attempts(self, id: ExecutionId) -> list[Attempt]:
        """Every attempt, first to last."""
        return self.look(self.fleet.store.insights.attempts(id))

    def logs(self, id: ExecutionId) -> list[LogLine]:
        """Everything that was logged."""
        return [line for _, _, line in self.look(self.fleet.store.insights.logs(id, None, 0, MOST_LOG_LINES))]

    def checkpoint(self, id: ExecutionId) -> Any:
        """The last checkpoint's value."""
        saved = self.look(self.fleet.store.checkpoints.saved([id])).get(id)
        return None if saved is None or saved.checkpoint is None else msgspec.json.decode(saved.checkpoint)

    def resumed_from(self, id: ExecutionId, attempt: int) -> Any:
        """The checkpoint that an attempt began with."""
        return self.fleet.stage.resumed.get((id, attempt))

    def cancel(self, id: ExecutionId) -> None:
        """Ask it to stop."""
        self.run(self.fleet.executions.cancel(self.fleet.actor, id))

    def why_not_killed(self, id: ExecutionId) -> str:
        """A word about a worker that was to be killed and was not."""
        script = self.fleet.stage.by_execution.get(id)
        if script is None or script.kill_after is None or script.was_killed:
            return ""
        return f" Its worker was not killed: no attempt has run for {format_duration(script.kill_after)} of virtual time."

    # ------------------------------------------------------------ faults

    def slow(self, by: Micros) -> None:
        """Every call of the store takes so long from now on."""

        async def pause() -> None:
            await asyncio.sleep(by / SECOND)

        self.engine.pause = pause if by else None

    def away(self) -> None:
        """The store does not answer from now on."""

        async def refuse() -> None:
            raise Unavailable("DULY-E501", "The store does not answer: the test has taken it away.")

        self.engine.pause = refuse

    def skew(self, by: Micros) -> None:
        """The store's clock is set, ahead or back; the others notice when they next look."""
        self.store_clock.step(by)
        self.fleet.keep_time_in(20 * SECOND)


class _Blocking(BlockingApp):
    """`app.sync` in a test: from a handler's strand its call is awaited on the loop, from the test itself it is run there."""

    def __init__(self, app: App, world: World) -> None:
        super().__init__(app)
        self._world = world

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        strand = strands.current()
        return self._world.run(call) if strand is None else strand.wait(call)

    def close(self) -> None:
        """There is no thread."""


class _RunsAtOnce:
    """Where executions come in, for a test in which each runs as soon as it is enqueued."""

    def __init__(self, inner: Executions, world: World) -> None:
        self._inner = inner
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def enqueue_for(self, *args: Any, **kwargs: Any) -> Any:
        made = await self._inner.enqueue_for(*args, **kwargs)
        self._world.drain_at_once()
        return made

    async def submit(self, *args: Any, **kwargs: Any) -> Any:
        made = await self._inner.submit(*args, **kwargs)
        self._world.drain_at_once()
        return made


_open: list[object] = []


@contextlib.contextmanager
def _virtual_sleep() -> Iterator[None]:
    """`time.sleep` takes virtual time where a handler calls it, for as long as any world is open."""
    _open.append(None)
    time.sleep = strands.sleep
    try:
        yield
    finally:
        _open.pop()
        if not _open:
            time.sleep = strands.real_sleep
