"""A shift: a worker from its registration to its retirement, and again when it was lost.

At the stop it drains: no new claims, a grace period, the rest given back at no cost in attempts. So it does when a
handler would not stop and was left behind, if its process may be started again: nothing else frees what it holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from duly.domain.errors import Unavailable
from duly.domain.instants import SECOND, Micros
from duly.domain.restart import should_restart
from duly.ports.clock import Clock, Entropy
from duly.ports.handlers import Registry
from duly.ports.secrets import Secrets
from duly.ports.store import WorkerAbout
from duly.ports.transport import Transport
from duly.ports.work import WorkerStore
from duly.roles import loop
from duly.roles.heartbeat import Beating, Heartbeat, HeartbeatSettings, StartBeating
from duly.roles.inbox import Inbox, Mail
from duly.roles.worker import Worker, WorkerSettings

log = logging.getLogger("duly.worker")

# How long a lost worker waits for its handlers to stop before it starts anew without them.
PATIENCE: Micros = 10 * SECOND
# Seconds; only how often the waiting is renewed.
LISTEN_FOR = 60.0
# … and how long after it has failed.
DEAF_FOR = 1.0


class Shift:
    """Keeps one worker at work until `stop`."""

    def __init__(
        self,
        store: WorkerStore,
        transport: Transport,
        registry: Registry,
        clock: Clock,
        entropy: Entropy,
        settings: WorkerSettings,
        about: WorkerAbout,
        start_beating: StartBeating,
        *,
        heartbeat: HeartbeatSettings,
        grace: float,
        may_restart: bool = False,
        secrets: Secrets | None = None,
        mail: Mail | None = None,
        skew: Callable[[], Micros] | None = None,
    ) -> None:
        self._store = store
        self._transport = transport
        self._registry = registry
        self._clock = clock
        self._entropy = entropy
        self._settings = settings
        self._about = about
        self._start_beating = start_beating
        self._heartbeat = heartbeat
        self._grace = grace
        self._may_restart = may_restart
        self._secrets = secrets
        self._mail = mail
        # How far this machine's clock is ahead of the store's, where that is known.
        self._skew = skew
        # What workers that were lost have left behind: it runs in this process all the same.
        self._left_behind = 0
        self.wants_restart = False

    async def run(self, stop: asyncio.Event) -> None:
        """Work until the stop, then drain. A worker that was lost starts again as a new one.

        Ends by itself with `wants_restart` when its process should be started again.
        """
        while not stop.is_set() and not self.wants_restart:
            worker = await self._begin(stop)
            if worker is None:
                return
            beating = self._start_beating(worker.heartbeat, self._heartbeat.every / SECOND, worker.on_news())
            listening = asyncio.create_task(self._listen(beating), name="duly-cancels")
            watching = asyncio.create_task(loop.run(_Watching(worker), self._clock, asyncio.Event(), self._entropy), name="duly-watch")
            try:
                await self._work(worker, stop, asyncio.Event())
                self.wants_restart = self._should_restart(worker, stop)
                if self.wants_restart:
                    log.warning("a handler would not stop and was left behind: no new work, then this process starts again")
                if (stop.is_set() or self.wants_restart) and worker.heartbeat.is_trusted:
                    await self._drain(worker)
            finally:
                worker.close()
                beating.stop()
                for task in (listening, watching):
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
            self._left_behind += worker.left_behind
            if stop.is_set() or self.wants_restart:
                with contextlib.suppress(Unavailable):
                    await self._store.liveness.retire(worker.heartbeat.worker, self._clock.now())
            else:
                log.warning("worker %d was lost; starting again as a new one", worker.heartbeat.worker)
        self.wants_restart = self.wants_restart and not stop.is_set()

    def _should_restart(self, worker: Worker, stop: asyncio.Event) -> bool:
        left_behind = self._left_behind + worker.left_behind
        return should_restart(left_behind=left_behind, may_restart=self._may_restart, stopping=stop.is_set())

    async def _listen(self, beating: Beating) -> None:
        """A cancel reaches the worker with its next heartbeat; the hint makes that one come at once."""
        while True:
            try:
                if await self._transport.wait_cancel(LISTEN_FOR):
                    beating.beat_now()
            except Exception:
                # It is only a hint, and no reason for a worker to end.
                log.warning("cancels are heard with the heartbeats alone for a moment", exc_info=True)
                await asyncio.sleep(DEAF_FOR)

    async def _begin(self, stop: asyncio.Event) -> Worker | None:
        """Register; keeps trying while the store is away."""
        registration = _Registration(self)
        registered = asyncio.Event()
        registration.done = registered
        runner = asyncio.create_task(loop.run(registration, self._clock, registered, self._entropy))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({runner, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (runner, stopping):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return registration.worker

    async def register(self) -> Worker:
        """A new worker in the store, and its object here."""
        asked = self._clock.boottime()
        skew = None if self._skew is None else self._skew()
        about = replace(self._about, skew=skew)
        number = await self._store.liveness.register(self._settings.name, about, self._clock.now(), self._heartbeat.ttl)
        heartbeat = Heartbeat(number, self._clock, self._heartbeat, asked, self._skew, skew)
        store = self._store
        return Worker(
            self._settings,
            heartbeat,
            store.ready,
            store.outcomes,
            store.definitions,
            store.checkpoints,
            self._registry,
            self._clock,
            self._entropy,
            self._secrets,
            None if self._mail is None else Inbox(self._mail, self._clock),
            store.parents,
            to_report=asyncio.Event(),
        )

    async def _work(self, worker: Worker, stop: asyncio.Event, ended: asyncio.Event) -> None:
        """Step both halves of the worker, each at its own pace, until the stop or its loss."""

        async def watch(seconds: float) -> None:
            hint = self._transport.wait_ready(seconds) if self._mail is None else self._mail.courier.wait_mail(seconds)
            await _first(worker.wake.wait(), hint)

        def is_over() -> bool:
            return self._should_restart(worker, stop)

        taking = asyncio.create_task(loop.run(_UntilLost(worker, ended, is_over, self._clock), self._clock, ended, self._entropy, watch))
        reporting = asyncio.create_task(
            loop.run(_Reporting(worker), self._clock, ended, self._entropy, lambda seconds: worker.to_report.wait())
        )
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({taking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        ended.set()
        worker.wake.set()
        await taking
        await reporting

    async def _drain(self, worker: Worker) -> None:
        """No new claims; what runs may end within the grace; the rest goes back."""
        worker.draining = True
        with contextlib.suppress(Unavailable):
            await self._store.liveness.drain(worker.heartbeat.worker)
            await worker.settle_claim()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                await self._step_until_idle(worker)
        if not worker.is_idle:
            worker.release_all()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10.0):
                    await self._step_until_idle(worker)

    async def _step_until_idle(self, worker: Worker) -> None:
        idle = asyncio.Event()

        async def watch(seconds: float) -> None:
            await _first(worker.wake.wait(), worker.to_report.wait())

        await loop.run(_UntilIdle(worker, idle), self._clock, idle, self._entropy, watch)


class _Registration:
    """A role whose only step is to register."""

    name = "registration"

    def __init__(self, shift: Shift) -> None:
        self._shift = shift
        self.done = asyncio.Event()
        self.worker: Worker | None = None

    async def step(self, now: int) -> loop.Step:
        self.worker = await self._shift.register()
        self.done.set()
        return loop.Step(0.0)


class _Reporting:
    """The worker's reports."""

    name = "worker"

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def step(self, now: int) -> loop.Step:
        return await self._worker.report(now)


class _Watching:
    """Handlers are stopped in time, also while their worker waits for the store."""

    name = "watch"

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def step(self, now: int) -> loop.Step:
        return await self._worker.watch(now)


class _UntilLost:
    """The worker's other half, until its life is over."""

    name = "worker"

    def __init__(self, worker: Worker, ended: asyncio.Event, is_over: Callable[[], bool], clock: Clock) -> None:
        self._worker = worker
        self._ended = ended
        self._is_over = is_over
        self._clock = clock
        self._lost_at: Micros | None = None

    async def step(self, now: int) -> loop.Step:
        step = await self._worker.take(now)
        if not self._worker.heartbeat.is_trusted:
            boottime = self._clock.boottime()
            self._lost_at = boottime if self._lost_at is None else self._lost_at
            # A handler that will not stop is left behind: it writes under a lease that is gone.
            if self._worker.is_idle or boottime - self._lost_at >= PATIENCE:
                self._ended.set()
        elif self._is_over():
            self._ended.set()
        return step


class _UntilIdle:
    """The worker's steps, until nothing is left to run or report."""

    name = "worker"

    def __init__(self, worker: Worker, idle: asyncio.Event) -> None:
        self._worker = worker
        self._idle = idle

    async def step(self, now: int) -> loop.Step:
        step = await self._worker.step(now)
        if self._worker.is_idle:
            self._idle.set()
        return step


async def _first(*awaitables: Awaitable[object]) -> None:
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        # A cancel that comes while they end is meant for us: it must not be taken for one of theirs.
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
