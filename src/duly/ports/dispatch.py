"""Where executions come in, and what dispatchers read, write and own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from duly.domain.audit import Deed
from duly.domain.decide import Firing
from duly.domain.errors import TooLarge, TooMany
from duly.domain.execution import DueSchedule, NewExecution
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant, Micros
from duly.ports.hot_index import Coming


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A client's key for one create: the same key and body give the same answer for as long as it is kept."""

    key: str
    body_hash: bytes
    expires_at: Instant


class Intake(Protocol):
    """Where executions come in."""

    async def enqueue(self, executions: Sequence[NewExecution], now: Instant, deeds: Sequence[Deed] = ()) -> EnqueueReport:
        """Write headers, and make ready what is due and passes its gates. Idempotent by id. Not for tenants with quotas for it.

        What has a unique key that somebody holds is not written: the report names the holder instead. Each deed names the
        executions that it asked for, and is recorded with them; of what is not written there is no record.
        """

    async def enqueue_once(
        self, tenant: int, executions: Sequence[NewExecution], idempotency: Idempotency, now: Instant, deed: Deed | None = None
    ) -> list[ExecutionId]:
        """The same under an idempotency key: the ids of the first call with it. Raises Conflict (DULY-E207) for another body.

        Raises TooMany past the quotas of the tenant, if the executions say that it has some; then the key is not used either.
        """

    async def enqueue_within(self, calls: Sequence[Sequence[NewExecution]], now: Instant, deeds: Sequence[Deed] = ()) -> Admission:
        """Several calls of one tenant that has quotas for what comes in: each whole or not at all, in their order, in one transaction.

        Exact, whoever else submits for the tenant at this moment, in this process or another.
        """


@dataclass(frozen=True, slots=True)
class EnqueueReport:
    """How many were new, and which ids stand for what was not written because its unique key is taken."""

    new: int
    instead: dict[ExecutionId, ExecutionId] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admission:
    """Why calls were refused (None: all of it is written), and which ids stand for what was not written, as after an enqueue."""

    refusals: list[TooMany | TooLarge | None]
    instead: dict[ExecutionId, ExecutionId]


class Schedules(Protocol):
    """What a dispatcher reads and writes. Every write names the epoch under which the shard is held."""

    async def due_schedules(self, shards: Sequence[int], now: Instant, limit: int) -> list[DueSchedule]:
        """Schedules whose next fire has come, at most `limit` per shard, oldest first within a shard."""

    async def fire(self, firing: Firing, epochs: dict[int, int], now: Instant) -> FireReport:
        """Advance schedules that still stand where they were read, in shards whose epoch is still ours, and write their fires.

        What lost a race is left out. A job that may not overlap runs only if it gets its place, else it waits or is skipped.
        """

    async def promote(self, epochs: dict[int, int], now: Instant, limit: int) -> PromoteReport:
        """Due timers become ready, or final when they were cancelled meanwhile; at most `limit` per shard.

        So does what waits for a rate whose time has come.
        """

    async def upcoming(self, shards: Sequence[int], after: Instant, until: Instant, limit: int) -> list[Coming]:
        """Instants in (after, until] at which a schedule or timer of these shards becomes due, soonest first: each once per shard, and
        at most `limit`."""


@dataclass(frozen=True, slots=True)
class FireReport:
    """What a firing did: schedules advanced, executions written, of those skipped or waiting, and predecessors asked to stop."""

    advanced: int = 0
    fired: int = 0
    skipped: int = 0
    queued: int = 0
    stopped: int = 0

    def __add__(self, other: FireReport) -> FireReport:
        return FireReport(
            self.advanced + other.advanced,
            self.fired + other.fired,
            self.skipped + other.skipped,
            self.queued + other.queued,
            self.stopped + other.stopped,
        )


@dataclass(frozen=True, slots=True)
class PromoteReport:
    """What a promotion did, and on which routes something is ready now."""

    promoted: int = 0
    cancelled: int = 0
    routes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ShardLease:
    """Who holds a shard, under which epoch, until when, and when its owner last showed progress; in a glance, also whether it has work that
    is late."""

    shard: int
    epoch: int
    owner: str | None
    lease_until: Instant
    progress_at: Instant
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class DispatcherAbout:
    """What a dispatcher says of itself: where it runs, how far its machine's clock is ahead of the store's, and the release of the time
    zones that it computes with."""

    host: str = ""
    pid: int = 0
    version: str = ""
    skew: Micros | None = None
    tzdata: str = ""


@dataclass(frozen=True, slots=True)
class DispatcherRow:
    """A live dispatcher as it is read; one of an older release says nothing of itself."""

    name: str
    expires_at: Instant
    about: DispatcherAbout | None


class Leases(Protocol):
    """Who owns which shard (the store's own leader leases)."""

    async def shards(self) -> list[ShardLease]:
        """All shards, in order."""

    async def glance(self, but: str, since: Instant, until: Instant) -> list[ShardLease]:
        """The shards that are not of this owner, in order; late are those with work that was due from `since` to `until`."""

    async def announce_dispatcher(self, name: str, now: Instant, ttl: Micros, about: DispatcherAbout | None = None) -> list[str]:
        """Be counted as a live dispatcher until now + ttl; answers all live ones, in order."""

    async def dispatchers(self, now: Instant) -> list[DispatcherRow]:
        """All live ones with what they say of themselves, in order."""

    async def take(self, seen: Sequence[ShardLease], owner: str, now: Instant, ttl: Micros, dead: Sequence[str] = ()) -> dict[int, int]:
        """Own shards under new epochs if nobody took them and no owner stirred since they were seen. If any was taken, their owners, and
        those who are dead besides, count as dispatchers no longer until they announce themselves. Answers the epochs of what is ours."""

    async def stir(self, owner: str, shards: Sequence[int], now: Instant) -> None:
        """Show progress on these, as far as they are this owner's."""

    async def renew(self, owner: str, epochs: dict[int, int], now: Instant, ttl: Micros) -> list[int]:
        """Hold on to shards under these epochs and show progress; answers those that are still ours."""

    async def hand_over(self, owner: str, epochs: dict[int, int]) -> None:
        """Give these shards up at once; whoever should have them takes them."""

    async def release(self, owner: str, epochs: dict[int, int], now: Instant) -> None:
        """Give all shards up at once, and be counted as a dispatcher no longer."""
