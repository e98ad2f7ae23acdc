"""The graph of a workflow, and when the steps of a run ran. Layers and rows are the domain's; colours are classes, so that themes apply.

A node has the sign, the word and the colour of its state. In a run it is a link to the step's own execution, and the arrow keys walk
along its edges (`js/graph.js`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from duly.dashboard.icons import sign
from duly.domain.instants import Instant
from duly.domain.workflow.picture import Place, layout
from duly.domain.workflow.step import Rule, Step

WIDTH, HEIGHT = 176, 52
GAP_X, GAP_Y = 44, 18
MARGIN = 10
LONGEST_NAME, LONGEST_LINE = 18, 24
# A bar that is shorter cannot be seen.
THINNEST = 4.0
_UNKNOWN = "idle"


@dataclass(frozen=True, slots=True)
class Node:
    """What is shown of a step: its state (None: nothing is known yet), its second line, where it leads, what else is heard of it."""

    state: str | None = None
    detail: str = ""
    href: str | None = None
    more: str = ""
    is_critical: bool = False


class Span(NamedTuple):
    """When a step was made, began and ended (or now)."""

    made: Instant
    began: Instant | None
    ended: Instant
    state: str
    is_critical: bool = False


def graph(steps: Sequence[Step], nodes: Mapping[str, Node], title: str) -> Markup:
    """The whole graph. The text is readable at its own size: a picture that is wider than the page is scrolled, not shrunk."""
    places = layout(steps)
    width = max((place.column for place in places.values()), default=0) * (WIDTH + GAP_X) + WIDTH + 2 * MARGIN
    height = max((place.row for place in places.values()), default=0) * (HEIGHT + GAP_Y) + HEIGHT + 2 * MARGIN
    edges, boxes = Markup(), Markup()
    for step in steps:
        own = nodes.get(step.name, Node())
        for parent in step.parents:
            is_critical = own.is_critical and nodes.get(parent, Node()).is_critical
            edges += _edge(places[parent], places[step.name], step.rule, places.values(), is_critical=is_critical)
        if step.compensates is not None:
            edges += _undo(places[step.compensates], places[step.name])
        boxes += _box(step, places[step.name], own)
    # Links are heard one by one; a picture without any is heard as one.
    role = "group" if any(node.href for node in nodes.values()) else "img"
    return Markup(
        '<svg class="flow" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" role="{2}" aria-label="{3}" data-graph="">'
        "{4}{5}{6}</svg>"
    ).format(width, height, role, title, _ARROWS, edges, boxes)


def timeline(spans: Mapping[str, Span], start: Instant, end: Instant) -> dict[str, Markup]:
    """A line for each step that has begun to exist: how long it waited and how long it ran, on one scale."""
    whole = max(end - start, 1)

    def scaled(at: Instant) -> float:
        return (min(max(at, start), end) - start) / whole * 1000

    lines: dict[str, Markup] = {}
    for name, span in spans.items():
        body = Markup()
        until = span.ended if span.began is None else span.began
        if until > span.made:
            body += _bar("waited", scaled(span.made), scaled(until))
        if span.began is not None:
            kind = f"f-{span.state}" + (" critical" if span.is_critical else "")
            body += _bar(kind, scaled(span.began), scaled(span.ended))
        lines[name] = Markup('<svg class="gantt-line" viewBox="0 0 1000 20" preserveAspectRatio="none" aria-hidden="true">{}</svg>').format(
            body
        )
    return lines


def _bar(kind: str, first: float, last: float) -> Markup:
    wide = max(last - first, THINNEST)
    y, tall = (7, 6) if kind == "waited" else (3, 14)
    return Markup('<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"/>').format(kind, min(first, 1000 - wide), y, wide, tall)


_ARROWS = Markup(
    '<defs><marker id="flow-end" markerWidth="7" markerHeight="7" refX="6.5" refY="3.5" orient="auto" markerUnits="userSpaceOnUse">'
    '<path class="flow-end" d="M0 0l7 3.5-7 3.5z"/></marker></defs>'
)


def _corner(place: Place) -> tuple[float, float]:
    return MARGIN + place.column * (WIDTH + GAP_X), MARGIN + place.row * (HEIGHT + GAP_Y)


def _edge(parent: Place, child: Place, rule: Rule, places: Iterable[Place], *, is_critical: bool) -> Markup:
    (x1, y1), (x2, y2) = _corner(parent), _corner(child)
    x1, y1, y2 = x1 + WIDTH, y1 + HEIGHT / 2, y2 + HEIGHT / 2
    bend = GAP_X * 0.6
    kinds = ["flow-edge", *(["critical"] if is_critical else []), *(["other"] if rule is not Rule.ALL_SUCCEEDED else [])]
    path = f"M{x1:.0f} {y1:.1f}"
    if child.column - parent.column > 1:
        # Between columns that it passes it runs level, where no node stands in its way.
        y = _lane(y1, y2, [_corner(place)[1] for place in places if parent.column < place.column < child.column])
        path += f"C{x1 + bend:.0f} {y1:.1f} {x1 + GAP_X - bend:.0f} {y:.1f} {x1 + GAP_X:.0f} {y:.1f}H{x2 - GAP_X:.0f}"
        x1, y1 = x2 - GAP_X, y
    path += f"C{x1 + bend:.0f} {y1:.1f} {x2 - bend:.0f} {y2:.1f} {x2:.0f} {y2:.1f}"
    return Markup('<path class="{}" marker-end="url(#flow-end)" d="{}"/>').format(" ".join(kinds), path)


def _lane(y1: float, y2: float, tops: Sequence[float]) -> float:
    """The height that is free of these nodes and nearest to both ends."""
    near = GAP_Y / 2
    tried = [y1, y2, *(edge for top in tops for edge in (top - near, top + HEIGHT + near))]
    free = [y for y in tried if all(not top - near / 2 < y < top + HEIGHT + near / 2 for top in tops) and y > 0]
    return min(free, key=lambda y: abs(y - y1) + abs(y - y2), default=y1)


def _undo(done: Place, undoing: Place) -> Markup:
    (x1, y1), (x2, y2) = _corner(done), _corner(undoing)
    return Markup('<path class="flow-edge undo" marker-end="url(#flow-end)" d="M{:.0f} {:.1f}L{:.0f} {:.1f}"/>').format(
        x1 + WIDTH / 2, y1 + HEIGHT, x2 + WIDTH / 2, y2
    )


def _box(step: Step, place: Place, node: Node) -> Markup:
    x, y = _corner(place)
    state = (node.state or _UNKNOWN).lower()
    shape = sign(state)
    shown = Markup('<svg x="{:.0f}" y="{:.1f}" width="16" height="16" viewBox="0 0 16 16"><path fill-rule="evenodd" d="{}"/></svg>').format(
        x + 11, y + 9, shape
    )
    text = x + (33 if shape else 13)
    name, detail = _short(step.name, LONGEST_NAME), _short(node.detail, LONGEST_LINE)
    body = Markup(
        '<rect x="{:.0f}" y="{:.1f}" width="{}" height="{}" rx="8"/>{}'
        '<text class="flow-name" x="{:.0f}" y="{:.1f}">{} </text><text x="{:.0f}" y="{:.1f}">{}</text>'
    ).format(x, y, WIDTH, HEIGHT, shown if shape else "", text, y + 21.5, name, text, y + 39, detail)
    kind = f"flow-node at-{state}" + (" critical" if node.is_critical else "")
    if node.href is None:
        return Markup('<g class="{}">{}<title>{}: {}</title></g>').format(kind, body, step.name, node.detail)
    # Who speaks to the page says what is seen: the name of the link begins with it.
    label = f"{name} {detail}" + (f", {node.more}" if node.more else "")
    return Markup('<a id="node-{}" class="{}" href="{}" aria-label="{}" data-node="{}" data-after="{}" data-column="{}">{}</a>').format(
        step.name, kind, node.href, label, step.name, " ".join(step.parents), place.column, body
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
