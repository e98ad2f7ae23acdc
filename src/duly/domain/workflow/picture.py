"""The graph of a workflow and the timeline of a run, as SVG. The same input is always the same text.

The layout is layered: a step stands one column to the right of the last of its parents, and within a column near the middle of its parents
(two sweeps by barycentre, ties in the order of declaration). Edges are curves from right to left side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from duly.domain.instants import SECOND, Instant
from duly.domain.workflow.check import depths
from duly.domain.workflow.step import Rule, Step
from duly.domain.workflow.timeline import Bar

WIDTH, HEIGHT = 168, 46
GAP_X, GAP_Y = 56, 18
MARGIN = 16
LONGEST_NAME = 20

# Colour is never alone: the state stands beside it.
_COLOURS = {
    "SUCCEEDED": "#2f9e44",
    "DEAD": "#e03131",
    "CANCELLED": "#868e96",
    "SKIPPED": "#adb5bd",
    "RUNNING": "#1971c2",
    "PENDING": "#f08c00",
    "SCHEDULED": "#f08c00",
    "BLOCKED": "#9c36b5",
}
_UNKNOWN = "#ced4da"
_STYLE = "font-family:system-ui,sans-serif;font-size:12px"


class Node(NamedTuple):
    """What is shown of a step beside its name: its state, a line below it, and whether it decided how long the run took."""

    state: str | None = None
    detail: str = ""
    is_critical: bool = False


class Place(NamedTuple):
    """Where a step stands."""

    column: int
    row: float


def layout(steps: Sequence[Step]) -> dict[str, Place]:
    """Columns and rows. What undoes a step stands below everything, in the column of that step."""
    depth = depths(steps)
    ranks = {step.name: depth[step.compensates or step.name] - 1 for step in steps}
    forward = [step for step in steps if step.compensates is None]
    columns: dict[int, list[str]] = {}
    for step in forward:
        columns.setdefault(ranks[step.name], []).append(step.name)
    parents = {step.name: step.parents for step in forward}
    children: dict[str, list[str]] = {step.name: [] for step in forward}
    for step in forward:
        for parent in step.parents:
            children[parent].append(step.name)
    for number in sorted(columns)[1:]:
        _sort(columns[number], parents, columns)
    for number in sorted(columns, reverse=True)[1:]:
        _sort(columns[number], children, columns)
    tallest = max((len(names) for names in columns.values()), default=0)
    places: dict[str, Place] = {}
    for number, names in columns.items():
        top = (tallest - len(names)) / 2
        places |= {name: Place(number, top + nth) for nth, name in enumerate(names)}
    below: dict[int, int] = {}
    for step in steps:
        if step.compensates is not None:
            column = ranks[step.name]
            places[step.name] = Place(column, tallest + 0.5 + below.get(column, 0))
            below[column] = below.get(column, 0) + 1
    return places


def _sort(names: list[str], neighbours: Mapping[str, Sequence[str]], columns: Mapping[int, list[str]]) -> None:
    row = {name: nth for found in columns.values() for nth, name in enumerate(found)}
    before = {name: nth for nth, name in enumerate(names)}

    def middle(name: str) -> float:
        rows = [row[other] for other in neighbours[name]]
        return sum(rows) / len(rows) if rows else before[name]

    names.sort(key=lambda name: (middle(name), before[name]))


def draw_graph(steps: Sequence[Step], nodes: Mapping[str, Node] | None = None, title: str = "workflow") -> str:
    """The graph; `nodes` say how a run of it stands."""
    known = nodes or {}
    places = layout(steps)
    width = max((place.column for place in places.values()), default=0) * (WIDTH + GAP_X) + WIDTH + 2 * MARGIN
    height = max((place.row for place in places.values()), default=0) * (HEIGHT + GAP_Y) + HEIGHT + 2 * MARGIN
    parts = [_open(width, height, title), *_arrow()]
    for step in steps:
        for parent in step.parents:
            thick = known.get(parent, Node()).is_critical and known.get(step.name, Node()).is_critical
            parts.append(_edge(places[parent], places[step.name], step.rule, is_critical=thick))
        if step.compensates is not None:
            parts.append(_undo(places[step.compensates], places[step.name]))
    for step in steps:
        parts.append(_box(step, places[step.name], known.get(step.name, Node())))
    return "\n".join([*parts, "</svg>"]) + "\n"


def draw_timeline(bars: Sequence[Bar], nodes: Mapping[str, Node], title: str = "timeline") -> str:
    """When each step ran, one line each, in the order in which they began."""
    shown = sorted(bars, key=lambda bar: (bar.began, bar.name))
    first = min((bar.began for bar in shown), default=0)
    last = max((bar.ended for bar in shown), default=1)
    span, left, room = max(last - first, 1), 170, 560
    parts = [_open(left + room + 90, len(shown) * 26 + 2 * MARGIN, title)]
    for nth, bar in enumerate(shown):
        node = nodes.get(bar.name, Node())
        y = MARGIN + nth * 26
        x = left + (bar.began - first) * room / span
        wide = max((bar.ended - bar.began) * room / span, 2)
        colour = _COLOURS.get(node.state or "", _UNKNOWN)
        frame = ' stroke="#212529" stroke-width="2"' if node.is_critical else ""
        parts += [
            f'<text x="{left - 8}" y="{y + 15}" text-anchor="end" style="{_STYLE}">{escape(_short(bar.name))}</text>',
            f'<rect x="{x:.1f}" y="{y + 4}" width="{wide:.1f}" height="14" rx="3" fill="{colour}"{frame}/>',
            f'<text x="{x + wide + 6:.1f}" y="{y + 15}" style="{_STYLE};fill:#495057">{took(bar.began, bar.ended)}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def took(began: Instant, ended: Instant) -> str:
    """A duration, short."""
    seconds = max(ended - began, 0) / SECOND
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} m {seconds % 60:.0f} s"


def _open(width: float, height: float, title: str) -> str:
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">\n<title>{escape(title)}</title>'


def _arrow() -> list[str]:
    point = '<path d="M0 0 L8 4 L0 8 z" fill="#868e96"/>'
    return [f'<defs><marker id="end" markerWidth="8" markerHeight="8" refX="8" refY="4" orient="auto">{point}</marker></defs>']


def _corner(place: Place) -> tuple[float, float]:
    return MARGIN + place.column * (WIDTH + GAP_X), MARGIN + place.row * (HEIGHT + GAP_Y)


def _edge(parent: Place, child: Place, rule: Rule, *, is_critical: bool) -> str:
    (x1, y1), (x2, y2) = _corner(parent), _corner(child)
    x1, y1, y2 = x1 + WIDTH, y1 + HEIGHT / 2, y2 + HEIGHT / 2
    bend = (x2 - x1) / 2
    dash = "" if rule is Rule.ALL_SUCCEEDED else ' stroke-dasharray="5 3"'
    line = f"M{x1:g} {y1:g} C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}"
    return f'<path d="{line}" fill="none" stroke="#868e96" stroke-width="{3 if is_critical else 1.4}" marker-end="url(#end)"{dash}/>'


def _undo(done: Place, undoing: Place) -> str:
    (x1, y1), (x2, y2) = _corner(done), _corner(undoing)
    line = f"M{x1 + WIDTH / 2:g} {y1 + HEIGHT:g} L{x2 + WIDTH / 2:g} {y2:g}"
    return f'<path d="{line}" fill="none" stroke="#e03131" stroke-width="1" stroke-dasharray="2 3" marker-end="url(#end)"/>'


def _box(step: Step, place: Place, node: Node) -> str:
    x, y = _corner(place)
    colour = _COLOURS.get(node.state or "", _UNKNOWN)
    second = " · ".join(part for part in (node.state.lower() if node.state else _kind(step), node.detail) if part)
    return (
        f'<g><rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff" stroke="{colour}"'
        f' stroke-width="{3 if node.is_critical else 1.6}"/>'
        f'<rect x="{x:g}" y="{y:g}" width="6" height="{HEIGHT}" rx="3" fill="{colour}"/>'
        f'<text x="{x + 16:g}" y="{y + 19:g}" style="{_STYLE};font-weight:600;fill:#212529">{escape(_short(step.name))}</text>'
        f'<text x="{x + 16:g}" y="{y + 36:g}" style="{_STYLE};font-size:11px;fill:#495057">{escape(second)}</text></g>'
    )


def _kind(step: Step) -> str:
    """What a step is, while nothing is known of how it stands."""
    if step.workflow is not None:
        return f"runs {_short(step.workflow)}"
    if step.map is not None:
        return "for each item" if step.max_parallel is None else f"for each item, {step.max_parallel} at a time"
    for name, held in (("approval", step.approval), ("signal", step.signal), ("wait", step.delay)):
        if held is not None:
            return name if step.only_waits else f"after {name}"
    return "undoes" if step.compensates is not None else step.rule.value.replace("_", " ") if len(step.parents) > 1 else "step"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
