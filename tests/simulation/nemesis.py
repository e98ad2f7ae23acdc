"""The nemesis: breaks things at the seed's pace, writes down what and when, and heals everything in the end.

In liveness mode it heals the core alone (one server, one worker, the store): whoever else is left stays broken for good.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from duly.domain.instants import SECOND
from duly.verify.history import Fault
from tests.simulation.client import Clients
from tests.simulation.fleet import Fleet, Machine
from tests.simulation.hints import IndexServer
from tests.simulation.plan import LEASE_FAULTS, Plan

# Kinds that last from the first moment to the last.
ALWAYS = ("drop", "messages")
# How long nodes may take to learn of a step of the store's clock: a round of the timekeeper.
LEARNS = 6.0


@dataclass(slots=True)
class Nemesis:
    """Who breaks things."""

    plan: Plan
    fleet: Fleet
    clients: Clients
    chance: random.Random
    faults: list[Fault] = field(default_factory=list)
    core: frozenset[str] = frozenset()
    # The chance that a connection breaks, for whoever is hired later as well.
    drop: float = 0.0
    # Whether it is over: who is not of the core stays as it is.
    is_over: bool = False

    async def rage(self, until: float) -> None:
        """Break things until then. Faults overlap."""
        loop, chance = self.fleet.loop, self.chance
        for kind in ALWAYS:
            if kind in self.plan.faults:
                self._always(kind)
        kinds = [kind for kind in self.plan.faults if kind not in ALWAYS]
        # Reports that arrive too late, and leaders who do not know that they were replaced, are seldom reached otherwise.
        kinds += [kind for kind in kinds if kind == "stall"] * 7 + [kind for kind in kinds if kind == "pause"]
        while kinds:
            await asyncio.sleep(chance.expovariate(1 / self.plan.every))
            if loop.now >= until:
                break
            loop.outside.spawn(self._break(chance.choice(kinds), until))

    def heal(self) -> None:
        """Everything works again; in liveness mode, the core does."""
        fleet = self.fleet
        fleet.server.restart()
        fleet.server.disk, fleet.server.connections = 0.0, 1000
        fleet.air.loses = fleet.air.repeats = fleet.air.lags = 0.0
        self.clients.drop = self.drop = 0.0
        if self.plan.mode == "safety" or self.chance.random() < 0.5:
            # What only hints may stay broken for good.
            fleet.leases.heal()
        for machine in list(fleet.machines.values()):
            if self.plan.mode == "liveness" and machine.name not in self.core:
                self._break_for_good(machine)
                continue
            if machine.is_gone:
                fleet.hire(machine.name, machine.kind)
            fleet.loop.resume(machine.node)
            machine.clock.drift(1.0)
            wire = machine.wire
            wire.drop = wire.clog = wire.stall = 0.0
            wire.loses_requests = wire.loses_replies = False
            if machine.index is not None:
                machine.index.server.is_away = False
        for fault in self.faults:
            if fault.until is None:
                fault.until = fleet.clock.now()

    def _always(self, kind: str) -> None:
        chance, fleet = self.chance, self.fleet
        if kind == "drop":
            self.drop = chance.choice((0.005, 0.02, 0.08))
            self.clients.drop = self.drop
            for machine in fleet.machines.values():
                machine.wire.drop = self.drop
        else:
            fleet.air.loses, fleet.air.repeats = chance.choice((0.0, 0.2, 1.0)), chance.choice((0.1, 0.5))
            fleet.air.lags = chance.choice((0.0, 1.0, 4.0))
        self.faults.append(Fault(kind=kind, since=fleet.clock.now()))

    async def _break(self, kind: str, until: float) -> None:
        fleet, chance = self.fleet, self.chance
        alive = [machine for machine in fleet.machines.values() if not machine.is_gone]
        if not alive:
            return
        machine = chance.choice(alive)
        ttl = self.plan.ttl / SECOND
        fault = Fault(kind=kind, since=fleet.clock.now(), nodes=[machine.name])
        self.faults.append(fault)
        lasts = chance.uniform(0.2, 3) * ttl if kind == "pause" else chance.uniform(0.3, 8)
        match kind:
            case "crash":
                fleet.crash(machine)
                await asyncio.sleep(lasts)
                self._rehire(machine)
            case "drain":
                machine.stop.set()
                await asyncio.sleep(lasts)
                if not machine.is_gone:
                    # It had its time; what is left of it is killed, as a supervisor does.
                    fleet.crash(machine)
                self._rehire(machine)
            case "pause":
                fleet.loop.pause(machine.node)
                await asyncio.sleep(lasts)
                fleet.loop.resume(machine.node)
            case "cut requests":
                machine.wire.loses_requests = True
                await asyncio.sleep(lasts)
                machine.wire.loses_requests = False
            case "cut replies":
                machine.wire.loses_replies = True
                await asyncio.sleep(lasts)
                machine.wire.loses_replies = False
            case "clog":
                machine.wire.clog = chance.choice((0.1, 1.0, 3.0, 9.0))
                await asyncio.sleep(lasts)
                machine.wire.clog = 0.0
            case "stall":
                # Long enough for the worker's leases to be given away before what it reports arrives.
                machine = chance.choice([one for one in alive if one.kind == "worker"] or alive)
                fault.nodes = [machine.name]
                machine.wire.stall = ttl * chance.uniform(0.7, 1.1) + chance.uniform(0, 4)
                await asyncio.sleep(chance.uniform(4, 10))
                lasts, machine.wire.stall = machine.wire.stall, 0.0
                await asyncio.sleep(lasts)
            case "drift":
                machine.clock.drift(1 + chance.uniform(-0.05, 0.05))
                await asyncio.sleep(lasts)
                machine.clock.drift(1.0)
            case "forget":
                if machine.index is not None:
                    await self._break_index(machine.index.server, lasts)
            case _ if kind in LEASE_FAULTS:
                # A hint alone is wrong: nothing that it does excuses anything.
                fault.nodes, fault.about["harmless"] = ["leases"], True
                await self._break_leases(kind, machine, lasts)
            case _:
                fault.nodes = ["store"]
                await self._break_store(kind, lasts, fault)
        if fault.until is None:
            fault.until = fleet.clock.now()

    async def _break_leases(self, kind: str, machine: Machine, lasts: float) -> None:
        leases, chance = self.fleet.leases, self.chance
        match kind:
            case "leases crash" | "leases wiped":
                leases.crash()
                await asyncio.sleep(lasts / 2)
                if kind == "leases wiped":
                    leases.wipe()
                leases.restart()
            case "leases pause":
                self.fleet.loop.pause(leases.node)
                await asyncio.sleep(lasts)
                self.fleet.loop.resume(leases.node)
            case "leases late":
                leases.latency = chance.choice((0.2, 0.7, 3.0))
                await asyncio.sleep(lasts)
                leases.latency = 0.002
            case "leases forget":
                # Of two who are believed to hold a shard, one is not known to the service any more.
                leases.forget()
            case "leases cut":
                leases.cut_off.add(machine.node)
                await asyncio.sleep(lasts)
                leases.cut_off.discard(machine.node)
            case "leases drift":
                leases.drift(chance.choice((0.2, 3.0, 10.0)))
                await asyncio.sleep(lasts)
                leases.drift(1.0)

    async def _break_index(self, index: IndexServer, lasts: float) -> None:
        chance = self.chance
        match chance.choice(("lose", "lose half", "restore", "lie", "away", "away and empty")):
            case "lose":
                index.lose()
            case "lose half":
                index.lose_half()
            case "restore":
                index.keep()
                await asyncio.sleep(lasts)
                index.restore()
            case "lie":
                index.lie(chance, self.fleet.clock.now(), self.plan.shards)
            case how:
                index.is_away = True
                await asyncio.sleep(lasts)
                index.is_away = False
                if how == "away and empty":
                    index.lose()

    async def _break_store(self, kind: str, lasts: float, fault: Fault) -> None:
        server, chance = self.fleet.server, self.chance
        match kind:
            case "store crash":
                server.crash()
                await asyncio.sleep(lasts / 2)
                server.restart()
            case "failover":
                # To a copy that has every commit; its machine has a clock of its own.
                server.crash()
                await asyncio.sleep(chance.uniform(0.2, 2))
                by = fault.about["by"] = round(chance.uniform(-0.5, 0.5) * SECOND)
                self.fleet.step_clock(by)
                server.restart()
                await asyncio.sleep(LEARNS)
            case "slow disk":
                server.disk = chance.choice((0.05, 0.3, 1.0))
                await asyncio.sleep(lasts)
                server.disk = 0.0
            case "connections":
                server.connections = chance.randint(1, 3)
                await asyncio.sleep(lasts)
                server.connections = 1000
            case "clock step":
                by = round(chance.choice((-1, 1, 1)) * chance.choice((1, 10, 30, 30, 300, 300, 7200)) * chance.uniform(0.5, 1) * SECOND)
                fault.about["by"] = by
                self.fleet.step_clock(by)
                await asyncio.sleep(LEARNS)

    def _rehire(self, machine: Machine) -> None:
        """Start it again, unless somebody has, or it is to stay broken."""
        if self.fleet.machines[machine.name] is machine and machine.is_gone and not self._is_lost(machine):
            self.fleet.hire(machine.name, machine.kind).wire.drop = self.drop

    def _is_lost(self, machine: Machine) -> bool:
        return self.is_over and self.plan.mode == "liveness" and machine.name not in self.core

    def _break_for_good(self, machine: Machine) -> None:
        self.is_over = True
        if machine.is_gone:
            return
        match self.chance.randrange(5):
            case 0:
                kind = "crash"
                self.fleet.crash(machine)
            case 1:
                kind = "pause"
                self.fleet.loop.pause(machine.node)
            case 2:
                kind = "cut requests"
                machine.wire.loses_requests = True
            case 3:
                kind = "cut replies"
                machine.wire.loses_replies = True
            case _:
                kind = "clog"
                machine.wire.clog = 2.0
        # From now on it stays so, and the others must do without it: what is due after they had time to notice has no excuse.
        now = self.fleet.clock.now()
        self.faults.append(Fault(kind=kind, since=now, until=now, nodes=[machine.name]))
