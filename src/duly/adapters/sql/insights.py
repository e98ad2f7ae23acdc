"""Reading for people: where executions stand, what workers do, how much there is."""

from __future__ import annotations

from typing import Any

from duly.adapters.sql.engine import Action, Call, Engine, Lane, one
from duly.adapters.sql.listing import LAST_ID
from duly.adapters.sql.rows import about_of, as_uuid, attempt_of, execution_of, log_of, worker_of
from duly.domain.execution import Attempt, Execution, LogLine
from duly.domain.ids import ExecutionId
from duly.domain.instants import HOUR, Instant
from duly.domain.lifecycle import JobState, State, is_final
from duly.ports.store import ExecutionFilter, WorkerAbout, WorkerRow

# A listing by state reads from the table that the state is: never a scan of the history.
_IDS_BY_STATE = {State.SCHEDULED: "ids_scheduled", State.BLOCKED: "ids_blocked", State.PENDING: "ids_pending", State.RUNNING: "ids_running"}
# A count ends here, and means "at least".
COUNTED_TO = 1_000_000
# Dead letters have no tenant of their own, so each is looked up: fewer of them.
DEAD_COUNTED_TO = 10_000
_COUNTS_BY_STATE = {
    State.SCHEDULED: "count_scheduled",
    State.BLOCKED: "count_blocked",
    State.PENDING: "count_pending",
    State.RUNNING: "count_running",
    State.DEAD: "count_dead",
}


class SqlInsights:
    """The readers' port."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def execution(self, tenant: int, id: ExecutionId) -> Execution | None:
        row = one(await self._engine.fetch("execution", {"tenant": tenant, "id": id}, Lane.KEYED))
        return None if row is None else execution_of(row)

    async def executions(self, wanted: ExecutionFilter) -> list[Execution]:
        params: dict[str, Any] = {"tenant": wanted.tenant, "before": wanted.before or LAST_ID, "quota": wanted.limit}
        if wanted.job_id is not None:
            params |= {"job_id": wanted.job_id, "state": wanted.state}
            return [execution_of(row) for row in await self._engine.fetch("executions_of_job", params)]
        if wanted.state is None:
            return [execution_of(row) for row in await self._engine.fetch("executions_of_tenant", params)]
        name = "ids_final" if is_final(wanted.state) else _IDS_BY_STATE[wanted.state]
        found: list[Execution] = []
        while len(found) < wanted.limit:
            rows = await self._engine.fetch(name, params | {"state": wanted.state, "quota": wanted.limit - len(found)})
            for row in rows:
                execution = await self.execution(wanted.tenant, as_uuid(row["id"]))
                # What moved on between the two reads is left out, and the page filled from behind it.
                if execution is not None and execution.state is wanted.state:
                    found.append(execution)
            if not rows:
                break
            params["before"] = as_uuid(rows[-1]["id"])
        return found

    async def attempts(self, id: ExecutionId) -> list[Attempt]:
        # The running one first: should it end between the two reads, it is in both, never in neither.
        running = [attempt_of(row) for row in await self._engine.fetch("running_attempt", {"id": id}, Lane.KEYED)]
        ended = [attempt_of(row) for row in await self._engine.fetch("attempts", {"id": id}, Lane.KEYED)]
        known = {attempt.attempt for attempt in ended}
        return ended + [attempt for attempt in running if attempt.attempt not in known]

    async def logs(self, id: ExecutionId, attempt: int | None, after: int, limit: int) -> list[tuple[int, int, LogLine]]:
        return [
            log_of(row)
            for row in await self._engine.fetch("logs", {"id": id, "attempt": attempt, "after": after, "quota": limit}, Lane.KEYED)
        ]

    async def workers(self, now: Instant, tenant: int | None = None) -> list[WorkerRow]:
        return [worker_of(row) for row in await self._engine.fetch("workers", {"lost_since": now - HOUR, "tenant": tenant}, Lane.KEYED)]

    async def offers(self, now: Instant, tenant: int) -> list[WorkerAbout]:
        return [about_of(row) for row in await self._engine.fetch("offers", {"now": now, "tenant": tenant})]

    async def standing_counts(self, tenant: int) -> dict[State, int]:
        def action() -> Action[dict[State, int]]:
            counts: dict[State, int] = {}
            for state, name in _COUNTS_BY_STATE.items():
                most = DEAD_COUNTED_TO if state is State.DEAD else COUNTED_TO
                counts[state] = int(one((yield Call(name, {"tenant": tenant, "most": most})))["n"])
            return counts

        return await self._engine.read(action)

    async def job_counts(self, tenant: int, now: Instant) -> dict[JobState, int]:
        def action() -> Action[dict[JobState, int]]:
            most = {"tenant": tenant, "most": COUNTED_TO}
            counts: dict[JobState, int] = {}
            for state in JobState:
                counts[state] = int(one((yield Call("count_jobs_in_state", most | {"state": state})))["n"])
            paused = int(one((yield Call("count_jobs_paused_until", most | {"now": now})))["n"])
            counts[JobState.ACTIVE] -= paused
            counts[JobState.PAUSED] += paused
            return {state: count for state, count in counts.items() if count}

        return await self._engine.read(action)

    async def ready_by_pool(self, tenant: int) -> list[tuple[str, int, int | None]]:
        return [
            (row["pool"], row["pending"], row["oldest"])
            for row in await self._engine.fetch("ready_by_pool", {"tenant": tenant, "most": COUNTED_TO})
        ]
