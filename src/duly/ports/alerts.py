"""Alerts, as the store has them: rules and channels, incidents, what is to be sent, and the facts that rules are judged by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from duly.domain.alerts.channel import Channel
from duly.domain.alerts.evaluate import Event, Incident, Move
from duly.domain.alerts.facts import PoolFacts, Run, Watched, WorkerFacts
from duly.domain.alerts.message import Notice
from duly.domain.alerts.rows import ChannelRow as ChannelRow
from duly.domain.alerts.rows import RuleRow as RuleRow
from duly.domain.alerts.rows import Sent as Sent
from duly.domain.alerts.rule import Kind, Rule
from duly.domain.audit import Deed
from duly.domain.fire_audit import Missed
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant, Micros


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """Which incidents to list: newest first, before the cursor. `is_open` None: both."""

    tenant: int
    is_open: bool | None = None
    rule: str | None = None
    before: UUID | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Delivery:
    """Something to send, claimed by whoever reads it."""

    incident: Incident
    channel: Channel | None
    channel_name: str
    event: Event
    tenant_name: str
    tries: int
    # When it became due to be sent at all.
    created_at: Instant = 0


class AlertDefinitions(Protocol):
    """Rules and channels of tenants. A deed is recorded in the transaction of the change, and only if there is one."""

    async def rules(self, tenant: int | None = None) -> list[RuleRow]:
        """All of a tenant's, or everybody's, by tenant and name."""

    async def put_rule(
        self, tenant: int, rule: Rule, expected: int | None, now: Instant, *, deed: Callable[[Rule | None], Deed] | None = None
    ) -> int | None:
        """Make it so; answers its version. None when it has another version than `expected` (0: none at all)."""

    async def delete_rule(self, tenant: int, name: str, expected: int, *, deed: Deed | None = None) -> bool:
        """Forget it. False when it has another version by now."""

    async def snooze_rule(self, tenant: int, name: str, until: Instant | None, *, deed: Deed | None = None) -> bool:
        """Tell nobody of it before then. False when there is none."""

    async def channels(self, tenant: int | None = None) -> list[ChannelRow]:
        """All of a tenant's, or everybody's, by tenant and name."""

    async def put_channel(
        self, tenant: int, channel: Channel, expected: int | None, now: Instant, *, deed: Callable[[Channel | None], Deed] | None = None
    ) -> int | None:
        """As `put_rule`."""

    async def delete_channel(self, tenant: int, name: str, expected: int, *, deed: Deed | None = None) -> bool:
        """As `delete_rule`."""

    async def note(self, deed: Deed) -> None:
        """Record what changes nothing here: somebody outside was told something."""


class Incidents(Protocol):
    """Incidents, and what is to be sent of them. Every change is made where the row still is what was read."""

    async def latest(self, tenant: int, rule: str, now: Instant) -> dict[str, Incident]:
        """Of each subject of the rule the live incident, or the last one of the last days."""

    async def live(self, tenant: int | None = None) -> list[Incident]:
        """Those that are not over, of a tenant or of everybody."""

    async def move(self, move: Move, channels: Sequence[str], now: Instant) -> bool:
        """Write a move and, in the same transaction, what is to be sent of it to these channels. False: somebody was faster, nothing is
        written."""

    async def incident(self, tenant: int, id: UUID) -> tuple[Incident, list[Sent]] | None:
        """One of the tenant's, with what was sent of it."""

    async def incidents(self, wanted: IncidentFilter) -> list[Incident]:
        """Newest first. Those within their grace are not told of."""

    async def snooze(self, tenant: int, id: UUID, until: Instant | None, *, deed: Deed | None = None) -> bool:
        """Tell nobody of it before then. False when there is none, or it is over."""

    async def claim(self, sender: str, now: Instant, ttl: Micros, limit: int, each: int) -> list[Delivery]:
        """What is due to be sent and nobody is sending, of one channel at most `each`. Claimed until now + ttl: until then nobody else
        sends it."""

    async def sent(self, delivery: Delivery, sender: str, now: Instant) -> None:
        """It has arrived."""

    async def not_sent(self, delivery: Delivery, sender: str, error: str, again_at: Instant | None, now: Instant) -> None:
        """It has not; again then, or never (None)."""

    async def forget(self, before: Instant) -> int:
        """Let go of what was over before this instant."""


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What of its store somebody must see who says that it works: how far due work lags behind, and how many dispatch."""

    lag: Micros
    dispatchers: int


class AlertFacts(Protocol):
    """What rules are judged by. Each a few bounded looks along keys."""

    async def jobs_named(self, tenant: int, names: Sequence[str], now: Instant) -> list[Watched]:
        """Live jobs of these names."""

    async def candidates(self, tenant: int, kind: Kind, since: Instant, due_before: Instant, now: Instant, limit: int) -> list[Watched]:
        """Jobs that a rule about all of them may have something to say of: where something died since, waits since, runs since."""

    async def newest_jobs(self, tenant: int, now: Instant, limit: int) -> list[Watched]:
        """The jobs that were made last, of those that are not cancelled."""

    async def watched(self, tenant: int, ids: Sequence[JobId], now: Instant) -> list[Watched]:
        """These jobs, of those that are not cancelled."""

    async def runs(self, tenant: int, jobs: Sequence[JobId], since: ExecutionId, per_job: int) -> dict[JobId, list[Run]]:
        """The newest runs of these jobs by when they were due, newest first."""

    async def runs_around(self, tenant: int, job: JobId, run: ExecutionId, since: ExecutionId, per_side: int) -> list[Run]:
        """A run of the job with its neighbours by when they were due, on both sides."""

    async def successes(self, tenant: int, jobs: Sequence[JobId], since: ExecutionId) -> dict[JobId, Instant | None]:
        """When each of these jobs succeeded last; None: not since then."""

    async def deaths(self, tenant: int, since: Instant) -> dict[JobId, list[Run]]:
        """What has died since, by job, whenever it was due: the latest two thousand."""

    async def missed(self, tenant: int, limit: int) -> list[Missed]:
        """Fires that the auditor misses."""

    async def letters(self, tenant: int, since: Instant) -> int:
        """Dead letters since then that nobody has dealt with, up to some thousands."""

    async def workers(self, tenant: int, since: Instant, now: Instant) -> list[WorkerFacts]:
        """Workers that serve the tenant: those that live, and those that fell silent since."""

    async def pools(self, tenant: int, now: Instant) -> list[PoolFacts]:
        """Pools in which something of the tenant's waits, or that somebody serves."""

    async def glimpse(self, now: Instant) -> Glimpse:
        """How the store's work goes on, for everybody."""


class AlertStore(AlertDefinitions, Incidents, AlertFacts, Protocol):
    """All of it."""

    async def take(self, alerter: str, now: Instant, ttl: Micros) -> bool:
        """Be the one who judges, until now + ttl. False: somebody else does."""

    async def leave(self, alerter: str) -> None:
        """Another may at once."""


class Sender(Protocol):
    """Tells a channel."""

    async def send(self, channel: Channel, notice: Notice) -> None:
        """Returns when it was taken. Raises Failure that says why not, and whether it is worth another try; it never has a secret in it."""

    async def ping(self, url: str) -> None:
        """Tell whoever listens outside that we live. Raises Failure."""
