"""Graphs and timelines as they are drawn: every step once, nothing that a name could break, everything within the picture."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from duly.dashboard.drawing.graph import Node, Span, graph, timeline
from duly.dashboard.flows import MOST_DRAWN, declared
from duly.domain.workflow.step import Rule, Step
from tests.dashboard.fleet import NASTY
from tests.dashboard.flows import WAREHOUSE

STEPS = [Step(name=step["name"], after=tuple(step["dependsOn"]), rule=Rule(step.get("trigger", "all_succeeded"))) for step in WAREHOUSE]


def _parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def _extent(bar: ElementTree.Element) -> tuple[float, float]:
    return float(bar.get("x", "")), float(bar.get("width", ""))


def test_every_step_is_drawn_once_inside_the_picture_and_every_edge_once() -> None:
    drawn = _parsed(graph(STEPS, {}, "flow"))

    width, height = float(drawn.get("width", "")), float(drawn.get("height", ""))
    boxes = [node.find("rect") for node in drawn.iter("g")]
    corners = {(box.get("x"), box.get("y")) for box in boxes if box is not None}
    assert len(boxes) == len(corners) == len(STEPS)
    assert all(float(x or "") + 176 <= width and float(y or "") + 52 <= height for x, y in corners)
    edges = [path for path in drawn.iter("path") if "flow-edge" in (path.get("class") or "")]
    assert len(edges) == sum(len(step.parents) for step in STEPS)


def test_a_long_edge_runs_past_the_nodes_between_its_ends() -> None:
    steps = [Step(name="a"), Step(name="b"), Step(name="c", after=("a",)), Step(name="d", after=("b", "c"))]

    drawn = _parsed(graph(steps, {}, "flow"))

    between = next(node.find("rect") for node in drawn.iter("g") if "c: " in (node.findtext("title") or ""))
    assert between is not None
    top = float(between.get("y", ""))
    levels = re.findall(r"(?<= )([\d.]+)H", "".join(path.get("d", "") for path in drawn.iter("path")))
    assert len(levels) == 1
    assert not top <= float(levels[0]) <= top + 52


def test_only_edges_between_two_steps_of_the_critical_path_are_thick() -> None:
    nodes = {name: Node("SUCCEEDED", is_critical=True) for name in ("extract_orders", "load", "totals")}

    drawn = graph(STEPS, nodes, "flow")

    assert len(re.findall('class="flow-edge critical"', drawn)) == 2


def test_what_is_shown_of_a_step_stays_text() -> None:
    drawn = graph([Step(name="a")], {"a": Node("DEAD", NASTY, "/x?a=1&b=2", NASTY)}, NASTY)

    assert "<script" not in drawn
    assert "<img" not in drawn
    assert _parsed(drawn).get("aria-label") == NASTY
    link = next(_parsed(drawn).iter("a"))
    assert link.get("href") == "/x?a=1&b=2"
    assert (link.get("aria-label") or "").endswith(NASTY)


def test_a_line_of_time_is_within_its_scale_and_never_invisible() -> None:
    lines = timeline(
        {
            "first": Span(0, 0, 1, "succeeded"),
            "second": Span(10, 400, 1000, "dead"),
            "late": Span(1000, 1000, 1000, "running"),
            "to come": Span(900, None, 1000, "pending"),
        },
        0,
        1000,
    )

    bars = {name: [_extent(bar) for bar in _parsed(line).iter("rect")] for name, line in lines.items()}
    assert [len(found) for found in bars.values()] == [1, 2, 1, 1]
    assert all(x >= 0 and wide >= 4 and x + wide <= 1000 for found in bars.values() for x, wide in found)


def test_a_graph_of_too_many_steps_is_not_drawn() -> None:
    step = {"dependsOn": [], "trigger": "all_succeeded", "map": None, "compensates": None}
    assert declared({"name": "wide", "steps": [{**step, "name": f"s{nth}"} for nth in range(MOST_DRAWN + 1)]}) is None
