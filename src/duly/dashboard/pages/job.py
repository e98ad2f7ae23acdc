"""One job: its schedule in words, its next fires, its runs, its versions, and what can be done with it."""

from __future__ import annotations

from typing import Any, Literal

from duly.dashboard.commands import commands
from duly.dashboard.drawing.charts import run_bars
from duly.dashboard.flows import SAID, declared, kind_of
from duly.dashboard.view import PageQuery, View, page
from duly.dashboard.words import between, plain
from duly.domain.history import nearest_rank
from duly.domain.ids import JobId, job_text
from duly.http.routing import Call, Reply

SHOWN_RUNS = 60
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
    """Which tab."""

    tab: Literal["runs", "versions", "definition", "why"] = "runs"


@page("/jobs/{jobId}")
async def show_job_page(call: Call, job_id: JobId, query: JobPageQuery) -> Reply:
    """One job"""
    id = job_text(job_id)
    view = await View.of(call, f"/jobs/{id}", query)
    job = await view.get(f"/v1/jobs/{id}")
    context: dict[str, Any] = {"job": job, "fires": [], "runs": [], "versions": [], "why": None, "section": "/jobs"}
    if view.wants("fires", "head"):
        context["fires"] = (await view.get(f"/v1/jobs/{id}/fires", count=10))["items"]
    if view.wants("runs", "head"):
        runs = (await view.get(f"/v1/jobs/{id}/executions", limit=SHOWN_RUNS))["items"]
        context |= {"runs": runs, "figures": _figures(runs), "bars": run_bars(view, _past(runs)[::-1])}
    if job["steps"] and query.part is None:
        context |= {"drawing": declared(job), "kind_of": kind_of, "said": SAID}
    if query.tab == "versions" and view.wants("versions"):
        context["versions"] = _compared((await view.get(f"/v1/jobs/{id}/versions"))["items"])
    if query.tab == "why" and view.wants("why"):
        context["why"] = await view.get(f"/v1/jobs/{id}/why")
    mark = {"PAUSED": "⏸ ", "CANCELLED": "⊘ "}.get(job["state"], "")
    return view.page("job", f"{mark}{job['name']}", commands(f"duly job show {job['name']}", f"/v1/jobs/{id}"), **context)


def _past(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs that have begun or ended: what is still to come never stands among them."""
    return [run for run in runs if run["startedAt"] is not None or run["finishedAt"] is not None]


def _figures(runs: list[dict[str, Any]]) -> dict[str, Any]:
    ended = [run for run in runs if run["state"] in ("SUCCEEDED", "DEAD")]
    took = [round(span) for run in ended if (span := between(run["startedAt"], run["finishedAt"])) is not None]
    late = [run["latenessMs"] for run in runs if run["latenessMs"] is not None]
    return {
        "count": len(ended),
        "succeeded": None if not ended else round(100 * sum(run["state"] == "SUCCEEDED" for run in ended) / len(ended)),
        "p50": nearest_rank(took, 0.5),
        "p95": nearest_rank(took, 0.95),
        "late": nearest_rank(late, 0.95),
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
