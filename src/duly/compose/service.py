"""A `Service` runs roles on a node until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duly.adapters.system.alarm import Alarm
from duly.adapters.system.clock import system_entropy
from duly.compose.alerts import watch_over
from duly.compose.analytics import export_records
from duly.compose.couriers import crier_of, mail_of
from duly.compose.doors import doorkeeper_of, refuse_openness
from duly.compose.events import tell_events
from duly.compose.first_key import login_link
from duly.compose.metrics import metrics_of, report_metrics, serving_metrics, store_name
from duly.compose.mounted import api_on
from duly.compose.node import Node, publish
from duly.compose.presence import about_dispatcher, presence_of
from duly.compose.redis import hot_index_on
from duly.compose.stores import shares
from duly.compose.work import Work, liveness_opener, open_transactions
from duly.domain.errors import Invalid
from duly.domain.metrics.catalogue import DISPATCHER_SHARDS
from duly.executors.capture import captured
from duly.ports.telemetry import heard_by
from duly.roles import loop
from duly.roles.conductor import ConductorRole
from duly.roles.dispatcher import Dispatcher, DispatcherSettings
from duly.roles.hydrator import Hydrator, HydratorSettings
from duly.roles.notary import Notary, NotarySettings
from duly.roles.ownership import Ownership, OwnershipSettings
from duly.roles.pruner import Pruner, PrunerSettings
from duly.roles.sweeper import Sweeper, SweeperSettings
from duly.roles.timekeeper import Timekeeper
from duly.sdk import app as sdk

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
    # Where a process without an API shows its metrics, if it does.
    metrics_url: str | None = None
    may_restart: bool = False
    wants_restart: bool = False
    # Where somebody reads along: a link that logs one browser in, once, made when the API listens.
    wants_link: bool = False
    login_link: str | None = None
    # The other stores of an installation that has more than one.
    others: Sequence[Node] = ()

    async def run(self, stop: asyncio.Event, started: Callable[[Service], None] | None = None) -> None:
        """Run the roles until `stop`; then the worker drains, the dispatcher hands over, and the API answers to the end."""
        node = self.node
        if self.app is not None:
            await publish(self.app, node)
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(heard_by(node.telemetry))
            metrics = metrics_of(self.nodes, reads=set(self.roles) != {"worker"})
            tasks: list[asyncio.Task[None]] = []
            if "api" in self.roles:
                await stack.enter_async_context(self._serving_api(stop))
            else:
                self.metrics_url = await stack.enter_async_context(serving_metrics(metrics, node.settings))
            if node.settings.telemetry.sends_metrics:
                tasks.append(asyncio.create_task(report_metrics(metrics, node.settings, node.clock, stop)))
            for each in self.nodes:
                tasks += self._roles_of(each, stop)
            if "worker" in self.roles:
                stack.enter_context(captured(node.settings.capture))
                slots = shares(node.settings.slots, len(self.nodes))
                tasks += [asyncio.create_task(self._work(each, share, stop)) for each, share in zip(self.nodes, slots, strict=True)]
            if started is not None:
                started(self)
            try:
                await _until_stop_or_failure(tasks, stop)
            finally:
                stop.set()
                await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def nodes(self) -> list[Node]:
        """All of its stores."""
        return [self.node, *self.others]

    def _roles_of(self, node: Node, stop: asyncio.Event) -> list[asyncio.Task[None]]:
        """The roles of one store, but the API, which serves all of them, and the worker."""
        tasks = [asyncio.create_task(loop.run(Timekeeper(node.clock, node.store.health), node.clock, stop, system_entropy))]
        if "dispatcher" in self.roles:
            tasks += self._dispatching(node, stop)
        if "sweeper" in self.roles:
            tasks.append(asyncio.create_task(loop.run(Sweeper(node.store.losses, SweeperSettings()), node.clock, stop, system_entropy)))
            notary = Notary(node.store.audit, NotarySettings(keep=node.settings.audit_retention))
            tasks.append(asyncio.create_task(loop.run(notary, node.clock, stop, system_entropy)))
            tasks.append(asyncio.create_task(tell_events(node.store.outbox, node.settings, node.clock, stop)))
            tasks.append(asyncio.create_task(export_records(node.store.records, node.settings, node.clock, stop)))
        if "pruner" in self.roles:
            pruner = Pruner(node.store.retention, node.store.tenants, PrunerSettings(keep=node.settings.retention))
            tasks.append(asyncio.create_task(loop.run(pruner, node.clock, stop, system_entropy)))
        if "alerter" in self.roles:
            tasks += watch_over(node, stop)
        return tasks

    @contextlib.asynccontextmanager
    async def _serving_api(self, stop: asyncio.Event) -> AsyncIterator[None]:
        from duly.http.server import ApiServer

        node = self.node
        await refuse_openness(node)
        api, services = api_on(self.nodes)
        server = ApiServer(api, host=node.settings.host, port=node.settings.port)
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
        if self.wants_link:
            self.login_link = await login_link(node, services, server.url)
        doorkeepers = [doorkeeper_of(*pair) for pair in zip(self.nodes, (services, *services.neighbours), strict=True)]
        keeping = [asyncio.create_task(loop.run(keeper, node.clock, stop, system_entropy)) for keeper in doorkeepers]
        try:
            yield
        finally:
            ended.set()
            await serving
            stop.set()
            await asyncio.gather(*keeping)
            for keeper in doorkeepers:
                with contextlib.suppress(Exception):
                    # What was used since the last look.
                    await keeper.step(node.clock.now())

    def _dispatching(self, node: Node, stop: asyncio.Event) -> list[asyncio.Task[None]]:
        name = f"{node.settings.hostname}:{os.getpid()}:{secrets.token_hex(4)}"
        presence = presence_of(node.settings, node.clock)
        ownership = Ownership(name, node.store.leases, node.clock, OwnershipSettings(), presence, lambda: about_dispatcher(node))
        if node.telemetry is not None:
            node.telemetry.watch(DISPATCHER_SHARDS, lambda: len(ownership.epochs()), (store_name(node),))
        hot_index = hot_index_on(node.redis)
        dispatcher = Dispatcher(
            ownership,
            node.store.schedules,
            node.store.definitions,
            node.quotas,
            hot_index,
            node.transport,
            node.clock,
            DispatcherSettings(),
            (alarm := Alarm()).sleep,
        )
        conductor = ConductorRole(node.conductor, node.transport)
        hydrator = Hydrator(ownership, node.store.schedules, hot_index, node.transport, HydratorSettings())

        async def dispatch() -> None:
            await presence.enter(name)
            # The shards are handed over as soon as it stops, while the worker beside it still drains.
            await loop.run(dispatcher, node.clock, stop, system_entropy, dispatcher.wait)
            with contextlib.suppress(Exception):
                await dispatcher.stop()
            # Only now: who is told to look should find something.
            await presence.leave()
            alarm.close()

        tasks = [
            asyncio.create_task(dispatch()),
            asyncio.create_task(loop.run(hydrator, node.clock, stop, system_entropy, hydrator.wait)),
            asyncio.create_task(loop.run(conductor, node.clock, stop, system_entropy, conductor.wait)),
        ]
        if node.courier is not None:
            crier = crier_of(node.store.ready, node.courier, node.transport, node.clock, ownership)
            tasks.append(asyncio.create_task(loop.run(crier, node.clock, stop, system_entropy, crier.wait)))
        return tasks

    async def _work(self, node: Node, slots: int, stop: asyncio.Event) -> None:
        transactions = open_transactions(node.engine)
        work = Work(replace(node.settings, slots=slots), self.app, self.app_reference, self.may_restart, transactions)
        registry = work.registry()
        if node.spans is not None:
            node.spans.offered(registry)
        mail = None if node.courier is None else mail_of(node.store.ready, node.courier, node.settings, registry)
        try:
            self.wants_restart |= await work.run(registry, node.store, node.transport, node.clock, liveness_opener(node), stop, mail)
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
