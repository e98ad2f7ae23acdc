"""One seed, from its first step to the verdict."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from duly.domain.instants import SECOND
from duly.testing.clocks import StoreClock
from duly.testing.loop import Livelock, SimulatedLoop
from duly.verify.history import Final, History, Stands, Timing
from duly.verify.recording import read_sqlite
from tests.simulation.client import Clients
from tests.simulation.database import Recorded, Server, database
from tests.simulation.fleet import Fleet
from tests.simulation.handlers import Outside
from tests.simulation.hints import Air
from tests.simulation.judge import judge
from tests.simulation.leases import LeaseServer
from tests.simulation.nemesis import LEARNS, Nemesis
from tests.simulation.plan import Plan

# How long work may take to end when everything is healed, beyond R: queues, retries, limits. While every slot is taken that time does not
# run: what waits then waits for a slot. At most so long in all.
DRAINS = 90.0
LONGEST = 900.0
LOOK_EVERY = 2.0


@dataclass(slots=True)
class Outcome:
    """What came of a seed."""

    plan: Plan
    digest: int
    steps: int
    seconds: float
    findings: list[str]
    history: History
    fires: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)


class _Errors(logging.Handler):
    """A fault of ours is logged and tried again by the roles' loop: here it is a finding."""

    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(
            f"logged by {record.name}: {record.getMessage()} {record.exc_info[1]!r}" if record.exc_info else record.getMessage()
        )


def run_seed(plan: Plan) -> Outcome:
    """Run it, judge it, and leave nothing behind."""
    store = database()
    loop = SimulatedLoop(plan.seed)
    clock = StoreClock(loop, plan.start)
    store.begin_at(clock.now, plan.shards)
    said: list[str] = []
    log = logging.getLogger("duly")
    before, errors = (log.level, log.propagate), _Errors(said)
    log.setLevel(logging.ERROR)
    log.propagate = False
    log.addHandler(errors)
    try:
        world = World(plan, loop, clock, store)
        main = loop.outside.spawn(world.live())
        try:
            loop.run_until(main)
            main.result()
        except Livelock as error:
            said.append(f"livelock: {error}")
        outcome = world.outcome(said + loop.problems)
    finally:
        loop.bury()
        store.rewind()
        log.removeHandler(errors)
        log.setLevel(before[0])
        log.propagate = before[1]
    return outcome


class World:
    """Everybody in it."""

    def __init__(self, plan: Plan, loop: SimulatedLoop, clock: StoreClock, store: Recorded) -> None:
        def chance(what: str) -> random.Random:
            return random.Random(f"{what} {plan.seed}")

        self.plan, self.loop, self.clock, self.store = plan, loop, clock, store
        self.server = Server(loop, loop.add_node("store"), clock, store, chance("network"))
        self.air = Air(loop, chance("air"), self._is_idle)
        self.outside = Outside(loop, clock, chance("handlers"))
        self.leases = LeaseServer(loop, loop.add_node("leases"), chance("leases"))
        self.fleet = Fleet(plan, loop, self.server, clock, self.air, self.outside, chance("entropy"), self.leases)
        self.clients = Clients(plan, self.fleet, chance("clients"))
        self.nemesis = Nemesis(plan, self.fleet, self.clients, chance("nemesis"), core=frozenset({"server-1", "worker-1"}))
        self.reached: Counter[str] = Counter()
        self.ended_idle = False

    async def live(self) -> None:
        """The run: workload and faults, then everything heals, and whatever is due must end."""
        plan = self.plan
        if plan.leases == "etcd":
            self.leases.start()
        for nth in range(1, plan.dispatchers + 1):
            self.fleet.hire(f"server-{nth}", "server")
        for nth in range(1, plan.workers + 1):
            self.fleet.hire(f"worker-{nth}", "worker")
        watching = self.loop.outside.spawn(self._watch_leaders())
        raging = self.loop.outside.spawn(self.nemesis.rage(plan.horizon))
        share = 1 / plan.clients
        clients = [self.loop.outside.spawn(self.clients.work(f"client-{n}", share, plan.horizon * 0.9)) for n in range(1, plan.clients + 1)]
        await asyncio.gather(raging, *clients)
        if self.loop.now < plan.horizon:
            await asyncio.sleep(plan.horizon - self.loop.now)
        self.nemesis.heal()
        if plan.mode == "liveness":
            # Whoever is broken for good does not answer clients either.
            for name, machine in self.fleet.machines.items():
                if name not in self.nemesis.core:
                    machine.api = None
        healed = self.loop.now
        until, longest = healed + self.timing.recovery / SECOND + DRAINS, healed + LONGEST
        while self.loop.now < until:
            # Again and again: a create whose client gave up may arrive even now.
            await self.clients.stop_schedules()
            await asyncio.sleep(LOOK_EVERY)
            if self.loop.now > healed + LEARNS and self._is_done():
                self.ended_idle = True
                break
            if self._is_full():
                until = min(until + LOOK_EVERY, longest)
        watching.cancel()

    @property
    def timing(self) -> Timing:
        plan = self.plan
        return Timing(
            lease_ttl=plan.ttl,
            heartbeat=plan.ttl // 3,
            margin=plan.margin,
            leader_ttl=plan.leader_ttl,
            restart=round((self.server.deadline + LEARNS + 5) * SECOND),
        )

    def _is_idle(self) -> bool:
        return self.store.connection.execute("SELECT 1 FROM ready LIMIT 1").fetchone() is None

    def _is_full(self) -> bool:
        """Whether as much is held by workers as they have slots."""
        ((held,),) = self.store.connection.execute("SELECT count(*) FROM leased").fetchall()
        return bool(held >= self._slots)

    @property
    def _slots(self) -> int:
        return self.plan.slots * (self.plan.workers if self.plan.mode == "safety" else 1)

    def _is_done(self) -> bool:
        """Whether nothing is due that has not ended. Behind a retry that waits, because a clock was set back, nothing is."""
        now = self.clock.now()
        left = self.store.connection.execute(
            """SELECT 1 FROM ready UNION ALL SELECT 1 FROM leased
               UNION ALL SELECT 1 FROM blocked b JOIN executions e ON e.id = b.id
                         WHERE e.due_at <= :now AND NOT EXISTS (
                             SELECT 1 FROM places p JOIN timers t ON t.id = p.id WHERE p.job_id = e.job_id AND t.due_at > :now)
               UNION ALL SELECT 1 FROM timers WHERE due_at <= :now
               UNION ALL SELECT 1 FROM schedules WHERE next_fire_at <= :now AND NOT paused LIMIT 1""",
            {"now": now},
        ).fetchone()
        return left is None

    async def _watch_leaders(self) -> None:
        """Counts how often two dispatchers believed to own one shard."""
        both = False
        while True:
            await asyncio.sleep(0.5)
            seen: set[int] = set()
            twice = False
            for machine in self.fleet.machines.values():
                if machine.ownership is not None and not machine.is_gone:
                    mine = set(machine.ownership.epochs())
                    twice = twice or bool(mine & seen)
                    seen |= mine
            if twice and not both:
                self.reached["two believing leaders"] += 1
            both = twice

    # ------------------------------------------------------------ the end

    def outcome(self, said: list[str]) -> Outcome:
        """Read everything, judge it."""
        history = self._history()
        findings = said + judge(self.store.connection, history, ended=self.ended_idle)
        plan, met = self.plan, self.server.met + self.air.met + self.leases.met
        self.reached += met
        _count_reached(history, self.reached)
        return Outcome(
            plan=plan,
            digest=hash((self.loop.digest, len(history.events), *(event.at for event in history.events[-50:]))),
            steps=self.loop.steps,
            seconds=self.loop.now,
            findings=findings,
            history=history,
            fires=sum(event.kind == "fire.created" for event in history.events),
            faults=Counter(fault.kind for fault in self.nemesis.faults),
            reached=self.reached,
        )

    def _excuses(self) -> dict[str, Any]:
        """What the judges must know: how many handlers can run at once, and whether some end their attempts for good themselves."""
        gives_up = any(call.body.get("payload", {}).get("give_up") for call in self.clients.calls)
        return {"slots": self._slots} | ({"ownDeaths": True} if gives_up else {})

    def _history(self) -> History:
        now = self.clock.now()
        for clock in self.fleet.clocks:
            clock.measure()
        # A clock that is set back shows times before those that were shown: what lasts, lasts from then on.
        for call in self.clients.calls:
            call.ended_at = max(call.ended_at, call.invoked_at)
        for fault in self.nemesis.faults:
            fault.until = max(fault.until or now, fault.since)
        connection = self.store.connection
        jobs = ["job_" + row["id"].hex() for row in connection.execute("SELECT id FROM jobs ORDER BY id")]
        return History(
            started_at=self.plan.start,
            ended_at=now,
            timing=self.timing,
            calls=self.clients.calls,
            events=read_sqlite(connection),
            effects=self.outside.effects,
            refusals=self.fleet.refusals,
            faults=self.nemesis.faults,
            final=Final(at=now, jobs=jobs, executions=_standing(connection)),
            about={
                "seed": self.plan.seed,
                "store": "sqlite",
                "skew": max(clock.farthest for clock in self.fleet.clocks),
                "dispatchers": [machine.name for machine in self.fleet.machines.values() if machine.kind == "server"],
                **self._excuses(),
            },
        )


_STANDS = """
SELECT e.id, e.job_id, coalesce(e.scheduled_at, e.due_at) AS nominal,
       CASE WHEN o.id IS NOT NULL THEN o.state WHEN l.id IS NOT NULL OR f.run IS NOT NULL THEN 3 WHEN r.id IS NOT NULL THEN 2
            WHEN b.id IS NOT NULL THEN 1 ELSE 0 END AS state,
       coalesce(o.attempt, l.attempt, r.attempt, b.attempt, t.attempt, 0) AS attempt
FROM executions e LEFT JOIN outcomes o ON o.id = e.id LEFT JOIN leased l ON l.id = e.id LEFT JOIN ready r ON r.id = e.id
LEFT JOIN blocked b ON b.id = e.id LEFT JOIN timers t ON t.id = e.id LEFT JOIN flows f ON f.run = e.id
ORDER BY e.id
"""
_STATES = ("SCHEDULED", "BLOCKED", "PENDING", "RUNNING", "SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED")


def _standing(connection: Any) -> list[Stands]:
    return [
        Stands(
            run="run_" + row["id"].hex(),
            job="job_" + row["job_id"].hex(),
            state=_STATES[row["state"]],
            attempt=row["attempt"],
            nominal=row["nominal"],
        )
        for row in connection.execute(_STANDS)
    ]


def _count_reached(history: History, reached: Counter[str]) -> None:
    lost = {(event.run, event.fence): event.at for event in history.events if event.kind == "attempt.ended" and event.data["outcome"] == 4}
    for refusal in history.refusals:
        reached["stale completion refused"] += 1
        at = lost.get((refusal.run, refusal.fence))
        if at is not None and abs(refusal.at - at) <= SECOND:
            reached["sweeper raced a completion"] += 1
    # And those that came just in time, before the sweeper took their worker for lost.
    reported: dict[int | None, int] = {}
    for event in history.events:
        by = event.actor or ""
        if event.fence is not None and by.startswith("worker") and event.kind in ("run.ended", "attempt.ended"):
            reported[event.worker] = event.at
        elif event.kind == "worker.lost" and by.startswith("server") and event.at - reported.get(event.worker, 0) <= SECOND:
            reached["sweeper raced a completion"] += 1
    seized = {
        (event.actor, event.at)
        for event in history.events
        if event.kind == "shard.taken" and event.data["owner"] and event.data["before"] and event.at < event.data["until"]
    }
    reached["shards seized within their lease"] += len(seized)
    targets: Counter[tuple[str | None, int]] = Counter()
    for event in history.events:
        if event.kind == "fire.created" and event.data["trigger"] == 0:
            targets[event.job, event.at] += 1
    reached["catch-up of more than ten"] += sum(count > 10 for count in targets.values())
