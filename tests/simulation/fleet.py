"""The simulated fleet: nodes with the real roles, put together as `duly.compose` does, and nobody knows the difference."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from duly.adapters.sql.store import store_on
from duly.domain.errors import Unavailable
from duly.domain.execution import Finished, LeaseId, WorkerId
from duly.domain.ids import ExecutionId, execution_text
from duly.domain.instants import SECOND, Instant
from duly.ports.presence import Presence, StoreAlone
from duly.ports.store import Store, WorkerAbout
from duly.roles import loop as roles
from duly.roles.conductor import ConductorRole
from duly.roles.crier import Crier, CrierSettings
from duly.roles.dispatcher import Dispatcher, DispatcherSettings
from duly.roles.heartbeat import Beating, Heartbeat, HeartbeatSettings, StartBeating, keep_beating
from duly.roles.hydrator import Hydrator, HydratorSettings
from duly.roles.inbox import Mail
from duly.roles.ownership import Ownership, OwnershipSettings
from duly.roles.shift import Shift
from duly.roles.sweeper import Sweeper, SweeperSettings
from duly.roles.timekeeper import Timekeeper
from duly.roles.worker import WorkerSettings
from duly.testing.clocks import NodeClock, StoreClock
from duly.testing.database import on_few_shards
from duly.testing.loop import Node, SimulatedLoop
from duly.usecases.backfill import Backfills
from duly.usecases.bulk import Bulk
from duly.usecases.calendars import Calendars
from duly.usecases.conduct.beside import Beside
from duly.usecases.conduct.conductor import Conductor
from duly.usecases.conduct.dependents import Dependents
from duly.usecases.conduct.handing import conducted
from duly.usecases.executions import Executions
from duly.usecases.jobs import Jobs
from duly.usecases.overdue import Overdue
from duly.usecases.quotas import Directory
from duly.verify.history import Refusal
from tests.simulation.database import NodeEngine, Server, Wire
from tests.simulation.handlers import Outside, registry_of
from tests.simulation.hints import Air, IndexServer, SimulatedIndex, SimulatedTransport
from tests.simulation.leases import LeaseServer, SimulatedEtcd, WatchedPresence
from tests.simulation.plan import Plan

# Seconds between two looks at the store's clock.
LEARNS = 5.0


@dataclass(slots=True)
class Api:
    """The use cases of one API process."""

    jobs: Jobs
    executions: Executions
    bulk: Bulk
    backfills: Backfills
    calendars: Calendars


@dataclass(slots=True)
class Machine:
    """One process of the fleet while it lives. A restart makes a new one on a new node."""

    name: str
    kind: str
    node: Node
    wire: Wire
    clock: NodeClock
    store: Store
    transport: SimulatedTransport
    stop: asyncio.Event
    index: SimulatedIndex | None = None
    ownership: Ownership | None = None
    api: Api | None = None
    conductor: Conductor | None = None
    life: asyncio.Task[Any] | None = None
    # It has crashed, or was drained and is over.
    is_gone: bool = False


@dataclass(slots=True)
class Fleet:
    """Everybody, and how to hire them."""

    plan: Plan
    loop: SimulatedLoop
    server: Server
    clock: StoreClock
    air: Air
    outside: Outside
    chance: random.Random
    leases: LeaseServer
    machines: dict[str, Machine] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    starts: int = 0
    clocks: list[NodeClock] = field(default_factory=list)
    index_server: IndexServer = field(default_factory=IndexServer)

    def hire(self, name: str, kind: str) -> Machine:
        """Start a process of that kind: `server` (dispatcher, hydrator, sweeper, API) or `worker`."""
        self.starts += 1
        node = self.loop.add_node(name)
        wire = Wire(latency=self.plan.latency)
        # Every other machine is the store's own, and sees its wall clock move.
        clock = NodeClock(self.loop, self.clock, self.chance.randrange(1_000_000) * SECOND, apart=self.starts % 2 == 0)
        self.clocks.append(clock)
        engine = NodeEngine(self.server, node, wire)
        store = store_on(engine)
        transport = SimulatedTransport(self.air, node)
        machine = Machine(name, kind, node, wire, clock, store, transport, asyncio.Event())
        watched = replace(store, outcomes=_Watched(store.outcomes, engine, self, name))  # type: ignore[arg-type]
        machine.conductor = Conductor(store.flows, store.definitions, store.cancels, Directory(store.tenants, clock), transport, clock)
        machine.store = conducted(watched, machine.conductor, Beside(), Dependents(store.awaited, transport, clock))
        self.machines[name] = machine
        machine.life = node.spawn(self._live(machine))
        return machine

    def crash(self, machine: Machine) -> None:
        """It is gone, with everything it was about to do."""
        self.loop.crash(machine.node)
        machine.is_gone = True
        self.air.bells.pop(machine.node, None)
        self.air.boxes.pop(machine.node, None)

    def step_clock(self, by: int) -> None:
        """Somebody sets the store's clock; how far the others are from it now is noted, whatever becomes of them."""
        self.clock.step(by)
        for clock in self.clocks:
            clock.measure()

    def entropy(self, bits: int, /) -> int:
        """Chance, as the roles and use cases draw it."""
        return self.chance.getrandbits(bits)

    def _api(self, machine: Machine) -> Api:
        store, clock, transport = machine.store, machine.clock, machine.transport
        quotas = Directory(store.tenants, clock)
        jobs = Jobs(
            store.definitions,
            Overdue(store.schedules, store.leases, quotas, transport),
            quotas,
            clock,
            on_few_shards(self.entropy, clock, self.plan.shards),
            transport,
        )
        executions = Executions(jobs, store.intake, store.cancels, store.insights, quotas, clock, self.entropy, transport)
        return Api(
            jobs,
            executions,
            Bulk(store.letters, jobs, executions, clock, self.entropy, transport),
            Backfills(jobs, executions, store.letters, clock, self.entropy),
            Calendars(store.calendars, clock, transport),
        )

    async def _live(self, machine: Machine) -> None:
        keeper = Timekeeper(machine.clock, machine.store.health, every=LEARNS)
        # A process that cannot ask the store for the time does not start; whoever supervises it tries again.
        while True:
            with contextlib.suppress(Unavailable):
                await keeper.step(0)
                break
            await asyncio.sleep(0.5)
        tasks = [asyncio.create_task(roles.run(keeper, machine.clock, machine.stop, self.entropy))]
        if machine.kind == "server":
            machine.api = self._api(machine)
            tasks += self._serve(machine)
        else:
            tasks.append(asyncio.create_task(self._shift(machine).run(machine.stop)))
        await asyncio.gather(*tasks)

    def _serve(self, machine: Machine) -> list[asyncio.Task[None]]:
        store, clock, transport, stop = machine.store, machine.clock, machine.transport, machine.stop
        ttl = self.plan.leader_ttl
        settings = OwnershipSettings(
            ttl=ttl,
            renew_every=ttl // 3,
            patience=ttl * 5 // 6,
            margin=ttl // 6,
            glance_every=ttl // 6,
            late=ttl // 6,
            late_at_most=ttl * 5 // 3,
            still_for=ttl // 3,
            settled_after=ttl // 3,
        )
        presence = self._presence(machine)
        name = f"{machine.name}:{self.starts}"
        ownership = machine.ownership = Ownership(name, store.leases, clock, settings, presence)
        # Every other seed has one index for all, as in Redis; the others one for each, as in memory.
        shared = self.index_server if self.plan.seed % 2 else IndexServer()
        index = machine.index = SimulatedIndex(shared, name)
        quotas = Directory(store.tenants, clock)
        dispatcher = Dispatcher(ownership, store.schedules, store.definitions, quotas, index, transport, clock, DispatcherSettings())
        hydrator = Hydrator(ownership, store.schedules, index, transport, HydratorSettings())
        sweeper = Sweeper(store.losses, SweeperSettings(reconcile_every=20 * SECOND))
        assert machine.conductor is not None
        conductor = ConductorRole(machine.conductor, transport)

        async def dispatch() -> None:
            await presence.enter(name)
            await roles.run(dispatcher, clock, stop, self.entropy, dispatcher.wait)
            with contextlib.suppress(Exception):
                await dispatcher.stop()
            await presence.leave()

        tasks = [
            asyncio.create_task(dispatch()),
            asyncio.create_task(roles.run(hydrator, clock, stop, self.entropy, hydrator.wait)),
            asyncio.create_task(roles.run(sweeper, clock, stop, self.entropy)),
            asyncio.create_task(roles.run(conductor, clock, stop, self.entropy, conductor.wait)),
        ]
        if self.has_couriers:
            # A small window, so that queues are deep now and then.
            crier = Crier(
                store.ready,
                transport,
                transport,
                clock,
                lambda route: route % self.plan.shards in ownership.epochs(),
                CrierSettings(window=8, listeners=3),
            )
            tasks.append(asyncio.create_task(roles.run(crier, clock, stop, self.entropy, crier.wait)))
        return tasks

    @property
    def has_couriers(self) -> bool:
        """Every other fleet hears of its work by name."""
        return self.plan.seed % 2 == 1

    def _presence(self, machine: Machine) -> Presence:
        if self.plan.leases == "store":
            return StoreAlone()

        def lives(name: str) -> bool:
            return any(
                one.ownership is not None and one.ownership.name == name and not one.is_gone and not one.node.is_paused
                for one in self.machines.values()
            )

        etcd = SimulatedEtcd(self.leases, machine.node)
        return WatchedPresence(etcd, "duly", machine.clock, lives=lives, met=self.leases.met)

    def _shift(self, machine: Machine) -> Shift:
        registry, plan = registry_of(self.outside), self.plan
        return Shift(
            machine.store,
            machine.transport,
            registry,
            machine.clock,
            self.entropy,
            WorkerSettings(name=machine.name, slots=plan.slots, poll=plan.poll),
            WorkerAbout(pool="default", handlers=registry.names(), slots=plan.slots),
            beat_as_a_task(machine),
            heartbeat=HeartbeatSettings(ttl=plan.ttl, every=plan.ttl // 3, margin=plan.margin),
            grace=2.0,
            mail=self._mail(machine),
        )

    def _mail(self, machine: Machine) -> Mail | None:
        if not self.has_couriers:
            return None
        return Mail(machine.transport, machine.store.ready, "default", "alike")


def beat_as_a_task(machine: Machine) -> StartBeating:
    """The heart as a task of the node: it beats beside the handlers, which never block here."""

    def start(heartbeat: Heartbeat, every: float, on_news: Callable[[], None]) -> Beating:
        return _BeatingTask(machine, heartbeat, every, on_news)

    return start


class _BeatingTask:
    def __init__(self, machine: Machine, heartbeat: Heartbeat, every: float, on_news: Callable[[], None]) -> None:
        self._is_stopped = False
        self._due = asyncio.Event()
        self._task = asyncio.create_task(keep_beating(heartbeat, every, machine.store.liveness, self._is_due, on_news))

    def stop(self) -> None:
        self._is_stopped = True
        self._due.set()

    def beat_now(self) -> None:
        self._due.set()

    async def _is_due(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._due.wait()
        self._due.clear()
        return not self._is_stopped


class _Watched:
    """Where workers report, and who writes down what the store refused, though the worker may never hear of it."""

    def __init__(self, inner: Any, engine: NodeEngine, fleet: Fleet, name: str) -> None:
        self._inner = inner
        self._engine = engine
        self._fleet = fleet
        self._name = name
        self.append_logs = inner.append_logs
        self.losses = inner.losses

    async def finish(self, worker: WorkerId, finished: list[Finished], closing: list[LeaseId], now: Instant) -> set[ExecutionId]:
        def note(refused: set[ExecutionId]) -> None:
            at = self._fleet.clock.now()
            for item in finished:
                if item.id in refused:
                    run, fence = execution_text(item.id), int(item.lease)
                    self._fleet.refusals.append(Refusal(at=at, what="finish", actor=self._name, run=run, fence=fence))

        # The engine takes it up before anybody else runs.
        self._engine.overheard = note
        answer: set[ExecutionId] = await self._inner.finish(worker, finished, closing, now)
        return answer
