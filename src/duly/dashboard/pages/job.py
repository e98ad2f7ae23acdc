"""One job: its schedule in words, its next fires, its runs, its versions, and what can be done with it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from msgspec import Meta

from duly.dashboard.commands import commands
from duly.dashboard.drawing.grid import drawn
from duly.dashboard.flows import SAID, declared, kind_of
from duly.dashboard.view import PageQuery, View, page
from duly.dashboard.words import plain
from duly.domain.grid import MOST_RUNS
from duly.domain.history import nearest_rank
from duly.domain.ids import JobId, job_text
from duly.domain.instants import to_rfc3339
from duly.http.routing import Call, Reply

LISTED_RUNS = 30
# Of how many runs a grid can be asked for with a click.
GRIDS = (60, 150, 500)
# What a version is, for people who compare two of them; the rest follows from these or is the same for all.
UNCOMPARED = frozenset(
    [
        "jobId",
        "state",
        "version",
        "createdAt",
        "updatedAt",
        "nextFireAt",
        "words",
        "pausedAt",
        "pausedBy",
        "pausedUntil",
        "pauseReason",
        "skipAt",
        "skipBy",
    ]
)


class JobPageQuery(PageQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which tab, and how many runs side by side."""

    tab: Literal["runs", "versions", "definition", "why"] = "runs"
    runs: Annotated[int, Meta(ge=1, le=MOST_RUNS)] = GRIDS[0]


@page("/jobs/{jobId}")
async def show_job_page(call: Call, job_id: JobId, query: JobPageQuery) -> Reply:
    """One job"""
    id = job_text(job_id)
    view = await View.of(call, f"/jobs/{id}", query)
    job = await view.get(f"/v1/jobs/{id}")
    context: dict[str, Any] = {
        "job": job,
        "fires": [],
        "runs": [],
        "grid": None,
        "picture": None,
        "versions": [],
        "why": None,
        "section": "/jobs",
    }
    shows_runs = query.tab == "runs"
    # Side by side: none of them needs another's answer.
    fires, runs, grid = await asyncio.gather(
        view.get_if(view.wants("fires", "head"), f"/v1/jobs/{id}/fires", count=10),
        view.get_if(shows_runs and view.wants("runs"), f"/v1/jobs/{id}/executions", limit=LISTED_RUNS),
        # The figures above are of the same runs; when they alone are asked for, of not too many.
        view.get_if(view.wants("grid", "head"), f"/v1/jobs/{id}/grid", runs=GRIDS[0] if query.part == "head" else query.runs),
    )
    if fires is not None:
        context["fires"] = fires["items"]
    if runs is not None:
        context["runs"] = runs["items"]
    if grid is not None:
        context |= {"grid": grid, "figures": _figures(grid)}
        if grid["runs"] and shows_runs and view.wants("grid"):
            context |= {"picture": drawn(grid, view.root, to_rfc3339(view.now)), "grids": GRIDS}
    if job["steps"] and query.part is None:
        context |= {"drawing": declared(job), "kind_of": kind_of, "said": SAID}
    if query.tab == "versions" and view.wants("versions"):
        context["versions"] = _compared((await view.get(f"/v1/jobs/{id}/versions"))["items"])
    if query.tab == "why" and view.wants("why"):
        context["why"] = await view.get(f"/v1/jobs/{id}/why")
    mark = {"PAUSED": "⏸ ", "CANCELLED": "⊘ "}.get(job["state"], "")
    return view.page("job", f"{mark}{job['name']}", commands(f"duly job show {job['name']}", f"/v1/jobs/{id}"), **context)


def _figures(grid: dict[str, Any]) -> dict[str, Any]:
    ended = [run for run in grid["runs"] if run["state"] in ("SUCCEEDED", "DEAD")]
    return {
        "count": len(ended),
        "succeeded": None if not ended else round(100 * sum(run["state"] == "SUCCEEDED" for run in ended) / len(ended)),
        "p50": grid["tookP50Ms"],
        "p95": grid["tookP95Ms"],
        "late": nearest_rank([run["latenessMs"] for run in grid["runs"] if run["latenessMs"] is not None], 0.95),
    }


def _compared(versions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each version with what it has changed: name, before, after."""
    found: list[dict[str, Any]] = []
    for version, before in zip(versions, [*versions[1:], None], strict=True):
        changes = []
        if before is not None:
            for key in sorted((version.keys() | before.keys()) - UNCOMPARED):
                if version.get(key) != before.get(key):
                    changes.append((key, plain(before.get(key)), plain(version.get(key))))
        found.append({"version": version, "is_first": before is None and version["version"] == 1, "changes": changes})
    return found


ROUTES = [show_job_page]
