"""Jobs: create, change, pause, resume, skip a fire, cancel, list, show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from duly.domain.access import Actor
from duly.domain.audit import on_job
from duly.domain.calendars import Calendar
from duly.domain.errors import Conflict, DulyError, Invalid, NotFound
from duly.domain.ids import JobId, job_text, new_ids
from duly.domain.instants import SECOND, Instant, Micros, to_rfc3339
from duly.domain.job import NAME, Job, JobSpec, JobVersion, check_spec, schedule_of
from duly.domain.lifecycle import JobState
from duly.domain.pauses import demand_fire, first_fire, past_pause
from duly.domain.redaction import without_credentials
from duly.domain.schedule import CalendarSchedule, Schedule, is_fire, next_fire, previous_fire
from duly.domain.shards import shard_of
from duly.ports.calendars import SkipAnswer
from duly.ports.clock import Clock, Entropy
from duly.ports.store import Definitions, Idempotency, JobFilter, NewJob, Reschedule
from duly.ports.transport import Transport
from duly.usecases.coalesce import Coalescer
from duly.usecases.deeds import job_changed, job_created
from duly.usecases.definable import check_types
from duly.usecases.dependencies import refuse_circles
from duly.usecases.overdue import Overdue, fires_once
from duly.usecases.quotas import Directory, check_payloads
from duly.usecases.turns import Turns
from duly.wire.jobs import JobShape
from duly.wire.specs import spec_of

# How often a change is tried again when somebody else was faster.
TRIES = 5
# One page of a list looks no further than that; its cursor goes on from there.
MOST_STEPS = 20
LOOKED_AT = 2_000
PATIENCE: Micros = SECOND


@dataclass(frozen=True, slots=True)
class _Creation:
    jobs: Sequence[NewJob]
    idempotency: Idempotency | None


class Jobs:
    """The use cases on job definitions. `sealed`: the store encrypts payloads, so they may have secret values in them."""

    def __init__(
        self,
        store: Definitions,
        overdue: Overdue,
        quotas: Directory,
        clock: Clock,
        entropy: Entropy,
        transport: Transport,
        *,
        sealed: bool = False,
    ) -> None:
        self._store = store
        self._overdue = overdue
        self._quotas = quotas
        self._clock = clock
        self._entropy = entropy
        self._transport = transport
        self._sealed = sealed
        self._creations: Coalescer[_Creation, list[Job]] = Coalescer(self._flush, most=5_000, weigh=lambda creation: len(creation.jobs))
        self._lookups: Coalescer[tuple[int, JobId], Job | None] = Coalescer(self._look_up)

    async def create(self, actor: Actor, shapes: Sequence[JobShape], idempotency: Idempotency | None = None) -> list[Job]:
        """Create all of them or none; concurrent calls share a commit."""
        now = self._clock.now()
        ids = new_ids(len(shapes), now, self._entropy)
        specs: list[JobSpec] = []
        try:
            for nth, (shape, id) in enumerate(zip(shapes, ids, strict=True)):
                with _naming_the(nth, len(shapes)):
                    specs.append(spec_of(shape, now, fallback_name=_fallback_name(shape, id)))
            return await self.create_specs(actor, list(zip(ids, specs, strict=True)), now, idempotency)
        except DulyError:
            earlier = await self.made_with(actor, idempotency)
            if earlier is None:
                raise
            return [await self.show(actor, id) for id in earlier]

    async def made_with(self, actor: Actor, idempotency: Idempotency | None) -> list[UUID] | None:
        """What a key was used for before, by the same request; None when it was not.

        For a repeat that would be refused as a new request: what was taken once stays so, whatever has become of the clock,
        of the job, of calendars and of quotas since.
        """
        return None if idempotency is None else await self._store.made_with(actor.tenant, idempotency, self._clock.now())

    async def create_specs(
        self, actor: Actor, wanted: Sequence[tuple[JobId, JobSpec]], now: Instant, idempotency: Idempotency | None = None
    ) -> list[Job]:
        """The same for specs that were made in code. Raises TooMany past the tenant's quota of jobs."""
        known = await self._calendars_of(actor, [spec for _, spec in wanted])
        quotas = await self._quotas.of(actor.tenant)
        bounded = quotas.max_jobs is not None
        new: list[NewJob] = []
        turns = Turns(self._clock)
        for nth, (id, spec) in enumerate(wanted):
            # The first fire may be far away.
            await turns.give_way()
            with _naming_the(nth, len(wanted)):
                check_payloads(quotas, spec)
                new.append(replace(_new_job(actor, id, _written_out(spec, known), now, sealed=self._sealed), within_quota=bounded))
        first: dict[str, int] = {}
        for nth, name in enumerate(item.spec.name for item in new):
            if (before := first.setdefault(name, nth)) != nth:
                raise Conflict("DULY-E208", f"The name {name!r} is that of jobs[{before}] already.", field=f"jobs[{nth}].name")
        await refuse_circles(self._store, actor.tenant, [item.spec for item in new])
        creation = _Creation(new, idempotency)
        # Who may be refused stays alone: its neighbours would have to be written anew.
        jobs = (await self._flush([creation]))[0] if bounded else await self._creations.add(creation)
        soonest = min((job.next_fire_at for job in jobs if job.next_fire_at is not None), default=None)
        if soonest is not None:
            await self._transport.announce_due(soonest)
        return jobs

    async def _flush(self, creations: Sequence[_Creation]) -> list[list[Job]]:
        return await self._store.create_jobs([(creation.jobs, creation.idempotency) for creation in creations], self._clock.now())

    async def stop_grace(self, version: int) -> Micros:
        """How long a handler of this job version may take to stop when it is asked; none for a version this release cannot read."""
        found = (await self._store.versions([version])).get(version)
        return 0 if found is None else found.spec.stop_grace

    async def show(self, actor: Actor, id: JobId) -> Job:
        """The job, or NotFound: a foreign tenant's job is not there. Callers that come at once share their queries."""
        job = await self._lookups.add((actor.tenant, id))
        if job is None:
            raise NotFound("DULY-E204", f"There is no job {job_text(id)}.", field="jobId")
        return job

    async def versions(self, numbers: Sequence[int]) -> list[JobVersion]:
        """The versions of these numbers, in the same order; one that a newer release wrote is left out."""
        found = await self._store.versions(numbers)
        return [found[number] for number in numbers if number in found]

    async def _look_up(self, wanted: Sequence[tuple[int, JobId]]) -> list[Job | None]:
        distinct = list(dict.fromkeys(wanted))
        found = dict(zip(distinct, await asyncio.gather(*(self._store.job(tenant, id) for tenant, id in distinct)), strict=True))
        return [found[key] for key in wanted]

    async def named(self, actor: Actor, name: str) -> Job | None:
        """The live job of that name, if there is one."""
        return await self._store.job_named(actor.tenant, name)

    async def find(self, wanted: JobFilter) -> list[Job]:
        """Newest first."""
        return await self._store.jobs(replace(wanted, now=self._clock.now()))

    async def page(self, wanted: JobFilter) -> tuple[list[Job], JobId | None]:
        """At most the filter's limit, newest first, and where to go on; None: these are the last.

        A filter that lets little through ends after a bounded number of steps, with what was found and a place to go on from.
        """
        found: list[Job] = []
        left = replace(wanted, now=self._clock.now(), limit=wanted.limit + 1)
        until = self._clock.boottime() + PATIENCE
        looked_at = left.limit
        for _ in range(MOST_STEPS):
            step = await self._store.job_step(left, looked_at)
            found += step.found
            if len(found) > wanted.limit:
                return found[: wanted.limit], found[wanted.limit - 1].id
            if step.reached is None or self._clock.boottime() > until:
                return found, step.reached
            left = replace(left, before=step.reached, limit=wanted.limit + 1 - len(found))
            looked_at = min(looked_at * 8, LOOKED_AT)
        return found, left.before

    async def of_source(self, actor: Actor, source: str) -> list[Job]:
        """Those that an application's code has brought and that may still fire."""
        found: list[Job] = []
        while page := await self._store.jobs_of_source(actor.tenant, source, found[-1].id if found else None, LOOKED_AT):
            found += page
        return found

    async def written_out(self, actor: Actor, spec: JobSpec) -> JobSpec:
        """The spec with the calendars that it names as they are now. Raises NotFound for one that there is not."""
        return _written_out(spec, await self._calendars_of(actor, [spec]))

    async def _calendars_of(self, actor: Actor, specs: Sequence[JobSpec]) -> dict[str, Calendar]:
        names = sorted({calendar.name for spec in specs for calendar in spec.timing.calendars})
        return await self._store.calendars_named(actor.tenant, names) if names else {}

    async def change(self, actor: Actor, id: JobId, shape: JobShape, expected: int | None) -> Job:
        """A new version. What is unchanged in its timing keeps its next fire; a paused job stays paused."""
        now = self._clock.now()
        before = await self.show(actor, id)
        _demand_version(before, expected)
        return await self.change_spec(
            actor, before, spec_of(shape, now, fallback_name=before.version.spec.name), now, retry=expected is None
        )

    async def change_spec(self, actor: Actor, before: Job, spec: JobSpec, now: Instant, *, retry: bool = True) -> Job:
        """The same for a spec that was made in code.

        Whether the schedule waits for another fire is decided against the version that the change replaces, never against
        an older one: with `retry` the job is read again when somebody was faster. What was due under the old timing is fired
        first; a one-time job moves to its new time, late or not.
        """
        spec = await self.written_out(actor, spec)
        check_types(spec)
        check_spec(spec, sealed=self._sealed)
        await refuse_circles(self._store, actor.tenant, [spec])
        check_payloads(await self._quotas.of(actor.tenant), spec)
        schedule = schedule_of(spec.timing, before.id)
        if isinstance(schedule, CalendarSchedule):
            demand_fire(schedule, now)
        for _ in range(TRIES if retry else 1):
            _refuse_cancelled(before)
            reschedule = None
            if spec.timing != before.version.spec.timing:
                if not fires_once(before):
                    before = await self._overdue.settle(before, now, partial(self.show, actor, before.id))
                reschedule = Reschedule(first_fire(schedule, now))
            deed = job_changed(actor, now, before, spec)
            if await self._store.new_version(actor.tenant, before.id, spec, reschedule, before.version.version, now, deed=deed):
                break
            before = await self.show(actor, before.id)
        else:
            raise _somebody_was_faster()
        after = await self.show(actor, before.id)
        if after.next_fire_at is not None:
            await self._transport.announce_due(after.next_fire_at)
        return after

    async def reschedule(self, actor: Actor, id: JobId, before: str, after: str) -> Job:
        """A new version with another cron expression, if the job still has the one `before`. Raises Conflict when it has not (DULY-E209),
        and for a job that is declared in code (DULY-E214): the next deployment would put it back."""
        job = await self.show(actor, id)
        spec = job.version.spec
        if spec.source is not None:
            raise Conflict("DULY-E214", f"{spec.name} is declared in {spec.source}.", field="jobId")
        if spec.timing.cron != before:
            raise _somebody_was_faster()
        changed = replace(spec, timing=replace(spec.timing, cron=after))
        return await self.change_spec(actor, job, changed, self._clock.now(), retry=False)

    async def pause(self, actor: Actor, id: JobId, reason: str | None, until: Instant | None = None, expected: int | None = None) -> Job:
        """Nothing starts from now on until it is resumed or, with `until`, until then. Pausing twice the same way changes nothing.

        A fire that was due and not dispatched yet is recorded as skipped by who paused it; a one-time job's waits for the end.
        """
        if until is not None and until <= self._clock.now():
            raise Invalid("DULY-E105", "lies in the past.", field="until", hint="Give a time to come, or leave it out.")

        def pausing(job: Job, now: Instant) -> Instant | None:
            if job.state is JobState.COMPLETED:
                raise Conflict("DULY-E210", "The job has no more fires to pause.", field="state")
            if until is None:
                return job.next_fire_at
            following = past_pause(job.version.schedule, first_fire(job.version.schedule, now), until, now)
            if following is None and job.version.schedule is not None:
                hint = "Leave `until` out to pause it for good, or cancel it."
                raise Conflict("DULY-E210", "The job has no fire after that time.", field="until", hint=hint)
            return following

        words = None if reason is None else without_credentials(reason)
        after = await self._set_state(actor, id, JobState.PAUSED, pausing, words, until, expected, action="job.pause")
        if until is not None and after.next_fire_at is not None:
            await self._transport.announce_due(after.next_fire_at)
        return after

    async def resume(self, actor: Actor, id: JobId, expected: int | None = None) -> Job:
        """Fires again from now on; what lay in the pause is not made up for, except a one-time job's only fire."""
        before = await self.show(actor, id)
        if before.state is JobState.COMPLETED:
            _demand_version(before, expected)
            return before

        def resuming(job: Job, now: Instant) -> Instant | None:
            return first_fire(job.version.schedule, now)

        after = await self._set_state(actor, id, JobState.ACTIVE, resuming, None, expected=expected, action="job.resume")
        if after.next_fire_at is not None:
            await self._transport.announce_due(after.next_fire_at)
        return after

    async def skip(self, actor: Actor, id: JobId, at: Instant | None = None, expected: int | None = None) -> Job:
        """Let one fire pass: the next one, or the one at `at`. One at a time; asking twice for the same changes nothing."""
        for _ in range(TRIES):
            job = await self.show(actor, id)
            _demand_version(job, expected)
            _refuse_cancelled(job)
            schedule = job.version.schedule
            if schedule is None or job.next_fire_at is None:
                raise Conflict("DULY-E210", "The job waits for no fire that could be skipped.", field="state")
            wanted = job.next_fire_at if at is None else at
            # The fire it waits for counts whatever the schedule says: a late one-time job waits past its time.
            if wanted != job.next_fire_at and (wanted < job.next_fire_at or not is_fire(schedule, wanted)):
                raise _not_a_fire(schedule, job.next_fire_at, wanted)
            was = {} if job.skip_at is None else {"skipAt": to_rfc3339(job.skip_at)}
            deed = on_job(actor, self._clock.now(), "job.skip", id, before=was, after={"skipAt": to_rfc3339(wanted)})
            match await self._store.skip(actor.tenant, id, wanted, actor.key_id, job.version.number, deed=deed):
                case SkipAnswer.DONE:
                    return await self.show(actor, id)
                case SkipAnswer.ANOTHER:
                    shown = "another one" if job.skip_at is None else f"that of {to_rfc3339(job.skip_at)}"
                    raise Conflict(
                        "DULY-E253", f"A fire is to be skipped already: {shown}.", field="at", hint="Take that back with unskip first."
                    )
                case SkipAnswer.PAST if at is not None:
                    raise _not_a_fire(schedule, job.next_fire_at, wanted)
                case SkipAnswer.PAST | SkipAnswer.CHANGED:
                    continue
        raise _somebody_was_faster()

    async def unskip(self, actor: Actor, id: JobId, expected: int | None = None) -> Job:
        """Take a skip back. Without one, nothing changes."""
        for _ in range(TRIES):
            job = await self.show(actor, id)
            _demand_version(job, expected)
            if job.skip_at is None:
                return job
            deed = on_job(actor, self._clock.now(), "job.unskip", id, before={"skipAt": to_rfc3339(job.skip_at)}, after={"skipAt": None})
            if await self._store.skip(actor.tenant, id, None, actor.key_id, job.version.number, deed=deed) is SkipAnswer.DONE:
                return await self.show(actor, id)
        raise _somebody_was_faster()

    async def cancel(self, actor: Actor, id: JobId, expected: int | None = None) -> Job:
        """Cancel the job and its future fires; what runs goes on. Cancelling twice is a no-op.

        A fire that was due and not dispatched yet is recorded as skipped by who cancelled it.
        """
        return await self._set_state(actor, id, JobState.CANCELLED, lambda job, now: None, None, expected=expected, action="job.cancel")

    async def _set_state(
        self,
        actor: Actor,
        id: JobId,
        state: JobState,
        following: Callable[[Job, Instant], Instant | None],
        reason: str | None,
        until: Instant | None = None,
        expected: int | None = None,
        *,
        action: str,
    ) -> Job:
        """Move the job to a state; where its schedule waits is decided against the version that it has then."""
        for _ in range(TRIES):
            before = await self.show(actor, id)
            _demand_version(before, expected)
            now = self._clock.now()
            if before.standing(now) is state and (state is not JobState.PAUSED or before.paused_until == until):
                return before
            _refuse_cancelled(before)
            if state is JobState.CANCELLED or (state is JobState.PAUSED and not fires_once(before)):
                before = await self._overdue.settle(before, now, partial(self.show, actor, id), unwanted_by=actor.key_id)
            why = actor if actor.reason or not reason else replace(actor, reason=reason)
            deed = on_job(why, now, action, id, after={"pauseReason": reason} if reason else None)
            if await self._store.set_state(
                actor.tenant, id, state, following(before, now), reason, now, before.version.number, by=actor.key_id, until=until, deed=deed
            ):
                return await self.show(actor, id)
        raise _somebody_was_faster()


def next_fires(job: Job, count: int) -> list[Instant]:
    """The next fires of a job that stands as it does."""
    schedule = job.version.schedule
    if job.state is not JobState.ACTIVE or schedule is None or job.next_fire_at is None:
        return []
    found: list[Instant] = [job.next_fire_at]
    while len(found) < count:
        following = next_fire(schedule, found[-1])
        if following is None:
            break
        found.append(following)
    return found


@contextmanager
def _naming_the(nth: int, count: int) -> Iterator[None]:
    """In a batch, an error says which of the jobs it is about."""
    try:
        yield
    except DulyError as error:
        if count > 1:
            error.field = f"jobs[{nth}].{error.field}" if error.field else f"jobs[{nth}]"
        raise


def _fallback_name(shape: JobShape, id: JobId) -> str:
    """The name of a job that was given none. What is no name itself is left out, so that the error is about the handler."""
    handler = None if shape.target is None else shape.target.handler
    return f"{handler[:90] if handler is not None and NAME.match(handler) else 'job'}-{id.hex}"


def _new_job(actor: Actor, id: JobId, spec: JobSpec, now: Instant, *, sealed: bool) -> NewJob:
    check_types(spec)
    check_spec(spec, sealed=sealed)
    schedule = schedule_of(spec.timing, id)
    first = demand_fire(schedule, now)
    return NewJob(
        id=id,
        tenant=actor.tenant,
        spec=spec,
        shard=shard_of(id),
        next_fire_at=first,
        tenant_name=actor.tenant_name,
        deed=job_created(actor, now, id, spec),
    )


def _written_out(spec: JobSpec, known: Mapping[str, Calendar]) -> JobSpec:
    """The spec with each calendar that it names as it is known."""
    if not spec.timing.calendars:
        return spec
    for calendar in spec.timing.calendars:
        if calendar.name not in known:
            hint = "`duly calendar list` shows those that there are."
            raise NotFound("DULY-E251", f"There is no calendar {calendar.name!r}.", field="calendars", hint=hint)
    written = tuple(known[calendar.name] for calendar in spec.timing.calendars)
    return replace(spec, timing=replace(spec.timing, calendars=written))


def _not_a_fire(schedule: Schedule, following: Instant, at: Instant) -> Invalid:
    """Why this time cannot be skipped, with the fires around it that can."""
    near = [fire for fire in (previous_fire(schedule, at), next_fire(schedule, at)) if fire is not None and fire >= following]
    hint = f"Fires near it: {' and '.join(to_rfc3339(fire) for fire in near)}." if near else f"The next fire: {to_rfc3339(following)}."
    return Invalid("DULY-E136", f"The job does not fire at {to_rfc3339(at)}.", field="at", hint=hint)


def _somebody_was_faster() -> Conflict:
    return Conflict("DULY-E209", "The job has changed meanwhile.", hint="Read it again and repeat the change.")


def _demand_version(job: Job, expected: int | None) -> None:
    """Raises Conflict unless the job has the version that the caller has read."""
    if expected is not None and job.version.version != expected:
        raise _somebody_was_faster()


def _refuse_cancelled(job: Job) -> None:
    if job.state is JobState.CANCELLED:
        raise Conflict("DULY-E210", "The job is cancelled and stays so.", field="state", hint="Create a new one.")
