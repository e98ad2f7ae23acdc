"""What the API needs to answer: the use cases, a clock, and whether the store is there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib import metadata

from duly.http.auth import Gate
from duly.ports.clock import Clock
from duly.usecases.access import Access, Keyring
from duly.usecases.audit import AuditTrail
from duly.usecases.backfill import Backfills
from duly.usecases.bulk import Bulk
from duly.usecases.calendars import Calendars
from duly.usecases.dead_letters import DeadLetters
from duly.usecases.events import Changes
from duly.usecases.executions import Executions
from duly.usecases.inspect import Fleet
from duly.usecases.jobs import Jobs
from duly.usecases.search import Search
from duly.usecases.sessions import Sessions
from duly.usecases.tenants import Tenants
from duly.usecases.upcoming import Upcoming
from duly.usecases.why import Why
from duly.usecases.workers import Workers


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
    gate: Gate = field(default_factory=Gate)
    version: str = field(default_factory=installed_version)
