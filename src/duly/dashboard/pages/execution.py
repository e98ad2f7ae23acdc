"""One execution: its attempts, logs, payload and result, and why it stands where it stands."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from markupsafe import Markup

from duly.dashboard.commands import commands
from duly.dashboard.drawing.charts import attempts as drawn
from duly.dashboard.flows import began, run_of
from duly.dashboard.view import PageQuery, View, page
from duly.dashboard.words import moment, short_id, span
from duly.domain.ids import ExecutionId, execution_text
from duly.domain.instants import Instant, Micros
from duly.http.routing import Call, Reply

SHOWN_LINES = 1000
MARKS = {"SUCCEEDED": "✓", "DEAD": "✗", "RUNNING": "▶", "CANCELLED": "⊘", "SKIPPED": "↷"}
KINDS = {"SUCCEEDED": "succeeded", "CANCELLED": "ended", "RELEASED": "ended"}


class ExecutionPageQuery(PageQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """As what the steps of a workflow's run are shown."""

    steps: Literal["graph", "table", "gantt"] = "graph"


@page("/executions/{executionId}")
async def show_execution_page(call: Call, execution_id: ExecutionId, query: ExecutionPageQuery) -> Reply:
    """One execution"""
    id = execution_text(execution_id)
    view = await View.of(call, f"/executions/{id}", query)
    run = await view.get(f"/v1/executions/{id}")
    # Side by side: none of them needs another's answer.
    attempts, lines, why = await asyncio.gather(
        view.get_if(view.wants("head", "attempts", "failure"), f"/v1/executions/{id}/attempts"),
        view.get_if(view.wants("logs"), f"/v1/executions/{id}/logs", limit=SHOWN_LINES),
        view.get_if(view.wants("why"), f"/v1/executions/{id}/why"),
    )
    context: dict[str, Any] = {
        "run": run,
        "section": "/executions",
        "lines": [],
        "attempts": [],
        "why": why,
        "is_final": run["finishedAt"] is not None,
        "began": began,
        "flow": await run_of(view, run) if view.wants("head", "steps") else None,
    }
    if attempts is not None:
        context |= {"attempts": attempts["items"], "picture": picture(view, run, attempts["items"])}
    if lines is not None:
        context |= {"lines": lines["items"], "more": lines["nextCursor"]}
    mark = MARKS.get(run["state"], "◌")
    title = f"{mark} {run['jobName']} · {short_id(id)}"
    shown = commands(f"duly run show {id}", f"/v1/executions/{id}")
    if context["flow"] is not None:
        title += "" if query.steps == "graph" else f" · {query.steps}"
        shown = commands(f"duly workflow show {id}", f"/v1/executions/{id}/steps")
    return view.page("execution", title, shown, **context)


def bounds(view: View, run: dict[str, Any], attempts: list[dict[str, Any]]) -> tuple[Instant, Instant] | None:
    """From when it was due until it ended, or until now; None while nothing has begun."""
    begun = [moment(each["startedAt"]) for each in attempts if each["startedAt"]]
    if not begun:
        return None
    start = min([moment(run["scheduledAt"]), *begun])
    return start, max(start, moment(run["finishedAt"]) if run["finishedAt"] else view.now)


def picture(view: View, run: dict[str, Any], attempts: list[dict[str, Any]], length: Micros = 0) -> Markup | None:
    """The timeline, from when it was due until it ended, or until now; at least as long as `length`, to be compared with another."""
    drawn_from = bounds(view, run, attempts)
    if drawn_from is None:
        return None
    start, end = drawn_from
    parts: list[tuple[str, int, int, str]] = []
    at = start
    for each in attempts:
        if each["startedAt"] is None:
            continue
        first = moment(each["startedAt"])
        last = moment(each["finishedAt"]) if each["finishedAt"] else end
        if first > at:
            kind = "queue" if not parts else "wait"
            parts.append((kind, at, first, f"{'queued' if kind == 'queue' else 'waited'} {span((first - at) / 1000)}"))
        outcome = each["outcome"]
        kind = "running" if outcome is None else KINDS.get(outcome, "bad")
        ended = "running" if outcome is None else outcome.lower().replace("_", " ")
        words = f"attempt {each['attempt']}: {ended}, {span((last - first) / 1000)}"
        parts.append((kind, first, last, words))
        at = last
    if end > at and run["finishedAt"] is None and run["state"] != "RUNNING":
        parts.append(("wait", at, end, f"waits since {span((end - at) / 1000)}"))
    return drawn(view, start, max(end, at, start + length), parts)


ROUTES = [show_execution_page]
