"""What is asked of the fleet under test: jobs of every kind, one-shots, changes and cancels, by a seed.

Each client has jobs of its own that it changes, so that what is asked about one job has one order. There is one tenant; the others
get their clients here when there are tenants to test.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from duly.verify.clients import Client
from duly.verify.history import Call

OVERLAPS = ("skip", "queue_one", "queue_all", "cancel_previous", "kill_previous", "allow")
CATCH_UPS = ("all", "latest", "none")
# Kills are many: what is tested is not how soon a job gives up.
RETRY = {"maxAttempts": 5, "initialDelayMs": 2000, "maxDelayMs": 4000, "maxLosses": 100}
FLOOD = 300
# Jobs whose runs take seconds, at once: a third of them needs child processes, and a fleet with half of its workers away must keep up.
MOST_CHRONOS = 60

Act = Callable[["Session"], Awaitable[None]]


@dataclass(slots=True)
class Plan:
    """How much of everything there is. `ends_at`, in seconds since 1970, is when the last schedule names its last time."""

    seed: int
    ends_at: float
    lease: float
    seconds: float
    rate: float = 1.0
    ticks: int = 8
    clients: int = 6

    @property
    def longest(self) -> float:
        """How long a handler may take, in seconds."""
        return min(10 * self.lease, max(self.seconds / 10, 3 * self.lease))

    @property
    def latest(self) -> float:
        """How far ahead a one-shot is asked for."""
        return min(60.0, self.seconds / 4)


@dataclass(slots=True)
class Session:
    """One client with what it has made."""

    client: Client
    chance: random.Random
    plan: Plan
    # Jobs of its own that it changes: the id, the job as it was last sent, and whether it is paused.
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    runs: list[str] = field(default_factory=list)
    made: int = 0

    def key(self) -> str:
        """A new idempotency key."""
        self.made += 1
        return f"{self.plan.seed}-{self.client.name}-{self.made}"

    async def create(self, body: dict[str, Any]) -> str | None:
        """Create a job; its id when that is known."""
        call = await self.client.ask_until_known("job.create", "POST", "/v1/jobs", body, key=self.key())
        return call.job if call.status == "ok" else None

    async def enqueue(self, job: str, body: dict[str, Any]) -> Call:
        """Enqueue a run of a job."""
        call = await self.client.ask_until_known("run.enqueue", "POST", f"/v1/jobs/{job}/executions", body, key=self.key(), job=job)
        self.runs = [*self.runs[-50:], *call.runs]
        return call


class Workload:
    """The clients, at work until they are told to stop."""

    def __init__(self, plan: Plan, ports: Callable[[str], list[int]], key: str) -> None:
        self.plan = plan
        self._threads = ThreadPoolExecutor(plan.clients + 4, thread_name_prefix="verify-client")
        self.sessions: list[Session] = []
        for n in range(1, plan.clients + 1):
            client = Client(f"client-{n}", ports(f"client-{n}"), key, self._threads)
            chance = random.Random(f"{plan.seed}/{n}")  # noqa: S311 a seed is to be repeated
            self.sessions.append(Session(client, chance, plan))
        self.reader = Client("reader", ports("client-1"), key, self._threads)
        self._on_demand: dict[str, str] = {}
        # When those of them that were made end.
        self._chronos_ends: list[float] = []

    @property
    def calls(self) -> list[Call]:
        """What was asked, by all of them."""
        return sorted((call for session in self.sessions for call in session.client.calls), key=lambda call: call.invoked_at)

    async def set_up(self) -> None:
        """The jobs that are there from the start."""
        first = self.sessions[0]
        for name in ("one-shot", "flaky", "long", "flood"):
            made = await first.create(self._on_demand_job(name))
            if made is not None:
                self._on_demand[name] = made
        bodies = [*self._ticks(), *self._overlaps(), *self._mixed(), *self._workflows()]
        await asyncio.gather(*(self._create_all(session, bodies[nth :: len(self.sessions)]) for nth, session in enumerate(self.sessions)))
        for session in self.sessions:
            for nth in range(2):
                body = self._changeable(session, f"{session.client.name}-own-{nth}")
                made = await session.create(body)
                if made is not None:
                    session.jobs[made] = body

    async def run(self, stop: asyncio.Event) -> None:
        """Ask for things until `stop`."""
        await asyncio.gather(*(self._work(session, stop) for session in self.sessions))

    async def flood(self) -> int:
        """Many runs at once; how many."""
        session = self.sessions[-1]
        body = {"executions": [{"payload": {"ms": session.chance.randrange(20)}} for _ in range(FLOOD)]}
        job = self._on_demand["flood"]
        call = await session.client.ask(
            "run.enqueue", "POST", f"/v1/jobs/{job}/executions:batch", body, job=job, key=session.key(), noted={"count": FLOOD}
        )
        return len(call.runs)

    def close(self) -> None:
        """Let the threads go."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------ what a client does

    async def _work(self, session: Session, stop: asyncio.Event) -> None:
        acts: list[tuple[Act, int]] = [
            (self._one_shot, 50),
            (self._one_shot_job, 8),
            (self._chronos, 3),
            (self._flaky, 8),
            (self._long, 3),
            (self._update, 3),
            (self._pause_or_resume, 6),
            (self._delete, 1),
            (self._cancel, 8),
            (self._read, 8),
        ]
        kinds, weights = zip(*acts, strict=True)
        mean = len(self.sessions) / (10.0 * self.plan.rate)
        while not stop.is_set():
            try:
                async with asyncio.timeout(session.chance.expovariate(1 / mean)):
                    await stop.wait()
            except TimeoutError:
                await session.chance.choices(kinds, weights)[0](session)

    async def _one_shot(self, session: Session) -> None:
        chance = session.chance
        body = {"payload": {"ms": chance.randrange(200)}, "delaySec": round(chance.random() * self.plan.latest, 3)}
        await session.enqueue(self._on_demand["one-shot"], body)

    async def _one_shot_job(self, session: Session) -> None:
        at = time.time() + session.chance.random() * self.plan.latest
        if at < self.plan.ends_at:
            await session.create(
                self._job(f"once-{session.key()}", "verify.quick", {"ms": session.chance.randrange(300)}, runAt=_moment(at))
            )

    async def _chronos(self, session: Session) -> None:
        """As in the test that found Chronos' faults: a duration, a tolerance, an interval longer than both, and a count."""
        chance, pace = session.chance, min(1.0, self.plan.seconds / 600)
        duration, tolerance = chance.random() * 9 * pace, 2 + chance.random() * 8 * pace
        interval = round(1 + duration + tolerance + chance.random() * 30 * pace)
        start = time.time() + chance.random() * 5
        end = min(start + interval * chance.randrange(1, 100), self.plan.ends_at)
        self._chronos_ends = [other for other in self._chronos_ends if other > time.time()]
        if end > start and len(self._chronos_ends) < MOST_CHRONOS:
            self._chronos_ends.append(end)
            handler = chance.choice(("verify.quick", "verify.thread", "verify.process"))
            body = self._job(f"chronos-{session.key()}", handler, {"ms": round(duration * 1000)}, intervalSec=interval, endAt=_moment(end))
            await session.create(body | {"startAt": _moment(start), "catchUp": "all"})

    async def _flaky(self, session: Session) -> None:
        await session.enqueue(self._on_demand["flaky"], {"payload": {"ms": session.chance.randrange(100), "fail": 0.3}})

    async def _long(self, session: Session) -> None:
        seconds = session.chance.uniform(min(3 * self.plan.lease, self.plan.longest), self.plan.longest)
        await session.enqueue(self._on_demand["long"], {"payload": {"steps": max(round(seconds / 0.5), 1), "ms": 500}})

    async def _update(self, session: Session) -> None:
        if session.jobs:
            job = session.chance.choice(sorted(session.jobs))
            body = self._changeable(session, session.jobs[job]["name"])
            call = await session.client.ask("job.update", "PUT", f"/v1/jobs/{job}", body, job=job)
            if call.status == "ok":
                session.jobs[job] = body

    async def _pause_or_resume(self, session: Session) -> None:
        if not session.jobs:
            return
        job = session.chance.choice(sorted(session.jobs))
        verb = "resume" if job in session.paused else "pause"
        call = await session.client.ask(f"job.{verb}", "POST", f"/v1/jobs/{job}/{verb}", {}, job=job)
        if call.status == "ok":
            (session.paused.discard if verb == "resume" else session.paused.add)(job)

    async def _delete(self, session: Session) -> None:
        if len(session.jobs) > 1:
            job = session.chance.choice(sorted(session.jobs))
            call = await session.client.ask("job.delete", "DELETE", f"/v1/jobs/{job}", job=job)
            if call.status != "fail":
                del session.jobs[job]
            body = self._changeable(session, f"{session.client.name}-own-{session.key()}")
            made = await session.create(body)
            if made is not None:
                session.jobs[made] = body

    async def _cancel(self, session: Session) -> None:
        if session.runs:
            run = session.chance.choice(session.runs)
            call = await session.client.ask("run.cancel", "POST", f"/v1/executions/{run}/cancel", {})
            call.runs = [run]

    async def _read(self, session: Session) -> None:
        if session.jobs and session.chance.random() < 0.4:
            job = session.chance.choice(sorted(session.jobs))
            await session.client.ask("job.read", "GET", f"/v1/jobs/{job}", job=job)
        elif session.runs:
            # What was asked for last: the write that a stale read would miss.
            run = session.runs[-1]
            call = await session.client.ask("run.read", "GET", f"/v1/executions/{run}")
            call.runs = [run]

    # ------------------------------------------------------------ jobs

    async def _create_all(self, session: Session, bodies: list[dict[str, Any]]) -> None:
        for body in bodies:
            await session.create(body)

    def _job(self, name: str, handler: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"name": name, "target": {"handler": handler}, "payload": payload, "retryPolicy": RETRY, "overlap": "allow", **more}

    def _on_demand_job(self, name: str) -> dict[str, Any]:
        handler = {"long": "verify.long", "flaky": "verify.thread"}.get(name, "verify.quick")
        return self._job(name, handler, {})

    def _ticks(self) -> list[dict[str, Any]]:
        """Every second."""
        end = _moment(self.plan.ends_at)
        made = []
        for nth in range(self.plan.ticks):
            catch_up: Any = "all" if nth % 2 else {"policy": CATCH_UPS[nth // 2 % 3], "graceSec": 3, "maxCount": 5}
            made.append(
                self._job(f"tick-{nth}", "verify.quick", {"ms": 5}, schedule="* * * * * *", seconds=True, catchUp=catch_up, endAt=end)
            )
        return made

    def _overlaps(self) -> list[dict[str, Any]]:
        """Runs that take longer than the time between two of them."""
        end = _moment(self.plan.ends_at)
        made = []
        for policy in OVERLAPS:
            body = self._job(f"overlap-{policy}", "verify.quick", {"ms": 2500}, schedule="*/2 * * * * *", seconds=True, endAt=end)
            more = {"queue_all": {"maxQueued": 3}, "allow": {"maxRunning": 2}, "kill_previous": {"killGraceSec": 1}}.get(policy, {})
            made.append({**body, "overlap": policy, **more})
        return made

    def _mixed(self) -> list[dict[str, Any]]:
        """Six fields, odd zones, intervals, and schedules whose runs fail."""
        end = _moment(self.plan.ends_at)
        long = {"steps": max(round(self.plan.longest / 2 / 0.5), 1), "ms": 500}
        return [
            self._job(
                "six-fields", "verify.thread", {"ms": 50}, schedule="*/7 * * * * *", seconds=True, timezone="Asia/Kathmandu", endAt=end
            ),
            self._job(
                "odd-seconds", "verify.quick", {}, schedule="1-59/2 * * * * *", seconds=True, timezone="Australia/Lord_Howe", endAt=end
            ),
            self._job("failing", "verify.thread", {"ms": 20, "fail": 0.3}, intervalSec=2, endAt=end),
            self._job("in-a-process", "verify.process", {"ms": 100}, intervalSec=3, endAt=end),
            self._job("deaf", "verify.deaf", {"ms": round(self.plan.lease * 1500)}, intervalSec=3, endAt=end),
            {**self._job("long-steps", "verify.long", long, intervalSec=10, endAt=end), "overlap": "skip"},
        ]

    def _workflows(self) -> list[dict[str, Any]]:
        """A chain, a diamond, a wide join and a map, some steps of which fail and are tried again."""
        end = _moment(self.plan.ends_at)
        chain = [_step(f"s{n}", *([f"s{n - 1}"] if n else [])) for n in range(5)]
        diamond = [_step("a"), _step("b", "a", fail=0.2), _step("c", "a"), _step("d", "b", "c")]
        wide = [_step(f"p{n}", ms=n) for n in range(20)]
        join = [*wide, _step("join", *(step["name"] for step in wide), trigger="all_done")]
        listed = {"name": "list", "target": {"handler": "duly.echo"}, "payload": [{"ms": n} for n in range(12)]}
        mapped = [listed, _step("each", map="list", maxParallel=4), _step("sum", "each")]
        shapes = {"chain": chain, "diamond": diamond, "join": join, "map": mapped}
        return [
            {"name": f"flow-{name}", "steps": steps, "intervalSec": 6, "endAt": end, "overlap": "allow", "catchUp": "latest"}
            for name, steps in shapes.items()
        ]

    def _changeable(self, session: Session, name: str) -> dict[str, Any]:
        every = session.chance.choice((2, 3, 4, 5, 7))
        end = _moment(self.plan.ends_at)
        overlap = session.chance.choice(("allow", "skip", "queue_one"))
        if session.chance.random() < 0.5:
            body = self._job(name, "verify.quick", {"ms": 100}, schedule=f"*/{every} * * * * *", seconds=True, endAt=end)
        else:
            body = self._job(name, "verify.quick", {"ms": 100}, intervalSec=every, endAt=end, anchorAt=_moment(time.time() // 1))
        return {**body, "overlap": overlap, "catchUp": session.chance.choice(CATCH_UPS)}


def _step(name: str, *after: str, ms: int = 10, fail: float = 0.0, **more: Any) -> dict[str, Any]:
    """A step that takes a moment, and perhaps fails. Of a mapped one the item says how long."""
    payload = {} if "map" in more else {"payload": {"ms": ms, "fail": fail}}
    step = {"name": name, "target": {"handler": "verify.quick"}, "dependsOn": list(after), "retryPolicy": RETRY}
    return step | payload | more


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
