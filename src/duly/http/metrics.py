"""Metrics for Prometheus, as text."""

from __future__ import annotations

from duly.domain.access import DEFAULT_TENANT_NUMBER, Role
from duly.http.routing import Call, Reply, route
from duly.http.scaling import loads
from duly.usecases.metrics import pool_families
from duly.wire.exposition import exposition, media_for

METRICS = "/metrics"


@route("GET", METRICS, role=Role.VIEWER, answer=None, text="# TYPE duly_pool_pending gauge")
async def show_metrics(call: Call) -> Reply:
    """Metrics for Prometheus, or as OpenMetrics by Accept; keys of other tenants than default see the loads of their own part"""
    if call.actor.tenant == DEFAULT_TENANT_NUMBER:
        families = await call.services.metrics.gather()
    else:
        families = pool_families(await loads(call))
    media = media_for(call.headers.get(b"accept", b"").decode("latin-1"))
    return Reply(exposition(families, media).encode(), media=media.encode())


ROUTES = [show_metrics]
