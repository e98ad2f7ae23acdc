"""A `Service` runs roles on a node until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.adapters.memory.hot_index import MemoryHotIndex
from duly.adapters.system.clock import system_entropy
from duly.compose.doors import doorkeeper_of, gate_of, refuse_openness
from duly.compose.node import Node, publish
from duly.compose.work import Work, liveness_opener, open_transactions
from duly.domain.errors import Invalid
from duly.domain.rates import Rate
from duly.roles import loop
from duly.roles.dispatcher import Dispatcher, DispatcherSettings
from duly.roles.hydrator import Hydrator, HydratorSettings
from duly.roles.notary import Notary, NotarySettings
from duly.roles.ownership import Ownership, OwnershipSettings
from duly.roles.pruner import Pruner, PrunerSettings
from duly.roles.sweeper import Sweeper, SweeperSettings
from duly.roles.timekeeper import Timekeeper
from duly.sdk import app as sdk
from duly.usecases.access import Access, Keyring
from duly.usecases.audit import AuditTrail
from duly.usecases.backfill import Backfills
from duly.usecases.bulk import Bulk
from duly.usecases.dead_letters import DeadLetters
from duly.usecases.events import Changes
from duly.usecases.search import Search
from duly.usecases.sessions import Sessions
from duly.usecases.tenants import Tenants
from duly.usecases.upcoming import Upcoming
from duly.usecases.why import Why
from duly.usecases.workers import Workers

if TYPE_CHECKING:
    from duly.http.server import ApiServer


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
            await publish(self.app, node)
        async with contextlib.AsyncExitStack() as stack:
            tasks = [asyncio.create_task(loop.run(Timekeeper(node.clock, node.store.health), node.clock, stop, system_entropy))]
            if "api" in self.roles:
                await stack.enter_async_context(self._serving_api(stop))
            if "dispatcher" in self.roles:
                tasks += self._dispatching(stop)
            if "sweeper" in self.roles:
                tasks.append(asyncio.create_task(loop.run(Sweeper(node.store.losses, SweeperSettings()), node.clock, stop, system_entropy)))
                notary = Notary(node.store.audit, NotarySettings(keep=node.settings.audit_retention))
                tasks.append(asyncio.create_task(loop.run(notary, node.clock, stop, system_entropy)))
            if "pruner" in self.roles:
                pruner = Pruner(node.store.retention, node.store.tenants, PrunerSettings(keep=node.settings.retention))
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
    async def _serving_api(self, stop: asyncio.Event) -> AsyncIterator[None]:
        from duly.http.app import create_api
        from duly.http.server import ApiServer
        from duly.http.services import Services

        node = self.node
        keyring = Keyring(node.store.keys, node.clock, system_entropy)
        await refuse_openness(node)
        services = Services(
            jobs=node.jobs,
            executions=node.executions,
            fleet=node.fleet,
            why=Why(node.store.facts, node.store.insights, node.store.ready, node.store.tenants, node.clock, node.settings.retention),
            dead_letters=DeadLetters(node.store.letters, node.executions, node.clock, node.transport),
            bulk=Bulk(node.store.letters, node.jobs, node.executions, node.store.cancels, node.clock, system_entropy, node.transport),
            backfills=Backfills(node.jobs, node.executions, node.store.letters, node.clock, system_entropy),
            access=Access(node.store.keys, node.clock),
            keyring=keyring,
            sessions=Sessions(node.store.sessions, node.clock, system_entropy),
            workers=Workers(node.store, node.clock, system_entropy, node.transport, node.settings.worker_ttl),
            clock=node.clock,
            ready=node.store.health.ping,
            calendars=node.calendars,
            audit=AuditTrail(node.store.audit),
            tenants=Tenants(node.store.tenants, keyring, node.quotas, node.clock, node.transport),
            gate=gate_of(node.settings),
            search=Search(node.store.search, node.clock),
            upcoming=Upcoming(node.store.definitions),
            changes=Changes(node.store.definitions, node.store.search, node.clock),
        )
        settings = node.settings
        rate = Rate(settings.rate_limit, settings.rate_burst) if settings.rate_limit else None
        server = ApiServer(create_api(services, rate=rate), host=node.settings.host, port=node.settings.port)
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
        doorkeeper = doorkeeper_of(node, services)
        keeping = asyncio.create_task(loop.run(doorkeeper, node.clock, stop, system_entropy))
        try:
            yield
        finally:
            ended.set()
            await serving
            stop.set()
            await keeping
            with contextlib.suppress(Exception):
                # What was used since the last look.
                await doorkeeper.step(node.clock.now())

    def _dispatching(self, stop: asyncio.Event) -> list[asyncio.Task[None]]:
        node = self.node
        name = f"{node.settings.hostname}:{os.getpid()}:{secrets.token_hex(4)}"
        ownership = Ownership(name, node.store.leases, node.clock, OwnershipSettings())
        hot_index = MemoryHotIndex()
        dispatcher = Dispatcher(
            ownership,
            node.store.schedules,
            node.store.definitions,
            node.quotas,
            hot_index,
            node.transport,
            node.clock,
            DispatcherSettings(),
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
        transactions = open_transactions(node.engine)
        work = Work(node.settings, self.app, self.app_reference, self.may_restart, transactions)
        try:
            self.wants_restart = await work.run(work.registry(), node.store, node.transport, node.clock, liveness_opener(node), stop)
        finally:
            await transactions.close()


async def _until_stop_or_failure(tasks: Sequence[asyncio.Task[None]], stop: asyncio.Event) -> None:
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait({*tasks, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        stopping.cancel()
