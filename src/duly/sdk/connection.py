"""What an application has of an open store, and what each event loop has of that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duly.domain.access import Actor
    from duly.domain.job import Job
    from duly.ports.clock import Clock, Entropy
    from duly.usecases.alerting.alerts import Alerts
    from duly.usecases.calendars import Calendars
    from duly.usecases.executions import Executions
    from duly.usecases.jobs import Jobs


@dataclass(frozen=True, slots=True)
class Connection:
    """What an application needs of an open store."""

    jobs: Jobs
    executions: Executions
    actor: Actor
    clock: Clock
    entropy: Entropy
    close: Callable[[], Awaitable[None]]
    # Lets go of what the connection holds when its event loop has ended, so that nothing can be awaited on it.
    abandon: Callable[[], None]
    calendars: Calendars
    alerts: Alerts | None = None


@dataclass(slots=True)
class Link:
    """What one event loop has of the store: the connection, perhaps still being made, and the jobs that were published on it."""

    connecting: asyncio.Future[Connection]
    published: dict[str, Job] = field(default_factory=dict)
    publishing: asyncio.Lock = field(default_factory=asyncio.Lock)


async def connected(link: Link) -> Connection:
    """Its connection, once it is made. One caller's cancellation is not the others'."""
    return await asyncio.shield(link.connecting)


def connection_of(link: Link) -> Connection | None:
    """The connection, once it has been made; None while it is not, or when that failed."""
    done = link.connecting.done() and not link.connecting.cancelled() and link.connecting.exception() is None
    return link.connecting.result() if done else None
