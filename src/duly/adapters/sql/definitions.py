"""Jobs, versions, keys and idempotency: rare writes, the same text on both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from json import dumps, loads
from typing import Any
from uuid import UUID

from duly.adapters.sql import listing
from duly.adapters.sql.audit import append
from duly.adapters.sql.engine import Action, Call, Engine, Lane, Many, one
from duly.adapters.sql.job_rules import demand_channels, keep_rules, rules_in
from duly.adapters.sql.listing import LAST_ID
from duly.adapters.sql.quotas import admit_jobs
from duly.adapters.sql.rows import NEVER, calendar_of, encode, job_of, readable_version_of
from duly.domain.audit import Deed
from duly.domain.calendars import Calendar
from duly.domain.errors import Conflict
from duly.domain.ids import JobId, id_floor
from duly.domain.instants import Instant, to_rfc3339
from duly.domain.job import Job, JobSpec, JobVersion, route_labels, schedule_of, step_spec
from duly.domain.lifecycle import JobState
from duly.domain.pauses import keeps_skip, past_pause
from duly.domain.shards import shard_of
from duly.domain.workflow.ids import step_job_id
from duly.ports.calendars import SkipAnswer
from duly.ports.store import Idempotency, JobFilter, JobStep, NewJob, Reschedule, Waiting

# A definition may be large: so many of them are read by one statement.
VERSIONS_AT_ONCE = 1_000
# Along a chain every step is of a version that is new to whoever runs it: so many of the next come with the first.
STEPS_ALONG = 32
# Jobs that are looked at together when whoever asks does not say.
AT_ONCE = 1_000


Create = Callable[[Sequence[tuple[NewJob, int]], Instant], Action[dict[JobId, int]]]


class SqlDefinitions:
    """Jobs and their versions. `create` writes new jobs with their routes: one by one, or as the engine does it better."""

    def __init__(self, engine: Engine, create: Create | None = None) -> None:
        self._engine = engine
        self._create = create or create_one_by_one

    async def create_jobs(self, creations: Sequence[tuple[Sequence[NewJob], Idempotency | None]], now: Instant) -> list[list[Job]]:
        def action() -> Action[list[list[Job]]]:
            routes: dict[tuple[str, str, str], int] = {}
            created: list[list[Job]] = []
            for jobs, idempotency in creations:
                earlier = None
                if idempotency is not None:
                    earlier = yield from use_key(jobs[0].tenant, idempotency, [job.id for job in jobs], now)
                created.append(
                    (yield from self._new(jobs, routes, now)) if earlier is None else (yield from _read(jobs[0].tenant, earlier))
                )
            return created

        return await self._engine.run(action)

    def _new(self, jobs: Sequence[NewJob], routes: dict[tuple[str, str, str], int], now: Instant) -> Action[list[Job]]:
        if jobs[0].within_quota:
            yield from admit_jobs(jobs[0].tenant, len(jobs), now)
        yield from hold_calendars(jobs[0].tenant, [job.spec for job in jobs])
        yield from demand_channels(jobs[0].tenant, [job.spec for job in jobs])
        placed: list[tuple[NewJob, int]] = []
        for job in jobs:
            placed.append((job, (yield from _route(job.spec, routes))))
        numbers = yield from self._create(placed, now)
        for job in jobs:
            yield from _add_steps(job.id, 1, job.spec, routes, now)
            yield from keep_rules(job.tenant, (), job.spec, now)
        yield from use_calendars((job.tenant, job.id, job.spec) for job in jobs)
        yield from append([job.deed for job in jobs])
        return [
            Job(
                job.id,
                JobState.ACTIVE,
                JobVersion(numbers[job.id], job.id, 1, job.tenant, job.tenant_name, route, job.spec, now),
                now,
                job.next_fire_at,
            )
            for job, route in placed
        ]

    async def made_with(self, tenant: int, idempotency: Idempotency, now: Instant) -> list[UUID] | None:
        used = one(await self._engine.fetch("used_key", {"tenant": tenant, "key": idempotency.key}))
        if used is None or used["expires_at"] <= now or bytes(used["body_hash"]) != idempotency.body_hash:
            return None
        return [UUID(hex=text) for text in loads(used["answer"])]

    async def job(self, tenant: int, id: JobId) -> Job | None:
        row = one(await self._engine.fetch("job", {"tenant": tenant, "id": id}, Lane.KEYED))
        return None if row is None else job_of(row)

    async def job_named(self, tenant: int, name: str) -> Job | None:
        row = one(await self._engine.fetch("job_named", {"tenant": tenant, "name": name}))
        return None if row is None else job_of(row)

    async def jobs(self, wanted: JobFilter) -> list[Job]:
        found: list[Job] = []
        while len(found) < wanted.limit:
            step = await self.job_step(replace(wanted, limit=wanted.limit - len(found)), AT_ONCE)
            found += step.found
            if step.reached is None:
                break
            wanted = replace(wanted, before=step.reached)
        return found

    async def job_step(self, wanted: JobFilter, looked_at: int) -> JobStep:
        return await self._engine.read(lambda: listing.step(wanted, looked_at))

    async def jobs_of_source(self, tenant: int, source: str, before: JobId | None, limit: int) -> list[Job]:
        return await self._engine.read(lambda: listing.of_source(tenant, source, before or LAST_ID, limit))

    async def waiting(self, tenant: int, before: Instant, limit: int) -> tuple[list[Waiting], Instant]:
        return await self._engine.read(lambda: listing.waiting(tenant, before, limit, self._engine.name))

    async def changed_jobs(self, tenant: int, since: Instant, limit: int) -> list[Job]:
        params = {"tenant": tenant, "since": since, "first": id_floor(since), "quota": limit}
        return [job_of(row) for row in await self._engine.fetch("changed_jobs", params)]

    async def new_version(
        self,
        tenant: int,
        id: JobId,
        spec: JobSpec,
        reschedule: Reschedule | None,
        expected: int | None,
        now: Instant,
        *,
        deed: Deed | None = None,
    ) -> bool:
        def action() -> Action[bool]:
            yield from hold_calendars(tenant, [spec])
            yield from demand_channels(tenant, [spec])
            waits, row = yield from _lock_both(tenant, id)
            if row is None or row["state"] == JobState.CANCELLED:
                return False
            replaced = (yield Call("replaced_version", {"id": row["version_id"]}))[0]
            current = int(replaced["version"])
            if expected is not None and current != expected:
                return False
            if spec.name != row["name"] and (yield Call("name_is_taken", {"tenant": tenant, "name": spec.name, "id": id})):
                raise name_taken(spec.name)
            routes: dict[tuple[str, str, str], int] = {}
            route = yield from _route(spec, routes)
            number = yield from _add_version(id, current + 1, route, spec, now)
            yield from _add_steps(id, current + 1, spec, routes, now)
            state = JobState(row["state"])
            if reschedule is None:
                yield Call("set_schedule_version", {"job_id": id, "version": number})
            else:
                schedule = schedule_of(spec.timing, id)
                following = past_pause(schedule, reschedule.next_fire_at, row["paused_until"], now)
                if state is JobState.COMPLETED and following is not None:
                    yield from admit_jobs(tenant, 1, now)
                    state = JobState.ACTIVE
                yield Call(
                    "set_schedule",
                    {
                        "job_id": id,
                        "shard": shard_of(id),
                        "next_fire_at": NEVER if following is None else following,
                        "version": number,
                        "paused": state is JobState.PAUSED,
                    },
                )
                if waits is not None and waits["skip_at"] is not None and not keeps_skip(schedule, waits["skip_at"]):
                    yield Call("set_skip", {"job_id": id, "skip_at": None, "skip_by": None})
            yield Call("set_version", {"id": id, "version": number, "name": spec.name, "state": state, "now": now})
            yield Call("drop_calendar_uses", {"job_id": id})
            yield from use_calendars([(tenant, id, spec)])
            yield from keep_rules(tenant, rules_in(replaced["watched"]), spec, now)
            yield from append([deed])
            return True

        return await self._engine.run(action)

    async def set_state(
        self,
        tenant: int,
        id: JobId,
        state: JobState,
        next_fire_at: Instant | None,
        reason: str | None,
        now: Instant,
        expected: int | None = None,
        *,
        by: str | None = None,
        until: Instant | None = None,
        deed: Deed | None = None,
    ) -> bool:
        def action() -> Action[bool]:
            row = yield from _lock(tenant, id)
            if row is None or row["state"] == JobState.CANCELLED or (expected is not None and row["version_id"] != expected):
                return False
            paused = state is JobState.PAUSED
            # A pause with an end is over by itself: the schedule goes on waiting, for a fire past that end.
            kept = JobState.ACTIVE if paused and until is not None else state
            yield Call(
                "set_job_state",
                {
                    "id": id,
                    "state": kept,
                    "paused_at": now if paused else None,
                    "reason": reason if paused else None,
                    "paused_by": by if paused else None,
                    "paused_until": until if paused else None,
                    "now": now,
                },
            )
            # What the auditor goes by: when nothing was to fire.
            yield Call("end_pause", {"job_id": id, "now": now})
            if state is JobState.CANCELLED:
                yield Call("drop_calendar_uses", {"job_id": id})
                replaced = (yield Call("replaced_version", {"id": row["version_id"]}))[0]
                yield from keep_rules(tenant, rules_in(replaced["watched"]), None, now)
            if kept is not JobState.ACTIVE or paused:
                yield Call("note_pause", {"job_id": id, "now": now, "until": until if paused else None})
            following = NEVER if state is JobState.CANCELLED or next_fire_at is None else next_fire_at
            yield Call(
                "set_schedule",
                {
                    "job_id": id,
                    "shard": shard_of(id),
                    "next_fire_at": following,
                    "version": row["version_id"],
                    "paused": kept is not JobState.ACTIVE,
                },
            )
            if deed is not None:
                yield from append([deed.changing(_standing(row, now), _standing({"state": kept, "paused_until": until}, now))])
            return True

        return await self._engine.run(action)

    async def skip(self, tenant: int, id: JobId, at: Instant | None, by: str, expected: int, *, deed: Deed | None = None) -> SkipAnswer:
        def action() -> Action[SkipAnswer]:
            waits, row = yield from _lock_both(tenant, id)
            if row is None or waits is None or row["version_id"] != expected:
                return SkipAnswer.CHANGED
            if at is not None and at < waits["next_fire_at"]:
                return SkipAnswer.PAST
            # One that lies behind the schedule is spent, and in nobody's way.
            if at is not None and waits["skip_at"] not in (None, at) and waits["skip_at"] >= waits["next_fire_at"]:
                return SkipAnswer.ANOTHER
            if waits["skip_at"] != at:
                yield Call("set_skip", {"job_id": id, "skip_at": at, "skip_by": None if at is None else by})
                yield from append([deed])
            return SkipAnswer.DONE

        return await self._engine.run(action)

    async def calendars_named(self, tenant: int, names: Sequence[str]) -> dict[str, Calendar]:
        found: dict[str, Calendar] = {}
        for name in names:
            row = one(await self._engine.fetch("calendar", {"tenant": tenant, "name": name}))
            if row is not None:
                found[name] = calendar_of(row).calendar
        return found

    async def versions(self, numbers: Sequence[int]) -> dict[int, JobVersion]:
        found: dict[int, JobVersion] = {}
        following = STEPS_ALONG if len(numbers) == 1 else 0
        for first in range(0, len(numbers), VERSIONS_AT_ONCE):
            asked = ",".join(map(str, numbers[first : first + VERSIONS_AT_ONCE]))
            for row in await self._engine.fetch("versions", {"numbers": asked, "following": following}):
                # What a newer release wrote is left out: whoever can read it will run it.
                if (version := readable_version_of(row)) is not None:
                    found[version.number] = version
        return found


def use_key(tenant: int, idempotency: Idempotency, ids: Sequence[UUID], now: Instant) -> Action[list[UUID] | None]:
    """Use an idempotency key inside an action: None when it is new, else the ids that its first use made.

    The insert waits for a concurrent first use to end, so of two simultaneous calls exactly one creates.
    """
    params = {
        "tenant": tenant,
        "key": idempotency.key,
        "body_hash": idempotency.body_hash,
        "answer": dumps([id.hex for id in ids]),
        "expires_at": idempotency.expires_at,
        "now": now,
    }
    if (yield Call("use_key", params)):
        return None
    used = one((yield Call("used_key", {"tenant": tenant, "key": idempotency.key})))
    if used is None or bytes(used["body_hash"]) != idempotency.body_hash:
        raise Conflict("DULY-E207", f"The idempotency key {idempotency.key!r} was used for another request.", field="Idempotency-Key")
    return [UUID(hex=text) for text in loads(used["answer"])]


def use_key_for_secret(tenant: int, idempotency: Idempotency | None, id: str, now: Instant, called: str | None = None) -> Action[None]:
    """Use an idempotency key for something with a secret, which was shown once and is kept nowhere: a repeat makes no second one, and
    cannot be answered as the first was. `id` is in hexadecimal digits; what people call it otherwise is `called`."""
    earlier = None if idempotency is None else (yield from use_key(tenant, idempotency, [UUID(int=int(id, 16))], now))
    if earlier is not None:
        made = called or f"{earlier[0].int:0{len(id)}x}"
        raise Conflict("DULY-E213", f"This request has made {made} already, and its secret was shown then.", field="Idempotency-Key")


def once(tenant: int, idempotency: Idempotency, ids: list[UUID], now: Instant, write: Action[dict[UUID, UUID]]) -> Action[list[UUID]]:
    """Write under an idempotency key: what `write` makes, or the ids that the key's first use made.

    `write` answers which of the ids stand for another that was there before.
    """
    earlier = yield from use_key(tenant, idempotency, ids, now)
    if earlier is not None:
        return earlier
    instead = yield from write
    if instead:
        ids = [instead.get(id, id) for id in ids]
        yield from answer_key(tenant, idempotency, ids)
    return ids


def answer_key(tenant: int, idempotency: Idempotency, ids: Sequence[UUID]) -> Action[None]:
    """What an idempotency key has made, where that was not known when it was used."""
    yield Call("answer_key", {"tenant": tenant, "key": idempotency.key, "answer": dumps([id.hex for id in ids])})


def create_one_by_one(jobs: Sequence[tuple[NewJob, int]], now: Instant) -> Action[dict[JobId, int]]:
    """Three statements a job; answers the numbers of their versions. Raises Conflict for a name that is taken."""
    numbers: dict[JobId, int] = {}
    for job, route in jobs:
        number = numbers[job.id] = yield from _add_version(job.id, 1, route, job.spec, now)
        if not (yield Call("add_job", {"id": job.id, "tenant": job.tenant, "name": job.spec.name, "version": number, "now": now})):
            raise name_taken(job.spec.name)
        if job.next_fire_at is not None:
            yield Call(
                "set_schedule", {"job_id": job.id, "shard": job.shard, "next_fire_at": job.next_fire_at, "version": number, "paused": False}
            )
    return numbers


def _standing(row: Mapping[str, Any], now: Instant) -> dict[str, Any]:
    """Where a job stands, in the words of a record. A pause that is over by itself is none."""
    until = row["paused_until"]
    waits = until is not None and until > now
    state = JobState.PAUSED if waits else JobState(row["state"])
    return {"state": state.name, "pausedUntil": to_rfc3339(until) if waits else None}


def _lock(tenant: int, id: JobId) -> Action[Any]:
    """The job as it stands, locked."""
    _, row = yield from _lock_both(tenant, id)
    return row


def _lock_both(tenant: int, id: JobId) -> Action[tuple[Any, Any]]:
    """The schedule and the job as they stand, locked. The schedule first: the order in which a fire locks them."""
    waits = one((yield Call("lock_schedule", {"job_id": id})))
    return waits, one((yield Call("lock_job", {"id": id, "tenant": tenant})))


def hold_calendars(tenant: int, specs: Sequence[JobSpec]) -> Action[None]:
    """Hold the calendars that these jobs have written out, before anything else is locked: a change of one waits, and finds the job.

    Raises Conflict when one of them has changed since it was read.
    """
    for name, version in sorted({(calendar.name, calendar.version) for spec in specs for calendar in spec.timing.calendars}):
        row = one((yield Call("lock_calendar", {"tenant": tenant, "name": name})))
        if row is None or row["version"] != version:
            raise Conflict(
                "DULY-E209",
                f"The calendar {name!r} has changed meanwhile.",
                field="calendars",
                hint="Repeat the request, it reads it again.",
            )


def use_calendars(jobs: Iterable[tuple[int, JobId, JobSpec]]) -> Action[None]:
    """Remember which jobs name which calendars."""
    uses = [{"tenant": tenant, "name": calendar.name, "job_id": id} for tenant, id, spec in jobs for calendar in spec.timing.calendars]
    if uses:
        yield Many("add_calendar_use", uses)


def _read(tenant: int, ids: Sequence[JobId]) -> Action[list[Job]]:
    jobs: list[Job] = []
    for id in ids:
        jobs += [job_of(row) for row in (yield Call("job", {"tenant": tenant, "id": id}))]
    return jobs


def _route(spec: JobSpec, known: dict[tuple[str, str, str], int]) -> Action[int]:
    key = (spec.target.pool, route_labels(spec.target.requires), spec.target.handler_name)
    if key in known:
        return known[key]
    params = dict(zip(("pool", "labels", "handler"), key, strict=True))
    row = one((yield Call("route", params)))
    if row is None:
        yield Call("add_route", params)
        row = one((yield Call("route", params)))
    known[key] = number = int(row["route"])
    return number


def _add_version(job_id: JobId, version: int, route: int, spec: JobSpec, now: Instant) -> Action[int]:
    params = {
        "job_id": job_id,
        "version": version,
        "route": route,
        "max_attempts": spec.retry.max_attempts,
        "definition": encode(spec),
        "now": now,
    }
    row = one((yield Call("add_version", params)))
    return int(row["id"])


def _add_steps(job_id: JobId, version: int, spec: JobSpec, routes: dict[tuple[str, str, str], int], now: Instant) -> Action[None]:
    """The steps of a workflow's version, each with a version of its own. One that runs another workflow has that one's."""
    rows: list[dict[str, Any]] = []
    for place, step in enumerate(spec.steps):
        if step.workflow is not None:
            continue
        own = step_spec(spec, step, place)
        rows.append(
            {
                "job_id": step_job_id(job_id, step.name),
                "version": version,
                "route": (yield from _route(own, routes)),
                "max_attempts": own.retry.max_attempts,
                "definition": encode(own),
                "now": now,
                "workflow": job_id,
                "step": place,
            }
        )
    if rows:
        yield Many("add_step_version", rows)


def name_taken(name: str) -> Conflict:
    """Why a job cannot have this name."""
    return Conflict("DULY-E208", f"A job named {name!r} exists already.", field="name", hint="Change it with PUT, or delete it first.")
