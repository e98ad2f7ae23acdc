"""Workers and pools: who is there, how much they have to do, and when they were last heard of."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from duly.dashboard.commands import commands
from duly.dashboard.drawing.charts import meter
from duly.dashboard.view import PageQuery, View, page
from duly.http.routing import Call, Reply

# A dot for each slot up to here; beyond it a number says it better.
MOST_DOTS = 64
ORDER = {"LOST": 0, "DRAINING": 1, "LIVE": 2}


class WorkersQuery(PageQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Of which pool."""

    pool: Annotated[str, Meta(max_length=64)] | None = None


@page("/workers")
async def show_workers(call: Call, query: WorkersQuery) -> Reply:
    """The workers"""
    view = await View.of(call, "/workers", query)
    context: dict[str, Any] = {"pools": [], "workers": [], "busy": {}, "dots": MOST_DOTS}
    if view.wants("pools"):
        for pool in (await view.get("/v1/pools"))["items"]:
            label = f"{pool['running']} of {pool['slots']} slots in use"
            context["pools"].append({**pool, "meter": meter(pool["running"], pool["slots"], label)})
    if view.wants("workers"):
        found = (await view.get("/v1/workers"))["items"]
        shown = [worker for worker in found if query.pool in (None, worker["pool"])]
        context["workers"] = sorted(shown, key=lambda worker: (ORDER.get(worker["state"], 3), worker["name"]))
        busy: dict[str, list[dict[str, Any]]] = {}
        for run in (await view.get("/v1/executions", state="RUNNING", limit=200))["items"]:
            busy.setdefault(run["workerId"], []).append(run)
        context["busy"] = busy
        context["versions"] = sorted({worker["version"] for worker in found if worker["state"] != "LOST" and worker["version"]})
    return view.page("workers", "Workers", commands("duly top", "/v1/workers"), **context)


ROUTES = [show_workers]
