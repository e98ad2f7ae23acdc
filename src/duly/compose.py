"""Puts the parts together: the only module that knows every adapter.

A `Node` is what one process has of Duly: the store, the clock, the transport and the use cases on them.
`serve` runs roles on a node until it is told to stop. `App` is the SDK's application with a way to the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from duly import config
from duly.adapters.memory.hot_index import MemoryHotIndex
from duly.adapters.remote.liveness import open_remote, remote_liveness_opener
from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.adapters.sql.fleet import SqlLiveness
from duly.adapters.sql.migrate import Migration, upgrade
from duly.adapters.sql.store import open_engine, store_on
from duly.adapters.system.clock import SystemClock, system_entropy
from duly.domain.access import DEFAULT_TENANT, DEFAULT_TENANT_NUMBER, Actor, Role
from duly.domain.errors import Forbidden, Invalid, Unavailable
from duly.domain.instants import SECOND
from duly.ports.handlers import Registry
from duly.ports.store import Liveness, Store, WorkerAbout
from duly.ports.transactions import Transactions
from duly.ports.transport import Transport
from duly.ports.work import WorkerStore
from duly.roles import loop
from duly.roles.dispatcher import Dispatcher, DispatcherSettings
from duly.roles.heartbeat import HeartbeatSettings
from duly.roles.hydrator import Hydrator, HydratorSettings
from duly.roles.ownership import Ownership, OwnershipSettings
from duly.roles.pruner import Pruner, PrunerSettings
from duly.roles.shift import OpenLiveness, Shift
from duly.roles.sweeper import Sweeper, SweeperSettings
from duly.roles.timekeeper import Timekeeper
from duly.roles.worker import WorkerSettings
from duly.sdk import app as sdk
from duly.usecases.access import Access, Keyring, ensure_admin_key, is_key_shaped
from duly.usecases.backfill import Backfills
from duly.usecases.bulk import Bulk
from duly.usecases.calendars import Calendars
from duly.usecases.dead_letters import DeadLetters
from duly.usecases.executions import Executions
from duly.usecases.inspect import Fleet
from duly.usecases.jobs import Jobs
from duly.usecases.why import Why
from duly.usecases.workers import Workers

if TYPE_CHECKING:
    from duly.http.server import ApiServer

log = logging.getLogger("duly")


@dataclass(slots=True)
class Node:
    """What one process has of Duly."""

    settings: config.Settings
    engine: Engine
    store: Store
    clock: SystemClock
    transport: Transport
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
    store = store_on(engine)
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
    transport = _transport(engine)
    jobs = Jobs(store.definitions, clock, system_entropy, transport)
    executions = Executions(jobs, store.intake, store.cancels, store.insights, clock, system_entropy, transport)
    return Node(
        settings,
        engine,
        store,
        clock,
        transport,
        jobs,
        executions,
        Fleet(store.insights, clock),
        Calendars(store.calendars, clock, transport),
        migrated,
    )


def _transport(engine: Engine) -> Transport:
    if isinstance(engine, SqliteEngine):
        from duly.adapters.sql.transport_sqlite import SqliteTransport

        return SqliteTransport(engine)
    from duly.adapters.sql.engine_postgres import PostgresEngine
    from duly.adapters.sql.transport_postgres import PostgresTransport

    assert isinstance(engine, PostgresEngine)
    return PostgresTransport(engine.dsn)


def _transactions(engine: Engine) -> Transactions:
    """Transactions of the store for the handlers of this process."""
    if isinstance(engine, SqliteEngine):
        from duly.adapters.sql.sqlite.transactions import SqliteTransactions

        return SqliteTransactions(engine)
    from duly.adapters.sql.engine_postgres import PostgresEngine
    from duly.adapters.sql.postgres.transactions import PostgresTransactions

    assert isinstance(engine, PostgresEngine)
    return PostgresTransactions(engine.dsn)


# ---------------------------------------------------------------- roles


@dataclass(slots=True)
class Service:
    """The roles of one process while they run. `url` is where the API listens, if there is one.

    With `may_restart`, whoever runs it starts the process again when it ends with `wants_restart`.
    """

    node: Node
    roles: Sequence[str]
    app: sdk.App | None = None
    app_reference: str | None = None
    new_key: str | None = None
    api: ApiServer | None = None
    may_restart: bool = False
    wants_restart: bool = False

    async def run(self, stop: asyncio.Event, started: Callable[[Service], None] | None = None) -> None:
        """Run the roles until `stop`; then the worker drains, the dispatcher hands over, and the API answers to the end."""
        node = self.node
        if self.app is not None:
            await _publish(self.app, node)
        async with contextlib.AsyncExitStack() as stack:
            tasks = [asyncio.create_task(loop.run(Timekeeper(node.clock, node.store.health), node.clock, stop, system_entropy))]
            if "api" in self.roles:
                await stack.enter_async_context(self._serving_api())
            if "dispatcher" in self.roles:
                tasks += self._dispatching(stop)
            if "sweeper" in self.roles:
                tasks.append(asyncio.create_task(loop.run(Sweeper(node.store.losses, SweeperSettings()), node.clock, stop, system_entropy)))
            if "pruner" in self.roles:
                pruner = Pruner(node.store.retention, PrunerSettings(keep=node.settings.retention))
                tasks.append(asyncio.create_task(loop.run(pruner, node.clock, stop, system_entropy)))
            if "worker" in self.roles:
                tasks.append(asyncio.create_task(self._work(stop)))
            if started is not None:
                started(self)
            try:
                await _until_stop_or_failure(tasks, stop)
            finally:
                stop.set()
                await asyncio.gather(*tasks, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def _serving_api(self) -> AsyncIterator[None]:
        from duly.http.app import create_api
        from duly.http.server import ApiServer
        from duly.http.services import Services

        node = self.node
        services = Services(
            jobs=node.jobs,
            executions=node.executions,
            fleet=node.fleet,
            why=Why(node.store.facts, node.store.insights, node.store.ready, node.clock, node.settings.retention),
            dead_letters=DeadLetters(node.store.letters, node.executions, node.clock, node.transport),
            bulk=Bulk(node.store.letters, node.jobs, node.executions, node.store.cancels, node.clock, system_entropy, node.transport),
            backfills=Backfills(node.jobs, node.executions, node.store.letters, node.clock, system_entropy),
            access=Access(node.store.keys, node.clock),
            keyring=Keyring(node.store.keys, node.clock, system_entropy),
            workers=Workers(node.store, node.clock, system_entropy, node.transport, node.settings.worker_ttl),
            clock=node.clock,
            ready=node.store.health.ping,
            calendars=node.calendars,
        )
        server = ApiServer(create_api(services), host=node.settings.host, port=node.settings.port)
        ended = asyncio.Event()
        serving = asyncio.create_task(server.serve_until(ended))
        listening = asyncio.create_task(server.listening())
        await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            listening.cancel()
            try:
                await serving
            except OSError as error:
                in_use = error.errno == errno.EADDRINUSE
                hint = "Another process listens there; choose another one with --port." if in_use else "Choose another --host or --port."
                raise Invalid(
                    "DULY-E601",
                    f"cannot listen on {node.settings.host}:{node.settings.port}: {error.strerror}.",
                    field="DULY_PORT",
                    hint=hint,
                ) from error
        self.api = server
        try:
            yield
        finally:
            ended.set()
            await serving

    def _dispatching(self, stop: asyncio.Event) -> list[asyncio.Task[None]]:
        node = self.node
        name = f"{node.settings.hostname}:{os.getpid()}:{secrets.token_hex(4)}"
        ownership = Ownership(name, node.store.leases, node.clock, OwnershipSettings())
        hot_index = MemoryHotIndex()
        dispatcher = Dispatcher(
            ownership, node.store.schedules, node.store.definitions, hot_index, node.transport, node.clock, DispatcherSettings()
        )
        hydrator = Hydrator(ownership, node.store.schedules, hot_index, node.transport, HydratorSettings())

        async def dispatch() -> None:
            # The shards are handed over as soon as it stops, while the worker beside it still drains.
            await loop.run(dispatcher, node.clock, stop, system_entropy, dispatcher.wait)
            with contextlib.suppress(Exception):
                await dispatcher.stop()

        return [
            asyncio.create_task(dispatch()),
            asyncio.create_task(loop.run(hydrator, node.clock, stop, system_entropy, hydrator.wait)),
        ]

    async def _work(self, stop: asyncio.Event) -> None:
        node = self.node
        transactions = _transactions(node.engine)
        work = Work(node.settings, self.app, self.app_reference, self.may_restart, transactions)
        try:
            self.wants_restart = await work.run(node.store, node.transport, node.clock, _liveness_opener(node), stop)
        finally:
            await transactions.close()


@dataclass(slots=True)
class RemoteService:
    """A worker that reaches the store through a server's API."""

    settings: config.Settings
    app: sdk.App | None = None
    app_reference: str | None = None
    roles: Sequence[str] = ("worker",)
    may_restart: bool = False
    wants_restart: bool = False

    async def run(self, stop: asyncio.Event, started: Callable[[RemoteService], None] | None = None) -> None:
        """Work until `stop`, then drain. Raises Forbidden at once when the server does not take the key."""
        settings, agent, clock = self.settings, f"duly-worker/{config.VERSION}", SystemClock()
        if settings.key is None:
            hint = "`duly key create --role worker --name NAME` makes one; give it as DULY_KEY."
            raise Forbidden("DULY-E301", "There is no key to use.", hint=hint)
        store = open_remote(settings.url, settings.key, clock, agent=agent)
        try:
            with contextlib.suppress(Unavailable):
                # A server that is away may come; a key that is refused is a mistake.
                await store.probe()
            if started is not None:
                started(self)
            opener = remote_liveness_opener(settings.url, settings.key, store.time, agent=agent)
            work = Work(settings, self.app, self.app_reference, self.may_restart)
            self.wants_restart = await work.run(store, store.transport, clock, opener, stop)
        finally:
            await store.close()


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker runs and how much at once, whichever way it goes to its work."""

    settings: config.Settings
    app: sdk.App | None
    app_reference: str | None
    may_restart: bool
    transactions: Transactions | None = None

    async def run(
        self, store: WorkerStore, transport: Transport, clock: SystemClock, open_liveness: OpenLiveness, stop: asyncio.Event
    ) -> bool:
        """A worker's shift, from its first registration to its retirement; True when its process should be started again."""
        settings = self.settings
        registry = build_registry(settings, self.app, self.app_reference, self.transactions)
        about = WorkerAbout(
            pool=settings.pool,
            labels=settings.labels,
            handlers=registry.names(),
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
            open_liveness,
            heartbeat=HeartbeatSettings(ttl=settings.worker_ttl, every=settings.worker_ttl // 3, margin=settings.worker_ttl * 2 // 15),
            grace=settings.grace / SECOND,
            may_restart=self.may_restart,
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
        registry.add(shell_handler(environment=settings.environment))
    if app is not None:
        processes = None if app_reference is None else ProcessPool(app_reference, size=settings.children)
        for handler in python_handlers(app.calls(), threads=settings.slots, processes=processes, transactions=transactions):
            registry.add(handler)
    return registry


def _liveness_opener(node: Node) -> Callable[[], Awaitable[tuple[Liveness, Callable[[], Awaitable[None]]]]]:
    """The heartbeat's own way to the store: a connection of its own on PostgreSQL; SQLite's writer thread serves any loop."""

    async def nothing() -> None:
        return None

    async def open_liveness() -> tuple[Liveness, Callable[[], Awaitable[None]]]:
        if isinstance(node.engine, SqliteEngine):
            return node.store.liveness, nothing
        engine = open_engine(node.settings.store)
        return SqlLiveness(engine), engine.close

    return open_liveness


async def _until_stop_or_failure(tasks: Sequence[asyncio.Task[None]], stop: asyncio.Event) -> None:
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        stopping.cancel()


# ---------------------------------------------------------------- keys and applications


async def bootstrap_key(node: Node) -> str | None:
    """See to an admin key. One that is made here is kept in a file that only its owner can read, and returned once."""
    keep = functools.partial(_keep_key, node.settings.key_file)
    return await ensure_admin_key(node.store.keys, node.settings.admin_key, node.clock.now(), system_entropy, keep)


def _keep_key(path: Path, secret: str, instead_of: str | None = None) -> str:
    """See usecases.access.Keeper. The file is always whole: it gets its name when it is on the disk."""
    kept = _reusable_key(path, instead_of)
    if kept is not None:
        return kept
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{secret}\n")
            file.flush()
            os.fsync(descriptor)
        try:
            # Unlike a replace, a link never takes the name from a process that starts beside us.
            os.link(temporary, path)
        except OSError:
            kept = _reusable_key(path, instead_of)
            if kept is None:
                os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return secret if kept is None else kept


def _reusable_key(path: Path, dead: str | None) -> str | None:
    kept = config.kept_key(path)
    if kept is None or kept == dead or not is_key_shaped(kept):
        return None
    with contextlib.suppress(OSError):
        path.chmod(0o600)
    return kept


async def _publish(app: sdk.App, node: Node) -> None:
    """Bring the application's jobs into this node's store."""
    app.use(_connection(node))
    await app.publish()


def _connection(node: Node) -> sdk.Connection:
    actor = Actor(DEFAULT_TENANT_NUMBER, DEFAULT_TENANT, Role.ADMIN, "code")
    return sdk.Connection(node.jobs, node.executions, actor, node.clock, system_entropy, node.close, node.engine.abandon, node.calendars)


class App(sdk.App):
    """Jobs declared in code, on the store that `store` or DULY_STORE names: a SQLite file by default."""

    async def connect(self) -> sdk.Connection:
        """Open the store. One that is made here, by a client, has nobody behind it yet: that is said."""
        settings = config.load(store=self.store)
        node = await open_node(settings)
        if settings.store == config.default_store(settings.home) and any(migration.number == 1 for migration in node.migrated):
            log.warning("made a new store in %s; nobody serves it yet: run `duly up` there, or set DULY_STORE", settings.home.absolute())
        return _connection(node)
