"""Whether the process lives, whether it can serve, and what it is. The only routes without a key; they say nothing else."""

from __future__ import annotations

import asyncio
import contextlib

from duly.domain.errors import Unavailable
from duly.http.routing import Call, Reply, route
from duly.http.services import Services
from duly.wire.fleet import HealthView, VersionView

PATIENCE = 2.0


@route("GET", "/healthz", role=None, answer=HealthView)
async def health(call: Call) -> Reply:
    """The process is alive"""
    return Reply(HealthView(status="ok"))


@route("GET", "/readyz", role=None, answer=HealthView, problems=("DULY-E501", "DULY-E503"))
async def readiness(call: Call) -> Reply:
    """The store answers, so requests can be served"""
    try:
        async with asyncio.timeout(PATIENCE):
            await _ready(call.services)
    except TimeoutError as exc:
        raise Unavailable("DULY-E501", "The store does not answer.") from exc
    return Reply(HealthView(status="ok"))


@route("GET", "/version", role=None, answer=VersionView)
async def version(call: Call) -> Reply:
    """Which version runs here"""
    return Reply(VersionView(version=call.services.version))


async def _ready(services: Services) -> None:
    """While one of several stores answers, its tenants can be served, and the server is not taken out of their way."""
    for each in (services, *services.neighbours):
        with contextlib.suppress(Unavailable):
            await each.ready()
            return
    await services.ready()


ROUTES = [health, readiness, version]
