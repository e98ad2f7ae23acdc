"""Workflows for pages: what the API says of a run's steps, or of a job's, as a graph, a table and a Gantt chart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from duly.dashboard.drawing.graph import Node, Span, graph, timeline
from duly.dashboard.view import View
from duly.dashboard.words import between, moment, span
from duly.domain.errors import Conflict
from duly.domain.instants import Instant, to_rfc3339
from duly.domain.workflow.step import Rule, Step

# Beyond these a picture is no help, and a page would be large.
MOST_DRAWN = 150
MOST_LISTED = 250
NO_STEPS = "DULY-E293"
SAID = {
    Rule.ALL_SUCCEEDED: "when all before it have succeeded",
    Rule.ALL_DONE: "when all before it have ended",
    Rule.ANY_SUCCEEDED: "when one before it has succeeded",
    Rule.ANY_FAILED: "when one before it has failed",
}
# Ends after which a run is done again from a step, or from what failed.
UNDONE = frozenset({"DEAD", "CANCELLED", "SKIPPED"})


@dataclass(slots=True)
class Flow:
    """A run of a workflow as its page shows it: its steps in order, those that wait for somebody, and the pictures."""

    run: dict[str, Any]
    steps: list[dict[str, Any]]
    counts: dict[str, int]
    waiting: list[dict[str, Any]]
    undone: int
    drawing: Markup | None = None
    lines: dict[str, Markup] = field(default_factory=dict)
    marks: list[str] = field(default_factory=list)

    @property
    def left_out(self) -> int:
        """How many steps the page does not list."""
        return len(self.run["steps"]) - len(self.steps)


async def run_of(view: View, execution: dict[str, Any]) -> Flow | None:
    """The steps of a run, drawn as the page's address wants them; None for what is no run of a workflow."""
    try:
        run = await view.get(f"/v1/executions/{execution['executionId']}/steps")
    except Conflict as error:
        if error.code != NO_STEPS:
            raise
        return None
    steps = run["steps"]
    counts: dict[str, int] = {}
    for step in steps:
        state = (step["state"] or "waiting").lower()
        counts[state] = counts.get(state, 0) + 1
    flow = Flow(
        run,
        _first(steps),
        counts,
        [step for step in steps if step["waitsFor"] is not None and step["finishedAt"] is None],
        sum(step["state"] in UNDONE for step in steps),
    )
    shown = getattr(view.query, "steps", "graph")
    if shown == "graph" and len(steps) <= MOST_DRAWN:
        made = [_edges(one) for one in steps]
        flow.drawing = graph(made, {one["name"]: _node(view, one) for one in steps}, f"The steps of {run['jobName']}")
    if shown == "gantt":
        _draw_lines(view, flow, execution)
    return flow


def _edges(one: dict[str, Any], map_from: str | None = None) -> Step:
    """A step as far as its place in the graph goes."""
    return Step(name=one["name"], after=tuple(one["dependsOn"]), rule=Rule(one["trigger"]), map=map_from, compensates=one["compensates"])


def declared(job: dict[str, Any]) -> Markup | None:
    """The graph that a job declares; None where it has no steps, or too many to be drawn."""
    steps = job["steps"]
    if not steps or len(steps) > MOST_DRAWN:
        return None
    made = [_edges(one, one["map"]) for one in steps]
    nodes = {one["name"]: Node(detail=kind_of(one)) for one in steps}
    names = ", ".join(f"{step.name} after {' and '.join(step.parents)}" if step.parents else step.name for step in made)
    return graph(made, nodes, f"The steps of {job['name']}: {names}")


def kind_of(step: dict[str, Any]) -> str:
    """What a declared step does, in a few words."""
    if step["compensates"]:
        return f"undoes {step['compensates']}"
    if step["workflow"]:
        return f"runs {step['workflow']}"
    waits = "approval" if step["approval"] else f"signal {step['signal']['name']}" if step["signal"] else None
    if step["delaySec"]:
        waits = f"{span(step['delaySec'] * 1000)} later"
    if step["target"] is None:
        return f"waits: {waits}"
    target = step["target"]
    what = str(target["handler"] or ("an HTTP request" if target["http"] else "a command"))
    if step["map"]:
        what = f"each of {step['map']}: {what}"
    return what if waits is None else f"{what}, after {waits}"


def began(step: dict[str, Any]) -> str | None:
    """When a step began: what no worker runs (the items of a map as a whole, a wait) began when it was made."""
    at = step["startedAt"]
    if at is None and step["state"] not in (None, "PENDING", "SCHEDULED", "SKIPPED"):
        at = step["createdAt"]
    return None if at is None else str(at)


def _first(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All of them; of very many those that somebody would look for: what failed, waits or runs."""
    if len(steps) <= MOST_LISTED:
        return steps
    urgent = {"DEAD": 0, "RUNNING": 1, "BLOCKED": 2, "PENDING": 3, "SCHEDULED": 4, "CANCELLED": 5, "SKIPPED": 6, None: 7, "SUCCEEDED": 8}
    return sorted(steps, key=lambda step: urgent[step["state"]])[:MOST_LISTED]


def _node(view: View, step: dict[str, Any]) -> Node:
    details, more = _details(step), ["on the critical path"] if step["isCritical"] else []
    shown = [_word(step), *details]
    if step["items"] is not None:
        # How far the items have come says more than one word for all of them; the sign has the state.
        shown, more = details, [_word(step), *more]
    href = None if step["state"] is None else f"{view.root}/executions/{step['executionId']}"
    return Node(step["state"], " · ".join(shown), href, ", ".join(more), is_critical=step["isCritical"])


def _word(step: dict[str, Any]) -> str:
    if step["state"] is None:
        return "waits for others"
    if step["waitsFor"] is not None and step["finishedAt"] is None:
        return f"waits for {step['waitsFor']}"
    if step["state"] == "SCHEDULED" and step["attempt"] > 1:
        return "retrying"
    return str(step["state"]).lower()


def _details(step: dict[str, Any]) -> list[str]:
    if step["items"] is not None:
        items = step["items"]
        failed = f", {items['failed']} failed" if items["failed"] else ""
        return [f"{items['succeeded'] + items['failed']}/{items['total']}{failed}"]
    if step["skipReason"]:
        return [str(step["skipReason"])]
    took = between(began(step), step["finishedAt"])
    return [*([span(took)] if took is not None else []), *([f"attempt {step['attempt']}"] if step["attempt"] > 1 else [])]


def _draw_lines(view: View, flow: Flow, execution: dict[str, Any]) -> None:
    """When each step waited and ran, on the scale of the whole run."""
    spans: dict[str, Span] = {}
    for step in flow.steps:
        if step["createdAt"] is None or step["state"] == "SKIPPED":
            continue
        first: Instant | None = None if began(step) is None else moment(began(step) or "")
        ended = view.now if step["finishedAt"] is None else moment(step["finishedAt"])
        spans[step["name"]] = Span(moment(step["createdAt"]), first, ended, step["state"].lower(), step["isCritical"])
    start = min((one.made for one in spans.values()), default=moment(execution["createdAt"]))
    end = max([*(one.ended for one in spans.values()), start + 1])
    flow.lines = timeline(spans, start, end)
    flow.marks = [to_rfc3339(start), to_rfc3339((start + end) // 2), to_rfc3339(end)]
