"""Looking for executions by what they are: step by step along the smallest table that has them, so that no question can run for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from duly.domain.execution import Execution, WorkerId
from duly.domain.history import Change
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant
from duly.domain.lifecycle import Outcome, State, Trigger


class PayloadMatch(NamedTuple):
    """A payload has this value at this path of object keys. A number, true, false and null match as they are written."""

    path: tuple[str, ...]
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSearch:
    """Which executions are meant: those for which all that is given holds. `since` belongs to them, `until` does not."""

    tenant: int
    job_id: JobId | None = None
    job_name: str | None = None
    state: State | None = None
    trigger: Trigger | None = None
    pool: str | None = None
    handler: str | None = None
    since: Instant | None = None
    until: Instant | None = None
    last_outcome: Outcome | None = None
    batch: UUID | None = None
    worker: WorkerId | None = None
    payload: tuple[PayloadMatch, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What one step has found, newest first, and the id that it has come to; None: there is nothing older."""

    found: list[Execution]
    reached: ExecutionId | None


@dataclass(frozen=True, slots=True)
class Lately:
    """How many came up, how many of them were fires, and how they ended. All of this is so for what came up since `since`."""

    since: Instant
    executions: int
    fires: int
    ended: dict[State, int]


class Ended(NamedTuple):
    """An execution that has ended: when it was due, began and ended, and how. `is_first`: in its first attempt."""

    due_at: Instant
    started_at: Instant | None
    finished_at: Instant
    state: State
    is_first: bool


# However many are asked for, a step looks at no more.
MOST_AT_ONCE = 1_000


class Search(Protocol):
    """What the store offers to those who look for executions."""

    async def step(self, wanted: ExecutionSearch, before: ExecutionId | None, limit: int, looked_at: int = MOST_AT_ONCE) -> Step:
        """Look at the next `looked_at` that may be meant, older than `before`, and answer at most `limit` of those that are.

        All of a step is one snapshot, and its cost is bounded whatever is asked for and whoever else has how much.
        """

    async def lately(self, tenant: int, since: Instant, most: int) -> Lately:
        """What became of the newest executions of the tenant that came up since then, of at most `most` that are looked at."""

    async def newest(self, tenant: int, limit: int, running: int) -> tuple[list[ExecutionId], list[ExecutionId]]:
        """The newest executions of the tenant, and the newest of those that run: at most so many of each."""

    async def newest_of(self, tenant: int, jobs: Sequence[tuple[JobId, int]]) -> list[list[ExecutionId]]:
        """The newest executions of each of these jobs, at most as many as stand beside it."""

    async def by_ids(self, tenant: int, ids: list[ExecutionId]) -> list[Execution]:
        """Those of these that the tenant has, newest first."""

    async def ended(self, tenant: int, since: Instant, most: int) -> tuple[Instant, list[Ended]]:
        """How the newest executions of the tenant ended that came up since then, of at most `most` that are looked at.

        The instant says since when these are all that have ended.
        """

    async def changes(self, tenant: int, since: Instant, most: int) -> list[Change]:
        """When jobs of the tenant were changed, paused and resumed since then, minute by minute; of too many minutes the newest."""

    async def version_numbers(self, tenant: int, job_id: JobId, limit: int) -> list[int]:
        """The numbers of a job's versions, newest first, by which `Versions` finds them."""
