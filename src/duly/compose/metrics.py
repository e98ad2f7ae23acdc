"""Metrics of a process: what is read for them, and the port of one that has no API."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from duly import config
from duly.adapters.system.clock import system_entropy
from duly.adapters.system.process import process_families
from duly.compose.doors import is_local
from duly.domain.errors import Invalid
from duly.domain.instants import SECOND
from duly.domain.metrics import Family, Sample
from duly.domain.metrics.catalogue import BUILD, SKEW
from duly.ports.clock import Clock
from duly.ports.telemetry import Telemetry
from duly.usecases.metrics import Metrics, StoreMetrics

if TYPE_CHECKING:
    from duly.compose.node import Node


def metrics_of(nodes: Sequence[Node], *, reads: bool = True) -> Metrics:
    """Of a process with these stores. One that only works does not read what every other would read as well."""
    settings = nodes[0].settings
    stores = [
        StoreMetrics(
            store_name(node),
            node.store.readings,
            node.store.ready,
            node.store.loads,
            node.store.insights,
            node.store.leases,
            node.store.figures,
            node.store.health,
            node.clock,
            by_tenant=settings.telemetry.by_tenant,
        )
        for node in nodes
    ]

    def own() -> list[Family]:
        skews = [Sample((store_name(node),), node.clock.skew() / SECOND) for node in nodes]
        return [Family(BUILD, [Sample((config.VERSION, nodes[0].engine.name), 1)]), Family(SKEW, skews), *process_families()]

    return Metrics(nodes[0].telemetry, stores, own, reads=reads)


def remote_metrics(telemetry: Telemetry | None) -> Metrics:
    """Of a worker that goes through an API: what it writes is counted by the server."""
    return Metrics(telemetry, (), lambda: [Family(BUILD, [Sample((config.VERSION, "remote"), 1)]), *process_families()])


def store_name(node: Node) -> str:
    """What metrics call a store."""
    return node.name or "default"


@contextlib.asynccontextmanager
async def serving_metrics(metrics: Metrics, settings: config.Settings) -> AsyncIterator[str | None]:
    """A port for GET /metrics while the block lasts, if one is asked for; where it listens. Raises Invalid (DULY-E601)."""
    wanted = settings.telemetry
    if wanted.port is None:
        yield None
        return
    if not is_local(wanted.host) and wanted.token is None:
        hint = "Set DULY_METRICS_TOKEN, and give it to who scrapes as a bearer token."
        raise Invalid("DULY-E601", f"refuses to show metrics on {wanted.host} to everybody.", field="DULY_METRICS_HOST", hint=hint)
    from duly.http.scrape import Scrape
    from duly.http.server import ApiServer

    server, ended = ApiServer(Scrape(metrics, wanted.token), host=wanted.host, port=wanted.port), asyncio.Event()
    serving = asyncio.create_task(server.serve_until(ended))
    listening = asyncio.create_task(server.listening())
    await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        listening.cancel()
        try:
            await serving
        except OSError as error:
            where = f"{wanted.host}:{wanted.port}"
            raise Invalid("DULY-E601", f"cannot listen on {where}: {error.strerror}.", field="DULY_METRICS_PORT") from error
    try:
        yield server.url
    finally:
        ended.set()
        await serving


async def report_metrics(metrics: Metrics, settings: config.Settings, clock: Clock, stop: asyncio.Event) -> None:
    """Send metrics to the collector that is named, until the stop."""
    from duly.compose.otlp import open_metric_sink
    from duly.roles import loop
    from duly.roles.reporter import Reporter

    sink = open_metric_sink(settings)
    reporter = Reporter(metrics.gather, sink, settings.telemetry.otlp_every / SECOND)
    try:
        await loop.run(reporter, clock, stop, system_entropy)
        with contextlib.suppress(Exception):
            # What happened since the last time.
            await reporter.step(clock.now())
    finally:
        await sink.close()
