"""The real roles on the real store, stepped from one instant to the next: nobody polls, and nobody sleeps.

In production a role looks again every so often, because a hint may be lost. Here none is, so each is stepped when something is due or was
rung for, and time jumps to whatever comes next: a fire, a timer, a limit, the end of a handler's sleep. While something waits for
something else, or after a fault, everybody looks after a while all the same, and ever more rarely as long as nothing changes.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from duly.adapters.memory.hot_index import MemoryHotIndex
from duly.adapters.sql.store import store_on
from duly.adapters.system.vault import Vault
from duly.domain.access import DEFAULT_TENANT, DEFAULT_TENANT_NUMBER, Actor, Role
from duly.domain.errors import Unavailable
from duly.domain.instants import DAY, HOUR, SECOND, Instant, Micros
from duly.domain.redaction import Veil
from duly.executors.builtin import builtin_handlers
from duly.executors.python import python_handlers
from duly.ports.handlers import Registry
from duly.ports.store import WorkerAbout
from duly.roles.conductor import ConductorRole
from duly.roles.dispatcher import Dispatcher, DispatcherSettings
from duly.roles.heartbeat import Heartbeat, HeartbeatSettings
from duly.roles.loop import FIRST_BACKOFF
from duly.roles.ownership import Ownership, OwnershipSettings
from duly.roles.sweeper import Sweeper, SweeperSettings
from duly.roles.timekeeper import Timekeeper
from duly.roles.worker import Worker, WorkerSettings
from duly.sdk.app import App
from duly.sdk.connection import Connection
from duly.testing.bells import Alarm, Switchboard, Wake
from duly.testing.clocks import NodeClock, StoreClock
from duly.testing.crew import Hired, TestDependents, TestSchedules, in_order, places
from duly.testing.database import VirtualEngine, on_few_shards
from duly.testing.outlook import Outlook, soonest
from duly.testing.stage import Stage
from duly.testing.worlds import TestLoop
from duly.usecases.calendars import Calendars
from duly.usecases.conduct.beside import Beside
from duly.usecases.conduct.conductor import Conductor
from duly.usecases.conduct.handing import conducted
from duly.usecases.executions import Executions
from duly.usecases.jobs import Jobs
from duly.usecases.overdue import Overdue
from duly.usecases.quotas import Directory
from duly.usecases.workflows import Workflows

# Who lives needs no heartbeat here; who was killed is missed after as long as in production.
FOR_EVER: Micros = 100_000 * DAY
WORKER_TTL = HeartbeatSettings().ttl
# The first look at what is under way, and the longest rest between two.
FIRST_ROUND: Micros = 3 * SECOND
LONGEST_ROUND: Micros = HOUR
# How many steps may follow one another at one instant.
MOST_ROUNDS = 100_000


@dataclass
class Fleet:
    """A dispatcher, a sweeper, a conductor and workers in one process each."""

    app: App
    loop: TestLoop
    store_clock: StoreClock
    clock: NodeClock
    engine: VirtualEngine
    workers: int = 1
    slots: int = 50
    seed: int = 0
    runs_work: bool = True
    secrets: Mapping[str, str] = field(default_factory=dict)
    alarm: Alarm = field(default_factory=Alarm)
    hired: list[Hired] = field(default_factory=list)
    is_down: bool = False
    # Something was injected: what is under way may have been lost.
    has_faults: bool = False

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)  # noqa: S311
        self.entropy = in_order(chance.getrandbits)
        self._vault = Vault(self.secrets, None, Veil())
        self.bell = bell = Switchboard(self.alarm.ring)
        plain = replace(store_on(self.engine), schedules=TestSchedules(self.engine))
        clock = self.clock
        # Nobody can change them here.
        self.quotas = Directory(plain.tenants, clock, trusted_for=FOR_EVER)
        self.conductor = Conductor(plain.flows, plain.definitions, plain.cancels, self.quotas, bell, clock)
        dependents = TestDependents(plain.awaited, bell, clock, lambda: bool(self.engine.look("awaited_jobs", {})))
        self.store = store = conducted(plain, self.conductor, Beside(), dependents)
        of_jobs = on_few_shards(self.entropy, clock, 1)
        self.jobs = Jobs(store.definitions, Overdue(store.schedules, store.leases, self.quotas, bell), self.quotas, clock, of_jobs, bell)
        self.executions = Executions(self.jobs, store.intake, store.cancels, store.insights, self.quotas, clock, self.entropy, bell)
        self.workflows = Workflows(store.flows, self.executions, self.jobs, self.conductor, store.keys, clock)
        self.actor = Actor(DEFAULT_TENANT_NUMBER, DEFAULT_TENANT, Role.ADMIN, "code", channel="sdk")
        calendars = Calendars(store.calendars, clock, bell)
        self.connection = Connection(self.jobs, self.executions, self.actor, clock, of_jobs, _nothing, lambda: None, calendars)
        self.stage = Stage(self.kill_named)
        self.sweeper = Sweeper(store.losses, SweeperSettings())
        self.conducting = ConductorRole(self.conductor, bell)
        self._has_workflows = bool(self.app.workflows)
        self.keeper = Timekeeper(clock, store.health)
        self._outlook = Outlook(self.engine)
        self._starts = 0
        self._round_at: Instant | None = None
        self._rest = FIRST_ROUND
        # When workers that were killed are missed.
        self._missed_at: list[Instant] = []
        self._keep_time_at: Instant | None = None
        # Whether something was ready when everybody had answered.
        self._has_left = False
        # The instant and the count of writes after the last step of the dispatcher: until either changes, it has nothing to do.
        self._dispatched: tuple[Instant, int] = (-1, -1)

    async def open(self) -> None:
        """Bring the jobs, and everybody to their places."""
        await self.keeper.step(0)
        self.app.use(self.connection)
        await self.app.publish()
        self.start()
        if self.runs_work:
            await self.hire_all()

    def start(self) -> None:
        """A dispatcher of a new name."""
        self._starts += 1
        settings = OwnershipSettings(ttl=FOR_EVER, renew_every=FOR_EVER, patience=FOR_EVER)
        self.ownership = Ownership(f"dispatcher-{self._starts}", self.store.leases, self.clock, settings)
        self.dispatcher = Dispatcher(
            self.ownership,
            self.store.schedules,
            self.store.definitions,
            self.quotas,
            MemoryHotIndex(),
            self.bell,
            self.clock,
            DispatcherSettings(),
        )
        self._dispatched = (-1, -1)

    # ------------------------------------------------------------ workers

    async def hire_all(self) -> list[Hired]:
        """So many workers that every job has somebody who serves it."""
        return [await self.hire(pool, labels) for pool, labels in places(self.app) for _ in range(self.workers)]

    async def hire(self, pool: str, labels: Mapping[str, str], *, slots: int | None = None, only: str | None = None) -> Hired:
        """A new worker: for everything that it fits, or for one handler alone."""
        self._starts += 1
        name = f"worker-{self._starts}"
        registry = Registry()
        calls = self.stage.calls(self.app.calls())
        for handler in (*builtin_handlers(), *python_handlers(calls, threads=0, processes=None)):
            if only is None or handler.name == only:
                registry.add(handler)
        slots = slots or self.slots
        node, wake, store = self.loop.add_node(name), Wake(self.alarm), self.store
        about = WorkerAbout(pool=pool, labels=dict(labels), handlers=registry.names(), slots=slots, takes=registry.takes())
        number = await store.liveness.register(name, about, self.clock.now(), FOR_EVER)
        settings = WorkerSettings(
            name=name,
            pool=pool,
            labels=dict(labels),
            slots=slots,
            largest_batch=slots,
            look_for_work_every=0,
            look_for_routes_every=FOR_EVER,
            compare_every=FOR_EVER,
        )
        worker = Worker(
            settings,
            Heartbeat(number, self.clock, HeartbeatSettings(ttl=FOR_EVER), self.clock.boottime()),
            store.ready,
            store.outcomes,
            store.definitions,
            store.checkpoints,
            registry,
            self.clock,
            self.entropy,
            self._vault,
            parents=store.parents,
            wake=wake,
        )
        hired = Hired(worker, node, wake)
        self.hired.append(hired)
        wake.set()
        return hired

    async def dismiss(self, hired: Hired) -> None:
        """It has ended everything, and goes."""
        self.hired.remove(hired)
        hired.worker.close()
        await self.store.liveness.retire(hired.worker.heartbeat.worker, self.clock.now())

    def kill_named(self, name: str) -> None:
        """The process of that worker ends in the middle of whatever it does; somebody starts another one."""
        for hired in [hired for hired in self.hired if hired.worker.settings.name == name]:
            self._kill(hired)
            _ = self.loop.outside.spawn(self._replace(hired))

    async def go_down(self) -> None:
        """Every process ends at once, and nobody starts another."""
        self.is_down = True
        for hired in list(self.hired):
            self._kill(hired)
            await self._miss(hired)
        await self.ownership.leave(self.clock.now())

    async def come_up(self) -> None:
        """Everybody is there again, as new processes."""
        self.is_down = False
        self.start()
        if self.runs_work:
            await self.hire_all()

    def _kill(self, hired: Hired) -> None:
        self.has_faults = True
        self.hired.remove(hired)
        self.loop.crash(hired.node)

    async def _replace(self, hired: Hired) -> None:
        await self._miss(hired)
        await self.hire(hired.worker.settings.pool, hired.worker.settings.labels)
        self.alarm.ring()

    async def _miss(self, hired: Hired) -> None:
        """Its last heartbeat was now: the store gives its work away when the next ones have not come."""
        with self.undisturbed():
            await self.store.liveness.renew(hired.worker.heartbeat.worker, self.clock.now(), WORKER_TTL)
        self._missed_at.append(self.clock.now() + WORKER_TTL)

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """The store answers at once, whatever was injected: for who stands outside."""
        pause, self.engine.pause = self.engine.pause, None
        try:
            yield
        finally:
            self.engine.pause = pause

    @property
    def is_busy(self) -> bool:
        """Whether a handler runs, or its end has not been reported."""
        return any(not hired.worker.is_idle for hired in self.hired)

    def is_at_work(self, hired: Hired) -> bool:
        """Whether this one is still here, and has something that runs or is not reported."""
        return hired in self.hired and not hired.worker.is_idle

    # ------------------------------------------------------------ stepping

    def travel(self, until: Instant) -> None:
        """Let time pass until then; whatever comes due meanwhile is done at its instant."""
        while True:
            self.settle()
            now = self.clock.now()
            coming = self._next_instant(now)
            if coming is None or coming > until:
                coming = until
            if coming <= now and now >= until:
                # Handlers that end without waiting have not ended yet: they are let run before time is up.
                self.loop.run_to(self.loop.now, self.alarm)
                if not self._is_rung():
                    return
            else:
                self.loop.run_to(self.loop.now + (coming - now) / SECOND, self.alarm)

    def travel_while(self, goes_on: Callable[[], bool], longest: Micros) -> bool:
        """Let time pass for as long as that holds, at most so long; whether it came to its end."""
        until = self.clock.now() + longest
        while True:
            self.settle()
            now = self.clock.now()
            self.loop.run_to(self.loop.now, self.alarm)
            if self._is_rung():
                continue
            if not goes_on():
                return True
            coming = self._next_instant(now)
            if coming is None or now >= until:
                return False
            self.loop.run_to(self.loop.now + (min(coming, until) - now) / SECOND, self.alarm)

    def settle(self) -> None:
        """Step whoever has something to do now, until nobody has."""
        for _ in range(MOST_ROUNDS):
            if not self._answer() and not self._do_what_is_due():
                return
        raise RuntimeError("the roles turn in a circle: this is a fault of Duly's")

    def _answer(self) -> bool:
        """Step those who were rung for; False when nobody was."""
        bell = self.bell
        if self.is_down:
            bell.silence()
            return False
        if not self._is_rung():
            return False
        now = self.clock.now()
        is_ready, is_flow, is_cancel = bell.is_ready, bell.is_flow, bell.is_cancel
        # What is ready stands on one route, if nothing was left before and only that was named: then nobody has to look for it.
        route = None if self._has_left else bell.route
        bell.silence()
        if is_flow and self._has_workflows:
            self._tried(self.conducting.step(now))
        for hired in list(self.hired):
            if is_cancel:
                self._tried(hired.worker.heartbeat.beat(self.store.liveness))
            if is_ready or is_cancel or hired.wake.is_set():
                if is_ready and route is not None:
                    hired.worker.expected = (route, self.actor.tenant)
                self.step(hired, now, is_ready=is_ready)
                if is_ready:
                    # What the first one has left, if anything, is for the next.
                    is_ready = self._has_work()
                    if is_ready and route is not None:
                        # There was something else after all, or more than it has room for: it looks.
                        hired.wake.set()
        # What was claimed begins, and what ends at once has ended when the worker is stepped again.
        self._let_run()
        for hired in self.hired:
            # It would take a breath before it reports; here nothing is gained by that, and the instant would be over.
            if hired.worker.has_ended:
                hired.wake.set()
        self._has_left = self._has_work()
        return True

    def _let_run(self) -> None:
        """Let handlers run, until they wait for something or somebody has to be stepped."""
        self.alarm.has_rung = False
        while not self.loop.rest(self.alarm) and not self._is_rung():
            self.alarm.has_rung = False

    def _is_rung(self) -> bool:
        """Whether somebody has something to look at. Asked again and again: who has seen to everybody remembers it until the next ring."""
        if self.alarm.is_heard:
            return False
        bell = self.bell
        if bell.is_ready or bell.is_cancel or (bell.is_flow and self._has_workflows):
            return True
        for hired in self.hired:
            if hired.wake.is_set():
                return True
        self.alarm.is_heard = True
        return False

    def _do_what_is_due(self) -> bool:
        """Step those whose time has come; False when it has come for nobody."""
        now = self.clock.now()
        if self.is_down:
            return False
        is_round = self._round_at is not None and self._round_at <= now
        if is_round:
            self._round_at, self._rest = None, min(self._rest * 2, LONGEST_ROUND)
        is_missed = bool(self._missed_at) and min(self._missed_at) <= now
        is_off = self._keep_time_at is not None and self._keep_time_at <= now
        at = self._outlook.next_due()
        is_due = at is not None and at <= now and self._dispatched != (now, self.engine.writes)
        limited = [hired for hired in self.hired if (limit := hired.worker.next_limit) is not None and limit <= self.clock.boottime()]
        if not (is_round or is_missed or is_off or is_due or limited):
            return False
        if is_off:
            self._keep_time_at = None
            self._tried(self.keeper.step(now))
        if is_missed or is_round:
            self._missed_at = [at for at in self._missed_at if at > now]
            self._tried(self.sweeper.step(now))
            self.bell.ring()
        if is_due or is_round:
            self._tried(self.dispatcher.step(now))
            if self._has_workflows:
                self._tried(self.conducting.step(now))
            self._dispatched = (now, self.engine.writes)
        for hired in limited:
            self.step(hired, now)
        if limited:
            # Who was asked to stop has its say.
            self._let_run()
        return True

    def step(self, hired: Hired, now: Instant, *, is_ready: bool = False) -> None:
        """Step a worker on its own node, or see it killed. It looks for work only where there is some: `is_ready` if that is known."""
        worker, is_draining = hired.worker, hired.worker.draining
        if hired.routes is not (routes := self._outlook.routes()):
            # They are the same rows until somebody writes to them.
            hired.routes = routes
            worker.look_at_routes()
        had_work = is_ready or self._has_work()
        worker.draining = is_draining or not had_work
        try:
            step = self.loop.step(hired.node, worker.step(now), at_once=self.engine.pause is None)
            if step is not None and (step.wait == 0.0 or not had_work) and self._has_work():
                hired.wake.set()
        except Unavailable:
            self._again_soon()
        finally:
            worker.draining = is_draining

    def _tried(self, step: Coroutine[Any, Any, Any]) -> None:
        """Step a role: while the store answers at once, no time passes, and while it is away, it is tried again after a while."""
        try:
            self.loop.step(self.loop.outside, step, at_once=self.engine.pause is None)
        except Unavailable:
            self._again_soon()

    def _again_soon(self) -> None:
        self.has_faults = True
        self._round_at, self._rest = self.clock.now() + round(FIRST_BACKOFF * SECOND), FIRST_ROUND

    # ------------------------------------------------------------ what comes next

    def keep_time_in(self, micros: Micros) -> None:
        """The clock may be off: it is put right after so long."""
        self._keep_time_at = self.clock.now() + micros

    def _is_under_way(self) -> bool:
        """Whether something is under way that may need a look."""
        if not self.has_faults:
            return self._outlook.is_any("anything_waits")
        waits, moves = self._outlook.is_any("anything_waits"), self._has_work() or self._outlook.is_any("anything_runs")
        self.has_faults = waits or moves or bool(self._missed_at)
        return waits or moves

    def _has_work(self) -> bool:
        """Whether anything is ready."""
        return self.engine.has_ready()

    def _next_instant(self, now: Instant) -> Instant | None:
        """When something has to be done next, if nobody rings before."""
        if self.is_down:
            return None
        at, is_under_way = self._outlook.next_due(), self._is_under_way()
        is_stuck = at is not None and at <= now
        if (is_under_way or is_stuck) and self._round_at is None:
            self._round_at = now + self._rest
        elif not is_under_way and not is_stuck and self._round_at is not None and not self._missed_at:
            self._round_at, self._rest = None, FIRST_ROUND
        boottime = self.clock.boottime()
        limits = [now + limit - boottime for hired in self.hired if (limit := hired.worker.next_limit) is not None]
        coming = soonest(None if is_stuck else at, self._round_at, self._keep_time_at, *self._missed_at, *limits)
        return now if coming is not None and coming < now else coming


async def _nothing() -> None:
    return None
