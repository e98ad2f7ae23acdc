"""An installation with more than one store: a node for each, and the services of its API behind one door."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from duly import config
from duly.adapters.system.clock import system_entropy
from duly.compose.doors import gate_of
from duly.compose.metrics import metrics_of
from duly.compose.node import Node, open_node
from duly.compose.otlp import open_spans
from duly.compose.presence import presence_of
from duly.compose.telemetry import meter_of
from duly.domain.homes import Plot
from duly.ports.telemetry import NoTelemetry
from duly.usecases.access import Access, Keyring
from duly.usecases.audit import AuditTrail
from duly.usecases.backfill import Backfills
from duly.usecases.bulk import Bulk
from duly.usecases.cluster import Cluster
from duly.usecases.dead_letters import DeadLetters
from duly.usecases.events import Changes
from duly.usecases.grid import RunGrids
from duly.usecases.links import Links
from duly.usecases.logs import Logs
from duly.usecases.moves import Moves, Side
from duly.usecases.records import Records
from duly.usecases.scaling import Scaling
from duly.usecases.search import Search
from duly.usecases.sessions import Sessions
from duly.usecases.tenants import Neighbourhood, Tenants
from duly.usecases.upcoming import Upcoming
from duly.usecases.why import Why
from duly.usecases.workers import Workers
from duly.usecases.workflows import Workflows

if TYPE_CHECKING:
    from duly.http.services import Services


async def open_nodes(settings: config.Settings, *, migrate: bool = True) -> list[Node]:
    """A node for each store that is served here, the default one first; the only one when there is one. All of them, or none."""
    telemetry, spans = meter_of(settings), open_spans(settings)
    if not settings.stores:
        return [await open_node(settings, migrate=migrate, telemetry=telemetry, spans=spans)]
    nodes: list[Node] = []
    try:
        for store in settings.stores:
            node = await open_node(replace(settings, store=store.url), migrate=migrate, telemetry=telemetry, spans=spans)
            node.name = store.name
            nodes.append(node)
    except BaseException:
        for node in nodes:
            await node.close()
        raise
    return nodes


def services_of(nodes: Sequence[Node]) -> Services:
    """What the API needs of the first of these nodes; it leads to the others."""
    around = {node.name: neighbourhood_of(node) for node in nodes}
    found = [_services(node, around[node.name], nodes) for node in nodes]
    for node, services in zip(nodes, found, strict=True):
        for other, hood in around.items():
            if hood is not None and other != node.name and node.name is not None:
                hood.tenants[node.name] = services.tenants
                hood.homes[node.name] = node.store.homes
    return replace(found[0], neighbours=tuple(found[1:]), metrics=metrics_of(nodes))


def neighbourhood_of(node: Node) -> Neighbourhood | None:
    """How a store sees the others; None when it is the only one."""
    stores = node.settings.all_stores
    if node.name is None or not stores:
        return None
    return Neighbourhood(node.name, stores[0].name, [Plot(store.name, store.tenants) for store in stores], {}, {})


def is_default(node: Node) -> bool:
    """Whether it is the store of the tenant `default`."""
    return node.name is None or node.name == node.settings.all_stores[0].name


def moves_of(nodes: Sequence[Node]) -> Moves:
    """Moves of tenants between these nodes, which are all that there are."""
    sides = {node.name: Side(node.store.homes, node.store.tenants, node.store.audit) for node in nodes if node.name is not None}
    return Moves(sides, nodes[0].settings.all_stores[0].name, nodes[0].clock, asyncio.sleep)


def shares(slots: int, nodes: int) -> list[int]:
    """How many executions a worker runs at once of each store: as evenly as can be, and at least one."""
    each, over = divmod(slots, nodes)
    return [max(1, each + (nth < over)) for nth in range(nodes)]


def _services(node: Node, neighbourhood: Neighbourhood | None, nodes: Sequence[Node]) -> Services:
    from duly.http.services import Services

    keyring = Keyring(node.store.keys, node.clock, system_entropy)
    return Services(
        jobs=node.jobs,
        executions=node.executions,
        fleet=node.fleet,
        cluster=Cluster(
            node.store.leases,
            node.store.health,
            node.store.conditions,
            presence_of(node.settings, node.clock),
            node.clock,
            node.engine.name,
            node.clock.skew,
        ),
        why=Why(node.store.facts, node.store.insights, node.store.ready, node.store.tenants, node.clock, node.settings.retention),
        dead_letters=DeadLetters(node.store.letters, node.executions, node.clock, node.transport),
        bulk=Bulk(node.store.letters, node.jobs, node.executions, node.clock, system_entropy, node.transport),
        backfills=Backfills(node.jobs, node.executions, node.store.letters, node.clock, system_entropy),
        access=Access(node.store.keys, node.clock),
        keyring=keyring,
        sessions=Sessions(node.store.sessions, node.clock, system_entropy),
        workers=Workers(node.store, node.clock, system_entropy, node.transport, node.settings.worker_ttl),
        clock=node.clock,
        ready=node.store.health.ping,
        calendars=node.calendars,
        audit=AuditTrail(node.store.audit),
        tenants=Tenants(node.store.tenants, keyring, node.quotas, node.clock, node.transport, neighbourhood),
        gate=gate_of(node.settings),
        search=Search(node.store.search, node.clock),
        upcoming=Upcoming(node.store.definitions, node.store.figures, node.clock),
        changes=Changes(node.store.definitions, node.store.search, node.clock),
        workflows=Workflows(node.store.flows, node.executions, node.jobs, node.conductor, node.store.keys, node.clock),
        grids=RunGrids(node.store.grids, node.conductor, node.clock),
        records=Records(node.store.records),
        logs=Logs(node.store.logs, node.executions, node.jobs),
        scaling=Scaling(node.store.loads, node.store.insights, node.store.ready, node.clock),
        alerts=node.alerts,
        links=Links(node.store.links, node.clock, system_entropy),
        is_default=is_default(node),
        metrics_public=node.settings.metrics_public,
        telemetry=node.telemetry or NoTelemetry(),
        tracer=None if node.spans is None else node.spans.tracing.request,
    )
