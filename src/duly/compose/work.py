"""What a worker runs, whether it reaches the store itself or through a server's API."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from duly import config
from duly.adapters.remote.liveness import open_remote, remote_liveness_opener
from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.adapters.sql.fleet import SqlLiveness
from duly.adapters.sql.store import open_engine
from duly.adapters.system.clock import SystemClock, system_entropy
from duly.adapters.system.vault import Vault
from duly.compose.metrics import remote_metrics, serving_metrics
from duly.compose.node import Node
from duly.compose.otlp import open_spans
from duly.compose.telemetry import meter_of
from duly.domain.errors import Forbidden, Unavailable
from duly.domain.instants import SECOND
from duly.executors.capture import captured
from duly.ports.handlers import Registry
from duly.ports.store import Liveness, WorkerAbout
from duly.ports.telemetry import heard_by
from duly.ports.transactions import Transactions
from duly.ports.transport import Transport
from duly.ports.work import WorkerStore
from duly.roles.heartbeat import HeartbeatSettings, HeartbeatThread, OpenLiveness
from duly.roles.inbox import Mail
from duly.roles.shift import Shift
from duly.roles.worker import WorkerSettings
from duly.sdk import app as sdk


@dataclass(slots=True)
class RemoteService:
    """A worker that reaches the store through a server's API."""

    settings: config.Settings
    app: sdk.App | None = None
    app_reference: str | None = None
    roles: Sequence[str] = ("worker",)
    may_restart: bool = False
    wants_restart: bool = False
    # Where it shows its metrics, if it does.
    metrics_url: str | None = None

    async def run(self, stop: asyncio.Event, started: Callable[[RemoteService], None] | None = None) -> None:
        """Work until `stop`, then drain. Raises Forbidden at once when the server does not take the key."""
        settings, agent, clock = self.settings, f"duly-worker/{config.VERSION}", SystemClock()
        if settings.key is None:
            hint = "`duly key create --role worker --name NAME` makes one; give it as DULY_KEY."
            raise Forbidden("DULY-E301", "There is no key to use.", hint=hint)
        work = Work(settings, self.app, self.app_reference, self.may_restart)
        registry = work.registry()
        store = open_remote(settings.url, settings.key, clock, registry, agent=agent)
        spans = open_spans(settings)
        if spans is not None:
            spans.offered(registry)
        try:
            with contextlib.suppress(Unavailable):
                # A server that is away may come; a key that is refused is a mistake.
                await store.probe()
            if started is not None:
                started(self)
            opener = remote_liveness_opener(settings.url, settings.key, store.time, agent=agent)
            telemetry = meter_of(settings)
            with heard_by(telemetry), captured(settings.capture):
                async with serving_metrics(remote_metrics(telemetry), settings) as self.metrics_url:
                    way: WorkerStore = store if spans is None else spans.around_work(store, clock)
                    self.wants_restart = await work.run(registry, way, store.transport, clock, opener, stop)
        finally:
            if spans is not None:
                await asyncio.to_thread(spans.close)
            await store.close()


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker runs and how much at once, whichever way it goes to its work."""

    settings: config.Settings
    app: sdk.App | None
    app_reference: str | None
    may_restart: bool
    transactions: Transactions | None = None

    def registry(self) -> Registry:
        """What it offers."""
        return build_registry(self.settings, self.app, self.app_reference, self.transactions)

    async def run(
        self,
        registry: Registry,
        store: WorkerStore,
        transport: Transport,
        clock: SystemClock,
        open_liveness: OpenLiveness,
        stop: asyncio.Event,
        mail: Mail | None = None,
    ) -> bool:
        """A worker's shift, from its first registration to its retirement; True when its process should be started again."""
        settings = self.settings
        about = WorkerAbout(
            pool=settings.pool,
            labels=settings.labels,
            handlers=registry.names(),
            takes=registry.takes(),
            slots=settings.slots,
            host=settings.hostname,
            pid=os.getpid(),
            version=config.VERSION,
        )
        name = f"{settings.hostname}-{os.getpid()}"
        shift = Shift(
            store,
            transport,
            registry,
            clock,
            system_entropy,
            WorkerSettings(name=name, pool=settings.pool, labels=settings.labels, slots=settings.slots),
            about,
            HeartbeatThread.starter(open_liveness),
            heartbeat=HeartbeatSettings(ttl=settings.worker_ttl, every=settings.worker_ttl // 3, margin=settings.worker_ttl * 2 // 15),
            grace=settings.grace / SECOND,
            may_restart=self.may_restart,
            secrets=Vault(settings.secrets_env, settings.secrets_dir, settings.veil),
            mail=mail,
            skew=clock.skew,
        )
        try:
            await shift.run(stop)
            return shift.wants_restart
        finally:
            for handler in registry.by_name.values():
                if handler.close is not None:
                    await handler.close()


def build_registry(
    settings: config.Settings, app: sdk.App | None, app_reference: str | None, transactions: Transactions | None = None
) -> Registry:
    """What a worker of these settings offers; its Python handlers may open these transactions."""
    from duly.executors.builtin import builtin_handlers
    from duly.executors.http import http_handler
    from duly.executors.processes import ProcessPool
    from duly.executors.python import python_handlers
    from duly.executors.shell import shell_handler

    registry = Registry()
    for handler in builtin_handlers():
        registry.add(handler)
    secret = settings.webhook_secret
    registry.add(
        http_handler(
            signing_secret=None if secret is None else secret.encode(), allow=settings.webhook_allow, allow_http=settings.webhook_http
        )
    )
    if settings.pool in settings.shell_pools:
        registry.add(shell_handler(environment=settings.environment, directory=settings.shell_dir, limits=settings.shell_limits))
    if app is not None:
        processes = None if app_reference is None else ProcessPool(app_reference, size=settings.children, capture=settings.capture)
        for handler in python_handlers(app.calls(), threads=settings.slots, processes=processes, transactions=transactions):
            registry.add(handler)
    return registry


def liveness_opener(node: Node) -> OpenLiveness:
    """The heartbeat's own way to the store: a connection of its own on PostgreSQL; SQLite's writer thread serves any loop."""

    async def nothing() -> None:
        return None

    async def open_liveness() -> tuple[Liveness, Callable[[], Awaitable[None]]]:
        if isinstance(node.engine, SqliteEngine):
            return node.store.liveness, nothing
        engine = open_engine(node.settings.store)
        return SqlLiveness(engine), engine.close

    return open_liveness


def open_transactions(engine: Engine) -> Transactions:
    """Transactions of the store for the handlers of this process."""
    if isinstance(engine, SqliteEngine):
        from duly.adapters.sql.sqlite.transactions import SqliteTransactions

        return SqliteTransactions(engine)
    from duly.adapters.sql.engine_postgres import PostgresEngine
    from duly.adapters.sql.postgres.transactions import PostgresTransactions

    assert isinstance(engine, PostgresEngine)
    return PostgresTransactions(engine.dsn)
