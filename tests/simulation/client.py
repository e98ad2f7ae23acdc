"""The clients: they ask the API processes for things, wait for the answers as long as clients do, and write down what they know.

A client trusts nothing: an answer that does not come is `info`, and what was asked for may have been done. It asks again
later under the same key.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from duly.domain.access import Actor, Role
from duly.domain.bulk import BulkAction, Match
from duly.domain.calendars import Calendar, Window
from duly.domain.errors import DulyError, Unavailable
from duly.domain.ids import execution_text, job_text
from duly.domain.instants import DAY, SECOND
from duly.domain.job import Job, JobType
from duly.domain.lifecycle import JobState
from duly.ports.calendars import CalendarRow
from duly.ports.store import Idempotency, JobFilter
from duly.usecases.backfill import BackfillAsk
from duly.usecases.bulk import BulkAsk
from duly.usecases.executions import Wanted
from duly.verify.history import Call
from duly.wire.jobs import JobShape, job_view
from tests.simulation.database import TENANTS
from tests.simulation.fleet import Api, Fleet
from tests.simulation.jobs import CALENDAR, DEEDS, JobDrawer
from tests.simulation.plan import Plan

T = TypeVar("T")
PATIENCE = 4.0
_shape = msgspec.json.Decoder(JobShape).decode
_encode = msgspec.json.encode
_RECURRING = (JobType.CRON, JobType.INTERVAL, JobType.RRULE)
ACTORS = [Actor(number, name, Role.ADMIN, f"key-{name}") for number, name in TENANTS.items()]


@dataclass(slots=True)
class Known:
    """A job that a client knows of."""

    id: UUID
    actor: Actor
    body: dict[str, Any]
    runs: list[UUID] = field(default_factory=list)
    is_cancelled: bool = False

    @property
    def recurs(self) -> bool:
        return any(key in self.body for key in ("intervalSec", "schedule"))


@dataclass(slots=True)
class Clients:
    """All clients of a run, and their log."""

    plan: Plan
    fleet: Fleet
    chance: random.Random
    calls: list[Call] = field(default_factory=list)
    jobs: list[Known] = field(default_factory=list)
    unsure: list[tuple[str, Actor, dict[str, Any], Known | None]] = field(default_factory=list)
    made: int = 0
    # Chance that a request or an answer between client and API is lost.
    drop: float = 0.0

    async def work(self, name: str, share: float, until: float) -> None:
        """One client: creates its share of the jobs, then enqueues, changes, cancels."""
        plan, chance, loop = self.plan, self.chance, self.fleet.loop
        drawer = JobDrawer(plan, chance)
        if "calendar" in plan.kinds:
            await self._close_for_a_while(name)
        left = max(1, round(plan.jobs * share))
        while loop.now < until:
            if left:
                left -= 1
                await self._create(name, drawer)
            else:
                await self._something(name)
            await asyncio.sleep(chance.expovariate(1 / 0.3 if left else 1 / 1.2))

    async def stop_schedules(self) -> None:
        """The end of the workload: whoever would go on to fire is paused, whatever it takes; also what nobody knows to be there."""
        for actor in ACTORS:
            while (found := await self._ask("job.list", "end", actor, partial(_all_jobs, actor)))[0] != "ok":
                pass
            for job in found[1] or []:
                if job.state is JobState.ACTIVE and job.version.spec.timing.type in _RECURRING:
                    known = Known(job.id, actor, {})
                    while (await self._ask("job.pause", "end", actor, partial(_pause, known), job=known))[0] == "info":
                        pass

    # ------------------------------------------------------------ deeds

    async def _something(self, name: str) -> None:
        chance, kinds = self.chance, self.plan.kinds
        if self.unsure and chance.random() < 0.5:
            await self._again(name)
            return
        if not self.jobs:
            return
        known = chance.choice(self.jobs)
        deeds = [deed for deed in DEEDS if deed in kinds]
        deed = chance.choice(deeds) if deeds and chance.random() < 0.5 else "enqueue"
        match deed:
            case "enqueue":
                await self._enqueue(name, known)
            case "change":
                await self._change(name, known)
            case "cancel":
                await self._cancel(name, known)
            case "bulk":
                action = chance.choice((BulkAction.CANCEL, BulkAction.RETRY, BulkAction.REPLAY))
                ask = BulkAsk(action=action, match=Match(job_id=known.id), limit=5)
                await self._ask("bulk." + action.value, name, known.actor, lambda api: api.bulk.start(known.actor, ask), job=known)
            case _:
                await self._backfill(name, known)

    async def _create(self, name: str, drawer: JobDrawer) -> None:
        actor = self.chance.choice(ACTORS)
        body = drawer.draw(self.fleet.clock.now())
        body["name"] = f"{name}-{body['name']}"
        key = None
        if self.chance.random() < 0.6:
            self.made += 1
            key = f"create-{self.made}"
        await self._send_create(name, actor, body, key)

    async def _send_create(self, name: str, actor: Actor, body: dict[str, Any], key: str | None) -> None:
        text = _encode(body)

        async def create(api: Api) -> Job:
            return (await api.jobs.create(actor, [_shape(text)], self._once(key, text)))[0]

        status, job = await self._ask("job.create", name, actor, create, body=body, key=key)
        if status == "ok" and job is not None:
            if all(known.id != job.id for known in self.jobs):
                self.jobs.append(Known(job.id, actor, body))
        elif status == "info" and key is not None:
            self.unsure.append((key, actor, body, None))

    async def _again(self, name: str) -> None:
        """The same as before, under the same key: it is done once, whatever became of the first."""
        key, actor, body, known = self.unsure.pop(0)
        if known is None:
            await self._send_create(name, actor, body, key)
        else:
            await self._send_enqueue(name, known, body, key)

    async def _enqueue(self, name: str, known: Known) -> None:
        chance = self.chance
        body: dict[str, Any] = {"count": chance.choice((1, 1, 2, 5))}
        if known.body.get("target", {}).get("handler") == "gather":
            body["count"] = 6
        if chance.random() < 0.3:
            body["delaySec"] = chance.choice((0.5, 2, 6))
        if chance.random() < 0.5:
            body["user"] = chance.randint(1, 2)
        key = None
        if chance.random() < 0.5:
            self.made += 1
            key = f"enqueue-{self.made}"
        await self._send_enqueue(name, known, body, key)

    async def _send_enqueue(self, name: str, known: Known, body: dict[str, Any], key: str | None) -> None:
        payload = known.body["payload"] | ({"user": body["user"]} if "user" in body else {})
        delay = round(body["delaySec"] * SECOND) if "delaySec" in body else None
        wanted = [Wanted(payload=_encode(payload).decode(), delay=delay)] * body["count"]

        async def enqueue(api: Api) -> list[UUID]:
            made = await api.executions.enqueue(known.actor, known.id, wanted, self._once(key, _encode(body)))
            return [item.id for item in made]

        status, ids = await self._ask("run.enqueue", name, known.actor, enqueue, job=known, body=body, key=key)
        if status == "ok" and ids is not None:
            known.runs += ids
        elif status == "info" and key is not None:
            self.unsure.append((key, known.actor, body, known))

    async def _change(self, name: str, known: Known) -> None:
        chance, actor, id = self.chance, known.actor, known.id
        match chance.randrange(7):
            case 0:
                await self._ask("job.pause", name, actor, lambda api: api.jobs.pause(actor, id, "drawn"), job=known)
            case 1:
                until = self.fleet.clock.now() + chance.randint(1, 8) * SECOND
                await self._ask(
                    "job.pause", name, actor, lambda api: api.jobs.pause(actor, id, None, until), job=known, body={"until": until}
                )
            case 2 | 3:
                await self._ask("job.resume", name, actor, lambda api: api.jobs.resume(actor, id), job=known)
            case 4:
                await self._ask("job.skip", name, actor, lambda api: api.jobs.skip(actor, id), job=known)
            case 5:
                body = known.body | {"payload": known.body["payload"] | {"for": 0.2}}
                if "intervalSec" in body:
                    body["intervalSec"] += chance.randint(0, 2)
                text = _encode(body)
                status, _ = await self._ask(
                    "job.update", name, actor, lambda api: api.jobs.change(actor, id, _shape(text), None), job=known, body=body
                )
                if status == "ok":
                    known.body = body
            case _:
                if chance.random() < 0.5:
                    known.is_cancelled = True
                    status, _ = await self._ask("job.delete", name, actor, lambda api: api.jobs.cancel(actor, id), job=known)
                    known.is_cancelled = status == "ok"

    async def _cancel(self, name: str, known: Known) -> None:
        if known.runs:
            run = self.chance.choice(known.runs)
            await self._ask("run.cancel", name, known.actor, lambda api: api.executions.cancel(known.actor, run), job=known, runs=[run])

    async def _backfill(self, name: str, known: Known) -> None:
        if known.recurs:
            now = self.fleet.clock.now()
            ask = BackfillAsk(first=now - 6 * SECOND, last=now - SECOND)
            await self._ask("job.backfill", name, known.actor, lambda api: api.backfills.start(known.actor, known.id, ask), job=known)

    async def _close_for_a_while(self, name: str) -> None:
        start = self.fleet.clock.now() + self.chance.randint(3, 10) * SECOND
        calendar = Calendar(name=CALENDAR, zone="UTC", windows=(Window(start=start, end=start + self.chance.randint(2, 8) * SECOND),))
        for actor in ACTORS:
            for _ in range(20):
                status, _ = await self._ask("calendar.put", name, actor, partial(_put_calendar, actor, calendar))
                if status != "info":
                    break

    # ------------------------------------------------------------ asking

    def _once(self, key: str | None, body: bytes) -> Idempotency | None:
        return None if key is None else Idempotency(key, sha256(body).digest(), self.fleet.clock.now() + DAY)

    async def _ask(
        self,
        op: str,
        client: str,
        actor: Actor,
        make: Callable[[Api], Awaitable[T]],
        *,
        job: Known | None = None,
        runs: list[UUID] | None = None,
        body: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> tuple[str, T | None]:
        """Send a request to one of the API processes, and write down what came of it."""
        clock, loop, chance = self.fleet.clock, self.fleet.loop, self.chance
        call = Call(
            op=op,
            status="info",
            invoked_at=clock.now(),
            ended_at=0,
            client=client,
            tenant=actor.tenant_name,
            job=None if job is None else job_text(job.id),
            runs=[execution_text(run) for run in runs or ()],
            key=key,
            body=body or {},
        )
        self.calls.append(call)
        servers = [machine for machine in self.fleet.machines.values() if machine.api is not None and not machine.is_gone]
        answer: asyncio.Future[tuple[str, Any]] = loop.create_future()
        result: Any = None
        if servers and not (self.drop and chance.random() < self.drop):
            machine = chance.choice(servers)
            machine.node.spawn(self._serve(machine.api, make, answer))  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(PATIENCE):
                status, result = await answer
        except TimeoutError:
            status = "info"
        call.status = status  # type: ignore[assignment]
        call.ended_at = clock.now()
        if status == "ok":
            if isinstance(result, Job):
                call.job = job_text(result.id)
                call.answer = msgspec.json.decode(_encode(job_view(result, "", clock.now())))
            elif op == "run.enqueue":
                call.runs = [execution_text(run) for run in result]
        return status, result

    async def _serve(self, api: Api, make: Callable[[Api], Awaitable[Any]], answer: asyncio.Future[tuple[str, Any]]) -> None:
        try:
            said: tuple[str, Any] = ("ok", await make(api))
        except Unavailable:
            said = ("info", None)
        except DulyError as error:
            said = ("fail", error.code)
        if not answer.done() and not (self.drop and self.chance.random() < self.drop):
            answer.set_result(said)


async def _all_jobs(actor: Actor, api: Api) -> list[Job]:
    return await api.jobs.find(JobFilter(actor.tenant, limit=1000))


async def _pause(known: Known, api: Api) -> Job:
    return await api.jobs.pause(known.actor, known.id, None)


async def _put_calendar(actor: Actor, calendar: Calendar, api: Api) -> CalendarRow:
    return await api.calendars.put(actor, calendar)
