"""The ports through which work goes in batches, each around the store's own. Nothing is told of one execution that can be told of many."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from duly.domain.announcements import Named
from duly.domain.audit import Deed
from duly.domain.decide import Firing
from duly.domain.errors import Unavailable
from duly.domain.execution import Claimed, Finished, LeaseId, LogLine, Lost, NewExecution, Verdict, WorkerId
from duly.domain.fairness import Ask
from duly.domain.ids import ExecutionId
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import JobVersion
from duly.domain.lifecycle import Outcome, State
from duly.domain.metrics.catalogue import (
    ATTEMPTS,
    BATCH,
    FIRE_LATENESS,
    OTHER,
    OUTCOMES,
    REFUSED,
    RUN,
    START_LATENESS,
    STORE_ERRORS,
    STORE_SECONDS,
)
from duly.ports.clock import Clock
from duly.ports.desk import Desk, Ended, Held
from duly.ports.store import (
    Admission,
    Checkpoints,
    EnqueueReport,
    FireReport,
    Idempotency,
    Intake,
    Leases,
    Losses,
    LossReport,
    Outcomes,
    PromoteReport,
    Route,
    Schedules,
    Store,
    StoreQueue,
)
from duly.ports.telemetry import Telemetry

T = TypeVar("T")
_SUCCEEDED = (Outcome.SUCCEEDED.name,)
_ENDED_WELL = (State.SUCCEEDED.name,)


def metered(store: Store, telemetry: Telemetry, clock: Clock) -> Store:
    """The store, with somebody who listens."""
    around = (telemetry, clock)
    # Each delegates what it does not measure, which a type checker cannot see.
    return replace(
        store,
        intake=cast(Intake, MeteredIntake(store.intake, *around)),
        schedules=cast(Schedules, MeteredSchedules(store.schedules, *around)),
        ready=cast(StoreQueue, MeteredReady(store.ready, *around)),
        outcomes=cast(Outcomes, MeteredOutcomes(store.outcomes, *around)),
        desk=cast(Desk, MeteredDesk(store.desk, *around)),
        checkpoints=cast(Checkpoints, MeteredCheckpoints(store.checkpoints, *around)),
        losses=cast(Losses, MeteredLosses(store.losses, *around)),
        leases=cast(Leases, MeteredLeases(store.leases, *around)),
    )


class _Around:
    """What is not measured goes through."""

    def __init__(self, inner: Any, telemetry: Telemetry, clock: Clock) -> None:
        self._inner = inner
        self._telemetry = telemetry
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def _timed(self, operation: str, call: Coroutine[Any, Any, T], size: Callable[[T], int]) -> T:
        """Await the call; tell how long it took and how many it was about (0: nothing is told, it was a look), or how it failed."""
        asked = self._clock.boottime()
        try:
            answer = await call
        except Exception as error:
            self._telemetry.count(STORE_ERRORS, (operation, "unavailable" if isinstance(error, Unavailable) else "fault"))
            raise
        if count := size(answer):
            self._telemetry.observe(STORE_SECONDS, (self._clock.boottime() - asked) / SECOND, (operation,))
            self._telemetry.observe(BATCH, count, (operation,))
        return answer

    def _refused(self, write: str, count: int) -> None:
        if count > 0:
            self._telemetry.count(REFUSED, (write,), count)


class MeteredIntake(_Around):
    """Where executions come in."""

    async def enqueue(self, executions: Sequence[NewExecution], now: Instant, deeds: Sequence[Deed] = ()) -> EnqueueReport:
        return await self._timed("enqueue", self._inner.enqueue(executions, now, deeds), lambda _: len(executions))

    async def enqueue_once(
        self, tenant: int, executions: Sequence[NewExecution], idempotency: Idempotency, now: Instant, deed: Deed | None = None
    ) -> list[ExecutionId]:
        call = self._inner.enqueue_once(tenant, executions, idempotency, now, deed)
        return await self._timed("enqueue", call, lambda _: len(executions))

    async def enqueue_within(self, calls: Sequence[Sequence[NewExecution]], now: Instant, deeds: Sequence[Deed] = ()) -> Admission:
        return await self._timed("enqueue", self._inner.enqueue_within(calls, now, deeds), lambda _: sum(map(len, calls)))


class MeteredSchedules(_Around):
    """What a dispatcher writes."""

    async def fire(self, firing: Firing, epochs: dict[int, int], now: Instant) -> FireReport:
        report: FireReport = await self._timed("fire", self._inner.fire(firing, epochs, now), lambda report: report.fired)
        if report.fired:
            at = self._clock.now()
            self._telemetry.observe_all(FIRE_LATENESS, [max(at - fire.at - fire.delay, 0) for fire in firing.fires if fire.skip is None])
        # They had moved on, or their shard is another's by now.
        self._refused("fire", len(firing.advances) - report.advanced)
        return report

    async def promote(self, epochs: dict[int, int], now: Instant, limit: int) -> PromoteReport:
        return await self._timed("promote", self._inner.promote(epochs, now, limit), lambda report: report.promoted + report.cancelled)


class MeteredReady(_Around):
    """Where workers take work."""

    def __init__(self, inner: Any, telemetry: Telemetry, clock: Clock) -> None:
        super().__init__(inner, telemetry, clock)
        self._pools: dict[int, str] = {}

    async def routes(self) -> list[Route]:
        found: list[Route] = await self._inner.routes()
        self._pools = {route.number: route.pool for route in found}
        return found

    async def claim(self, worker: WorkerId, asks: Sequence[Ask], now: Instant) -> Claimed | None:
        claimed: Claimed | None = await self._timed("claim", self._inner.claim(worker, asks, now), _size)
        self._started(claimed, asks[0].route if asks else 0)
        return claimed

    async def claim_named(self, worker: WorkerId, named: Sequence[Named], now: Instant) -> Claimed | None:
        claimed: Claimed | None = await self._timed("claim", self._inner.claim_named(worker, named, now), _size)
        self._started(claimed, named[0].route if named else 0)
        return claimed

    def _started(self, claimed: Claimed | None, route: int) -> None:
        """How late first attempts are. A retry is due by its own time, which the header does not say."""
        if claimed is not None:
            now, due = self._clock.now(), claimed.due_ats
            if max(claimed.attempts) > 1:
                due = [at for at, attempt in zip(due, claimed.attempts, strict=True) if attempt == 1]
            # A worker serves one pool, whichever of its routes it asks.
            self._telemetry.observe_since(START_LATENESS, now, due, (self._pools.get(route, OTHER),))


class MeteredOutcomes(_Around):
    """Where workers report."""

    async def finish(self, worker: WorkerId, finished: Sequence[Finished], closing: Sequence[LeaseId], now: Instant) -> set[ExecutionId]:
        refused: set[ExecutionId] = await self._timed("finish", self._inner.finish(worker, finished, closing, now), lambda _: len(finished))
        good = [item.outcome for item in finished].count(Outcome.SUCCEEDED)
        if refused:
            good -= sum(item.outcome is Outcome.SUCCEEDED and item.id in refused for item in finished)
            self._refused("finish", len(refused))
        if good:
            self._telemetry.count(ATTEMPTS, _SUCCEEDED, good)
            self._telemetry.count(OUTCOMES, _ENDED_WELL, good)
        self._telemetry.observe_all(RUN, [item.finished_at - item.started_at for item in finished])
        return refused

    async def append_logs(self, worker: WorkerId, lines: Sequence[tuple[LeaseId, ExecutionId, int, LogLine]]) -> int:
        kept: int = await self._inner.append_logs(worker, lines)
        self._refused("log", len(lines) - kept)
        return kept


class MeteredDesk(_Around):
    """Where workers report over HTTP."""

    async def settle(self, worker: WorkerId, finished: Sequence[Finished], held: Sequence[Held], now: Instant) -> dict[Held, Ended]:
        ended: dict[Held, Ended] = await self._timed("finish", self._inner.settle(worker, finished, held, now), lambda _: len(finished))
        lost = sum(one not in ended or ended[one].outcome is Outcome.WORKER_LOST for one in {(item.lease, item.id) for item in finished})
        self._refused("finish", lost)
        self._telemetry.observe_all(RUN, [item.finished_at - item.started_at for item in finished])
        return ended


class MeteredCheckpoints(_Around):
    """What executions keep."""

    async def save(self, worker: WorkerId, lease: LeaseId, id: ExecutionId, number: int, data: str, now: Instant) -> bool:
        kept: bool = await self._inner.save(worker, lease, id, number, data, now)
        self._refused("checkpoint", not kept)
        return kept


class MeteredLosses(_Around):
    """What the sweeper does."""

    async def lose(self, decide: Callable[[Lost, JobVersion | None], Verdict], now: Instant, limit: int) -> LossReport:
        return await self._timed("sweep", self._inner.lose(decide, now, limit), lambda report: report.lost)


class MeteredLeases(_Around):
    """Who owns which shard."""

    async def renew(self, owner: str, epochs: dict[int, int], now: Instant, ttl: Micros) -> list[int]:
        kept: list[int] = await self._inner.renew(owner, epochs, now, ttl)
        self._refused("renew", len(epochs) - len(kept))
        return kept


def _size(claimed: Claimed | None) -> int:
    return 0 if claimed is None else len(claimed.ids)
