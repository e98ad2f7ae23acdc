"""Whether the process lives, whether it can serve, and what it is. The only routes without a key; they say nothing else."""

from __future__ import annotations

import asyncio

from duly.domain.errors import Unavailable
from duly.http.routing import Call, Reply, route
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
            await call.services.ready()
    except TimeoutError as exc:
        raise Unavailable("DULY-E501", "The store does not answer.") from exc
    return Reply(HealthView(status="ok"))


@route("GET", "/version", role=None, answer=VersionView)
async def version(call: Call) -> Reply:
    """Which version runs here"""
    return Reply(VersionView(version=call.services.version))


ROUTES = [health, readiness, version]
