"""A `Node` is what one process has of Duly: the store, the clock, the transport and the use cases on them.

`App` is the SDK's application with a way to one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from duly import config
from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.adapters.sql.migrate import Migration, upgrade
from duly.adapters.sql.store import open_engine, store_on
from duly.adapters.system.clock import SystemClock, system_entropy
from duly.domain.access import DEFAULT_TENANT, DEFAULT_TENANT_NUMBER, Actor, Role
from duly.domain.errors import Invalid
from duly.ports.store import Store
from duly.ports.transport import Transport
from duly.roles.pruner import PrunerSettings
from duly.roles.timekeeper import Timekeeper
from duly.sdk import app as sdk
from duly.usecases.calendars import Calendars
from duly.usecases.executions import Executions
from duly.usecases.inspect import Fleet
from duly.usecases.jobs import Jobs
from duly.usecases.overdue import Overdue
from duly.usecases.quotas import Directory

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
    migrated: list[Migration] = field(default_factory=list)

    async def close(self) -> None:
        """Let everything go."""
        await self.transport.close()
        await self.store.health.close()


async def open_node(settings: config.Settings, *, migrate: bool = True) -> Node:
    """Open the store, bring its schema up to date (or refuse one that is not), and set the clock."""
    engine = open_engine(settings.store)
    store = sealed(store_on(engine), settings)
    migrated: list[Migration] = []
    try:
        if migrate:
            migrated = await upgrade(engine)
            await store.retention.prepare(await store.health.store_now(), PrunerSettings().ahead)
        await store.health.ping()
        clock = SystemClock()
        await Timekeeper(clock, store.health).step(clock.now())
    except BaseException:
        await store.health.close()
        raise
    transport, is_sealed = _transport(engine), bool(settings.payload_keys)
    quotas = Directory(store.tenants, clock)
    overdue = Overdue(store.schedules, store.leases, quotas, transport)
    jobs = Jobs(store.definitions, overdue, quotas, clock, system_entropy, transport, sealed=is_sealed)
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
        migrated,
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


def _transport(engine: Engine) -> Transport:
    if isinstance(engine, SqliteEngine):
        from duly.adapters.sql.transport_sqlite import SqliteTransport

        return SqliteTransport(engine)
    from duly.adapters.sql.engine_postgres import PostgresEngine
    from duly.adapters.sql.transport_postgres import PostgresTransport

    assert isinstance(engine, PostgresEngine)
    return PostgresTransport(engine.dsn)


async def publish(app: sdk.App, node: Node) -> None:
    """Bring the application's jobs into this node's store."""
    app.use(connection(node))
    await app.publish()


def connection(node: Node) -> sdk.Connection:
    """What an application gets of a node: it acts as the code itself."""
    actor = Actor(DEFAULT_TENANT_NUMBER, DEFAULT_TENANT, Role.ADMIN, "code", channel="sdk")
    return sdk.Connection(node.jobs, node.executions, actor, node.clock, system_entropy, node.close, node.engine.abandon, node.calendars)


class App(sdk.App):
    """Jobs declared in code, on the store that `store` or DULY_STORE names: a SQLite file by default."""

    def __init__(self, name: str, *, store: str | None = None) -> None:
        super().__init__(name, store=store)
        self.is_sealed = config.is_set("DULY_PAYLOAD_KEYS")

    async def connect(self) -> sdk.Connection:
        """Open the store. One that is made here, by a client, has nobody behind it yet: that is said."""
        settings = config.load(store=self.store)
        node = await open_node(settings)
        if settings.store == config.default_store(settings.home) and any(migration.number == 1 for migration in node.migrated):
            log.warning("made a new store in %s; nobody serves it yet: run `duly up` there, or set DULY_STORE", settings.home.absolute())
        return connection(node)
