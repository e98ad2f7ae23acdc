"""A `Node` is what one process has of Duly: the store, the clock, the transport and the use cases on them."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly import config
from duly.adapters.sql.engine import Engine
from duly.adapters.sql.migrate import Migration, upgrade
from duly.adapters.sql.store import open_engine, store_on
from duly.adapters.system.clock import SystemClock, system_entropy
from duly.compose.couriers import open_transport
from duly.compose.notices import sender_of
from duly.compose.otlp import Spans
from duly.compose.redis import open_redis
from duly.compose.telemetry import listened
from duly.domain.access import DEFAULT_TENANT, DEFAULT_TENANT_NUMBER, Actor, Role
from duly.domain.errors import Invalid
from duly.ports.clock import Entropy
from duly.ports.store import Store
from duly.ports.telemetry import Telemetry
from duly.ports.transport import Courier, Transport
from duly.roles.pruner import PrunerSettings
from duly.roles.timekeeper import Timekeeper
from duly.sdk import app as sdk
from duly.sdk.connection import Connection
from duly.usecases.alerting.alerts import Alerts
from duly.usecases.calendars import Calendars
from duly.usecases.conduct.beside import Beside
from duly.usecases.conduct.conductor import Conductor
from duly.usecases.conduct.dependents import Dependents
from duly.usecases.conduct.handing import conducted
from duly.usecases.executions import Executions
from duly.usecases.inspect import Fleet
from duly.usecases.jobs import Jobs
from duly.usecases.overdue import Overdue
from duly.usecases.quotas import Directory

if TYPE_CHECKING:
    from duly.adapters.redis.link import RedisLink

log = logging.getLogger("duly")


@dataclass(slots=True)
class Node:
    """What one process has of Duly."""

    settings: config.Settings
    engine: Engine
    store: Store
    clock: SystemClock
    transport: Transport
    quotas: Directory
    jobs: Jobs
    executions: Executions
    fleet: Fleet
    calendars: Calendars
    conductor: Conductor
    alerts: Alerts
    migrated: list[Migration] = field(default_factory=list)
    redis: RedisLink | None = None
    # Where the transport also carries which executions are ready.
    courier: Courier | None = None
    # Of an installation with more than one store: which of them it is.
    name: str | None = None
    # Who counts what this process does; None: nobody.
    telemetry: Telemetry | None = None
    # What it tells of the executions that are traced; None: nobody traces.
    spans: Spans | None = None
    beside: Beside = field(default_factory=Beside)

    async def close(self) -> None:
        """Let everything go, once what this process has reported is handed over."""
        await self.beside.settle()
        await self.transport.close()
        await self.store.health.close()
        if self.spans is not None:
            await asyncio.to_thread(self.spans.close)


async def open_node(
    settings: config.Settings, *, migrate: bool = True, telemetry: Telemetry | None = None, spans: Spans | None = None
) -> Node:
    """Open the store, bring its schema up to date (or refuse one that is not), and set the clock. What is done with it is told."""
    redis = open_redis(settings)
    engine = open_engine(settings.store)
    clock = SystemClock()
    store = listened(sealed(store_on(engine, telemetry), settings), telemetry, clock)
    store = store if spans is None else spans.around(store, clock)
    migrated: list[Migration] = []
    try:
        transport, courier = open_transport(engine, settings, redis)
        if migrate:
            migrated = await upgrade(engine)
            await store.retention.prepare(await store.health.store_now(), PrunerSettings().ahead)
        await store.health.ping()
        await Timekeeper(clock, store.health).step(clock.now())
    except BaseException:
        await store.health.close()
        raise
    node = node_on(settings, engine, store, clock, transport)
    node.migrated, node.redis, node.courier, node.telemetry, node.spans = migrated, redis, courier, telemetry, spans
    return node


def node_on(
    settings: config.Settings, engine: Engine, store: Store, clock: SystemClock, transport: Transport, of_jobs: Entropy = system_entropy
) -> Node:
    """The use cases on a store that is open. `of_jobs` draws the ids of jobs."""
    is_sealed = bool(settings.payload_keys)
    quotas = Directory(store.tenants, clock)
    conductor = Conductor(store.flows, store.definitions, store.cancels, quotas, transport, clock)
    beside = Beside()
    store = conducted(store, conductor, beside, Dependents(store.awaited, transport, clock))
    overdue = Overdue(store.schedules, store.leases, quotas, transport)
    jobs = Jobs(store.definitions, overdue, quotas, clock, of_jobs, transport, sealed=is_sealed)
    executions = Executions(jobs, store.intake, store.cancels, store.insights, quotas, clock, system_entropy, transport, sealed=is_sealed)
    return Node(
        settings,
        engine,
        store,
        clock,
        transport,
        quotas,
        jobs,
        executions,
        Fleet(store.insights, store.search, clock),
        Calendars(store.calendars, clock, transport),
        conductor,
        Alerts(store.alerts, store.figures, store.fire_audit, sender_of(settings, clock), clock, system_entropy),
        beside=beside,
    )


def sealed(store: Store, settings: config.Settings) -> Store:
    """The store with its payloads encrypted, if there are keys for that. Raises Invalid (DULY-E610) when it is not installed."""
    if not settings.payload_keys:
        return store
    try:
        from duly.adapters.sealed.store import sealed_store
    except ImportError as error:
        hint = "pip install 'duly[encryption]'"
        raise Invalid("DULY-E610", "Encryption of payloads needs an extra.", field="DULY_PAYLOAD_KEYS", hint=hint) from error
    return sealed_store(store, settings.payload_keys)


async def publish(app: sdk.App, node: Node) -> None:
    """Bring the application's jobs into this node's store."""
    app.use(connection(node))
    await app.publish()


def connection(node: Node) -> Connection:
    """What an application gets of a node: it acts as the code itself."""
    actor = Actor(DEFAULT_TENANT_NUMBER, DEFAULT_TENANT, Role.ADMIN, "code", channel="sdk")
    return Connection(
        node.jobs, node.executions, actor, node.clock, system_entropy, node.close, node.engine.abandon, node.calendars, node.alerts
    )
