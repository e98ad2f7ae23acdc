"""How executions of one job version are run here: looked up once, used for every one of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from duly.domain.ids import JobId
from duly.domain.instants import Instant, Micros
from duly.domain.job import JobSpec, JobVersion
from duly.domain.recent import Recent
from duly.domain.secrets import is_marked, references_in
from duly.domain.shards import shard_of
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt, Registry
from duly.ports.secrets import Secrets
from duly.ports.versions import Versions
from duly.roles.ancestry import fill_in
from duly.roles.unveil import NoSecrets, unveil


@dataclass(frozen=True, slots=True)
class Plan:
    """A version, bound to the handler of this worker."""

    version: JobVersion
    run: Callable[[Attempt], Coroutine[Any, Any, Any]]
    # None: its executions are run one by one.
    run_many: Callable[[Sequence[Attempt]], Coroutine[Any, Any, Any]] | None
    batch: int
    payload: bytes | None
    timeout: Micros | None
    execution_timeout: Micros | None
    heartbeat_timeout: Micros | None
    stop_grace: Micros
    job_id: JobId
    shard: int
    # Whether it runs in a process of its own, which may die under it.
    may_die: bool
    # Whether its own payload, its target or its handler's defaults name secrets.
    marked: bool
    # Arguments that the handler takes from secrets unless the payload has them.
    secret_defaults: Mapping[str, str]
    secrets: Secrets
    # Whether something may come after it, in a workflow.
    is_step: bool = False
    # The same for an execution that is traced; None where nobody traces. Of a batch the handler finds them out by itself.
    traced: Plan | None = None

    async def unveil(self, attempt: Attempt) -> None:
        """Put the attempt's secrets in their places, and the results that it is given by reference. Raises Failure."""
        await unveil(attempt, self.secret_defaults, self.secrets)
        if self.is_step:
            await fill_in(attempt)

    async def unveil_all(self, attempts: Sequence[Attempt]) -> tuple[Sequence[Attempt], list[tuple[Attempt, Exception]]]:
        """The same for a batch: those that are ready to run, and those that are not, each with the reason."""
        if not self.marked and not any(attempt.marked for attempt in attempts):
            return attempts, []
        ready: list[Attempt] = []
        failed: list[tuple[Attempt, Exception]] = []
        for attempt in attempts:
            try:
                await self.unveil(attempt)
                ready.append(attempt)
            except Exception as error:
                failed.append((attempt, error))
        return ready, failed


class Plans:
    """The plans that this worker has needed lately. Versions never change, so neither do they."""

    def __init__(self, definitions: Versions, registry: Registry, secrets: Secrets | None = None) -> None:
        self._definitions = definitions
        self._registry = registry
        self._secrets = secrets or NoSecrets()
        self._recent: Recent[Plan] = Recent()

    async def of(self, numbers: Iterable[int], now: Instant) -> dict[int, Plan]:
        """The plans of these versions; one that this release cannot read is left out."""
        wanted = set(numbers)
        if unknown := self._recent.unknown(wanted, now):
            found = await self._definitions.versions(unknown)
            self._recent.learn({number: self._plan(version) for number, version in found.items()})
        return self._recent.known(wanted)

    def _plan(self, version: JobVersion) -> Plan:
        spec = version.spec
        handler = self._registry.get(spec.target.handler_name)
        plan = Plan(
            version=version,
            run=_not_offered(spec.target.handler_name) if handler is None else handler.run,
            run_many=handler.run_many if handler is not None and spec.batch > 1 else None,
            batch=spec.batch,
            payload=None if spec.payload is None else spec.payload.encode(),
            timeout=spec.timeout,
            execution_timeout=spec.execution_timeout,
            heartbeat_timeout=spec.heartbeat_timeout,
            stop_grace=spec.stop_grace,
            job_id=version.job_id,
            shard=shard_of(version.job_id),
            may_die=handler is not None and handler.may_die,
            marked=_is_marked(spec) or bool(handler is not None and handler.secret_defaults),
            secret_defaults={} if handler is None else handler.secret_defaults,
            secrets=self._secrets,
            is_step=spec.step is not None,
        )
        if handler is None or handler.run_traced is None or plan.run_many is not None:
            return plan
        return replace(plan, traced=replace(plan, run=handler.run_traced))


def _is_marked(spec: JobSpec) -> bool:
    http = spec.target.http
    texts = [*spec.target.env.values(), *(() if http is None else (http.url, *http.headers.values()))]
    documents = (spec.payload, None if http is None else http.body)
    return any(map(references_in, texts)) or any(text is not None and is_marked(text) for text in documents)


def _not_offered(name: str) -> Callable[[Attempt], Coroutine[Any, Any, Any]]:
    """Routes keep this from happening; a handler may be gone all the same when a lease is adopted."""

    async def run(attempt: Attempt) -> Any:
        raise Failure(f"this worker does not offer {name!r}", type="UnknownHandler")

    return run
