"""What the API needs to answer: the use cases, a clock, and whether the store is there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib import metadata

from duly.http.auth import Gate
from duly.ports.clock import Clock
from duly.ports.telemetry import NoTelemetry, Telemetry
from duly.ports.traces import RequestTracer
from duly.usecases.access import Access, Keyring
from duly.usecases.alerting.alerts import Alerts
from duly.usecases.audit import AuditTrail
from duly.usecases.backfill import Backfills
from duly.usecases.bulk import Bulk
from duly.usecases.calendars import Calendars
from duly.usecases.cluster import Cluster
from duly.usecases.dead_letters import DeadLetters
from duly.usecases.events import Changes
from duly.usecases.executions import Executions
from duly.usecases.grid import RunGrids
from duly.usecases.inspect import Fleet
from duly.usecases.jobs import Jobs
from duly.usecases.links import Links
from duly.usecases.logs import Logs
from duly.usecases.metrics import Metrics
from duly.usecases.records import Records
from duly.usecases.scaling import Scaling
from duly.usecases.search import Search
from duly.usecases.sessions import Sessions
from duly.usecases.tenants import Tenants
from duly.usecases.upcoming import Upcoming
from duly.usecases.why import Why
from duly.usecases.workers import Workers
from duly.usecases.workflows import Workflows


def installed_version() -> str:
    """The version of the package that runs."""
    try:
        return metadata.version("duly")
    except metadata.PackageNotFoundError:  # straight from a source tree
        return "0+unknown"


@dataclass(frozen=True, slots=True)
class Services:
    """Put together by the composer. `ready` raises Unavailable while the store is away."""

    jobs: Jobs
    executions: Executions
    fleet: Fleet
    cluster: Cluster
    why: Why
    dead_letters: DeadLetters
    bulk: Bulk
    backfills: Backfills
    access: Access
    keyring: Keyring
    sessions: Sessions
    workers: Workers
    clock: Clock
    ready: Callable[[], Awaitable[None]]
    calendars: Calendars
    audit: AuditTrail
    tenants: Tenants
    search: Search
    upcoming: Upcoming
    changes: Changes
    scaling: Scaling
    workflows: Workflows
    grids: RunGrids
    records: Records
    logs: Logs
    alerts: Alerts
    links: Links
    gate: Gate = field(default_factory=Gate)
    telemetry: Telemetry = field(default_factory=NoTelemetry)
    # For requests that come within a trace; None: nobody traces.
    tracer: RequestTracer | None = None
    metrics: Metrics = field(default_factory=Metrics)
    # Whether /metrics is for everybody who reaches the server.
    metrics_public: bool = False
    # Where there is more than one store: whether this is the one of the tenant `default`, and what answers for the others.
    is_default: bool = True
    neighbours: tuple[Services, ...] = ()
    version: str = field(default_factory=installed_version)
