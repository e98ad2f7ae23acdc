"""The ports through which payloads go, each around the store's own. All else is the store's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from json import loads
from typing import Any, cast
from uuid import UUID

from duly.adapters.sealed.cipher import Cipher
from duly.domain.announcements import Named
from duly.domain.audit import Deed
from duly.domain.bulk import Candidate, Match
from duly.domain.errors import Invalid
from duly.domain.execution import Claimed, Execution, NewExecution, WorkerId
from duly.domain.fairness import Ask
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant
from duly.domain.job import Job, JobSpec, JobVersion
from duly.domain.lifecycle import State
from duly.domain.secrets import SEALED, has_marks
from duly.domain.workflow.ids import step_job_id
from duly.domain.workflow.step import Step
from duly.ports.flows import Added, Flows, Header, NewStep
from duly.ports.letters import Batch, Letters
from duly.ports.search import MOST_AT_ONCE, ExecutionSearch, Search
from duly.ports.search import Step as SearchStep
from duly.ports.store import (
    Admission,
    Definitions,
    EnqueueReport,
    ExecutionFilter,
    Idempotency,
    Insights,
    Intake,
    JobFilter,
    JobStep,
    NewJob,
    ReadyQueue,
    Reschedule,
    Store,
    StoreQueue,
)

EXECUTION, JOB, BATCH = "execution", "job", "batch"
# A batch is found by its id alone.
NO_TENANT = 0
MOST_TENANTS = 100_000


def sealed_store(store: Store, keys: Sequence[tuple[str, bytes]]) -> Store:
    """The store with its payloads encrypted: those of jobs, of executions and of bulk actions."""
    cipher = Cipher(keys)
    # Each delegates what it does not seal, which a type checker cannot see.
    return replace(
        store,
        definitions=cast(Definitions, SealedDefinitions(store.definitions, cipher)),
        intake=cast(Intake, SealedIntake(store.intake, cipher)),
        ready=cast(StoreQueue, SealedReady(store.ready, store.definitions, cipher)),
        insights=cast(Insights, SealedInsights(store.insights, cipher)),
        letters=cast(Letters, SealedLetters(store.letters, cipher)),
        search=cast(Search, SealedSearch(store.search, cipher)),
        flows=cast(Flows, SealedFlows(store.flows, cipher)),
    )


class _Around:
    """What is not sealed goes through."""

    def __init__(self, inner: Any, cipher: Cipher) -> None:
        self._inner = inner
        self._cipher = cipher

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class SealedDefinitions(_Around):
    """Jobs: the payload of each version."""

    async def create_jobs(self, creations: Sequence[tuple[Sequence[NewJob], Idempotency | None]], now: Instant) -> list[list[Job]]:
        sealed = [([replace(job, spec=self._sealed(job.tenant, job.id, job.spec)) for job in jobs], key) for jobs, key in creations]
        return [[self._opened_job(job) for job in jobs] for jobs in await self._inner.create_jobs(sealed, now)]

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
        made: bool = await self._inner.new_version(tenant, id, self._sealed(tenant, id, spec), reschedule, expected, now, deed=deed)
        return made

    async def job(self, tenant: int, id: JobId) -> Job | None:
        found: Job | None = await self._inner.job(tenant, id)
        return None if found is None else self._opened_job(found)

    async def job_named(self, tenant: int, name: str) -> Job | None:
        found: Job | None = await self._inner.job_named(tenant, name)
        return None if found is None else self._opened_job(found)

    async def jobs(self, wanted: JobFilter) -> list[Job]:
        return [self._opened_job(job) for job in await self._inner.jobs(wanted)]

    async def job_step(self, wanted: JobFilter, looked_at: int) -> JobStep:
        step = await self._inner.job_step(wanted, looked_at)
        return JobStep([self._opened_job(job) for job in step.found], step.reached)

    async def jobs_of_source(self, tenant: int, source: str, before: JobId | None, limit: int) -> list[Job]:
        return [self._opened_job(job) for job in await self._inner.jobs_of_source(tenant, source, before, limit)]

    async def changed_jobs(self, tenant: int, since: Instant, limit: int) -> list[Job]:
        return [self._opened_job(job) for job in await self._inner.changed_jobs(tenant, since, limit)]

    async def versions(self, numbers: Sequence[int]) -> dict[int, JobVersion]:
        return {number: self._opened(version) for number, version in (await self._inner.versions(numbers)).items()}

    def _sealed(self, tenant: int, id: JobId, spec: JobSpec) -> JobSpec:
        steps = tuple(self._sealed_step(tenant, id, step) for step in spec.steps)
        payload = None if spec.payload is None else self._cipher.seal(spec.payload, tenant, JOB, id)
        return spec if payload is None and not steps else replace(spec, payload=payload, steps=steps)

    def _sealed_step(self, tenant: int, id: JobId, step: Step) -> Step:
        """Under the id that the step's own versions have."""
        if step.payload is None:
            return step
        return replace(step, payload=self._cipher.seal(step.payload, tenant, JOB, step_job_id(id, step.name)))

    def _opened(self, version: JobVersion) -> JobVersion:
        payload = version.spec.payload
        opened = self._cipher.open_text(payload, version.tenant, {JOB: version.job_id})
        if version.spec.steps:
            steps = tuple(self._opened_step(version, step) for step in version.spec.steps)
            return replace(version, spec=replace(version.spec, payload=opened, steps=steps))
        return version if opened is payload else replace(version, spec=replace(version.spec, payload=opened))

    def _opened_step(self, version: JobVersion, step: Step) -> Step:
        if step.payload is None:
            return step
        ids = {JOB: step_job_id(version.job_id, step.name)}
        return replace(step, payload=self._cipher.open_text(step.payload, version.tenant, ids))

    def _opened_job(self, job: Job) -> Job:
        opened = self._opened(job.version)
        return job if opened is job.version else replace(job, version=opened)


class SealedIntake(_Around):
    """New executions. Their keys and gates were made of the clear payload, before it came here."""

    async def enqueue(self, executions: Sequence[NewExecution], now: Instant, deeds: Sequence[Deed] = ()) -> EnqueueReport:
        report: EnqueueReport = await self._inner.enqueue([sealed_execution(self._cipher, item) for item in executions], now, deeds)
        return report

    async def enqueue_within(self, calls: Sequence[Sequence[NewExecution]], now: Instant, deeds: Sequence[Deed] = ()) -> Admission:
        sealed = [[sealed_execution(self._cipher, item) for item in call] for call in calls]
        admission: Admission = await self._inner.enqueue_within(sealed, now, deeds)
        return admission

    async def enqueue_once(
        self, tenant: int, executions: Sequence[NewExecution], idempotency: Idempotency, now: Instant, deed: Deed | None = None
    ) -> list[ExecutionId]:
        sealed = [sealed_execution(self._cipher, item) for item in executions]
        ids: list[ExecutionId] = await self._inner.enqueue_once(tenant, sealed, idempotency, now, deed)
        return ids


def sealed_execution(cipher: Cipher, item: NewExecution) -> NewExecution:
    """The same with its payload sealed, if it has one of its own."""
    return item if item.payload is None else item._replace(payload=cipher.seal(item.payload, item.tenant, EXECUTION, item.id))


class SealedFlows(_Around):
    """Steps that are made, and the payload of the run that they are made of. Results are stored as they are, everywhere."""

    async def add(self, steps: Sequence[NewStep], now: Instant, look_at: Instant) -> Added:
        sealed = [replace(step, execution=sealed_execution(self._cipher, step.execution)) for step in steps]
        added: Added = await self._inner.add(sealed, now, look_at)
        return added

    async def header(self, run: ExecutionId) -> Header:
        header: Header = await self._inner.header(run)
        return header._replace(payload=self._cipher.open_text(header.payload, header.tenant, {EXECUTION: run}))

    async def steps(self, tenant: int, run: ExecutionId, after: ExecutionId | None, limit: int) -> list[Execution]:
        return [opened_execution(self._cipher, one) for one in await self._inner.steps(tenant, run, after, limit)]


class SealedReady(_Around):
    """What workers take: opened here, so a worker over HTTP gets it in clear from the server."""

    def __init__(self, inner: ReadyQueue, definitions: Definitions, cipher: Cipher) -> None:
        super().__init__(inner, cipher)
        self._definitions = definitions
        self._tenants: dict[int, int] = {}

    async def claim(self, worker: WorkerId, asks: Sequence[Ask], now: Instant) -> Claimed | None:
        claimed: Claimed | None = await self._inner.claim(worker, asks, now)
        return None if claimed is None else await self._opened(claimed)

    async def claim_named(self, worker: WorkerId, named: Sequence[Named], now: Instant) -> Claimed | None:
        claimed: Claimed | None = await self._inner.claim_named(worker, named, now)
        return None if claimed is None else await self._opened(claimed)

    async def held_by(self, worker: WorkerId) -> list[Claimed]:
        return [await self._opened(claimed) for claimed in await self._inner.held_by(worker)]

    async def _opened(self, claimed: Claimed) -> Claimed:
        sealed = [nth for nth, payload in enumerate(claimed.payloads) if isinstance(payload, dict) and SEALED in payload]
        if not sealed:
            return claimed
        tenants = await self._tenants_of({claimed.job_versions[nth] for nth in sealed})
        payloads = list(claimed.payloads)
        for nth in sealed:
            tenant = tenants.get(claimed.job_versions[nth])
            opened = None if tenant is None else self._cipher.open(payloads[nth], tenant, {EXECUTION: claimed.ids[nth]})
            if opened is not None:
                payloads[nth] = loads(opened)
        return replace(claimed, payloads=payloads, marked=any(map(has_marks, payloads)))

    async def _tenants_of(self, numbers: set[int]) -> dict[int, int]:
        """Whose these versions are; a version never changes hands."""
        unknown = numbers - self._tenants.keys()
        if unknown:
            if len(self._tenants) > MOST_TENANTS:
                self._tenants.clear()
                unknown = numbers
            found = await self._definitions.versions(sorted(unknown))
            self._tenants |= {number: version.tenant for number, version in found.items()}
        return self._tenants


class SealedInsights(_Around):
    """What people read: an execution's own payload, or its job's."""

    async def execution(self, tenant: int, id: ExecutionId) -> Execution | None:
        found: Execution | None = await self._inner.execution(tenant, id)
        return None if found is None else opened_execution(self._cipher, found)

    async def executions(self, wanted: ExecutionFilter) -> list[Execution]:
        return [opened_execution(self._cipher, execution) for execution in await self._inner.executions(wanted)]


def opened_execution(cipher: Cipher, execution: Execution) -> Execution:
    """The same with its payload opened, its own or its job's."""
    opened = cipher.open_text(execution.payload, execution.tenant, {EXECUTION: execution.id, JOB: execution.job_id})
    return execution if opened is execution.payload else replace(execution, payload=opened)


class SealedSearch(_Around):
    """What people look for: by anything but what is in a payload."""

    async def step(self, wanted: ExecutionSearch, before: ExecutionId | None, limit: int, looked_at: int = MOST_AT_ONCE) -> SearchStep:
        if wanted.payload:
            hint = "Look for it by job, time or state, or have what you look for in the job's name."
            raise Invalid("DULY-E145", "Payloads are encrypted, so nobody can search in them.", field="payload", hint=hint)
        step: SearchStep = await self._inner.step(wanted, before, limit, looked_at)
        return SearchStep([opened_execution(self._cipher, execution) for execution in step.found], step.reached)

    async def by_ids(self, tenant: int, ids: list[ExecutionId]) -> list[Execution]:
        return [opened_execution(self._cipher, execution) for execution in await self._inner.by_ids(tenant, ids)]


class SealedLetters(_Around):
    """What is replayed, and the payload that a bulk action gives to all of it."""

    async def candidates(
        self, tenant: int, match: Match, states: frozenset[State], before: ExecutionId | None, limit: int
    ) -> tuple[list[Candidate], ExecutionId | None]:
        found, following = await self._inner.candidates(tenant, match, states, before, limit)
        return [self._opened(tenant, candidate) for candidate in found], following

    async def replay(
        self, replays: Sequence[tuple[ExecutionId, NewExecution]], by: str, now: Instant, *, deed: Deed | None = None
    ) -> set[ExecutionId]:
        sealed = [(id, sealed_execution(self._cipher, new)) for id, new in replays]
        ours: set[ExecutionId] = await self._inner.replay(sealed, by, now, deed=deed)
        return ours

    async def add_batch(self, batch: Batch, *, deed: Deed | None = None, idempotency: Idempotency | None = None) -> UUID | None:
        sealed = replace(batch, about=self._sealed_about(batch.id, batch.about))
        earlier: UUID | None = await self._inner.add_batch(sealed, deed=deed, idempotency=idempotency)
        return earlier

    async def batch(self, tenant: int, id: UUID) -> Batch | None:
        found: Batch | None = await self._inner.batch(tenant, id)
        if found is None or found.about.get("payload") is None:
            return found
        return replace(found, about=found.about | {"payload": self._cipher.open_text(found.about["payload"], NO_TENANT, {BATCH: id})})

    def _sealed_about(self, id: UUID, about: dict[str, Any]) -> dict[str, Any]:
        payload = about.get("payload")
        return about if payload is None else about | {"payload": self._cipher.seal(payload, NO_TENANT, BATCH, id)}

    def _opened(self, tenant: int, candidate: Candidate) -> Candidate:
        ids = {EXECUTION: candidate.id, JOB: candidate.job_id}
        return candidate._replace(payload=self._cipher.open_text(candidate.payload, tenant, ids))
