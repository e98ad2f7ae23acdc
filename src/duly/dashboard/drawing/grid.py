"""A job's runs side by side: a bar for each, as tall as it took, over a column of its steps or attempts.

The picture keeps its size and is scrolled along; the names of its rows stay where they are. Cells of one kind that follow one another in a
column are one rectangle: lines in the colour of the ground part them again. So a hundred rows of five hundred runs are a small picture.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from duly.dashboard.words import between, counted, span
from duly.domain import grid as grids
from duly.domain.grid import BAD

# How tall the bars are at most, what marks need above them, and where the cells begin.
TALL, HEAD, GAP = 96, 22, 8
LATE_MS = 5_000
# So many runs make a percentile worth a mark.
ENOUGH = 20
MOST_NAMED = 3
FEW_ROWS = 30
# The letters of cells by how they look; what is not here leaves its cell empty.
LOOKS = {
    "S": "f-succeeded", "D": "f-dead", "F": "f-failed", "T": "f-failed", "L": "f-failed", "C": "f-cancelled", "K": "f-skipped",
    "G": "f-skipped", "R": "f-running", "B": "f-blocked", "P": "f-pending", "W": "f-scheduled",
}  # fmt: skip
# A cell of so many pixels has room for a slash.
WIDE = 10
# Lower than the others, so that they are told apart without their colour.
LOW = frozenset("CKGPW")
_STRETCH, _BAD = re.compile(r"(.)\1*"), re.compile(f"[{''.join(sorted(BAD))}]")


@dataclass(frozen=True, slots=True)
class Picture:
    """The grid as it is shown; `size` names the height of its rows."""

    drawing: Markup
    rows: list[tuple[str, grids.Counted]]
    size: str
    deploys: int


class Bar(NamedTuple):
    """Where a run stands in the picture, and how tall its bar is."""

    x: int
    wide: int
    height: int
    tall: float
    marks: str


def pitch(runs: int) -> int:
    """How wide a run is with the gap beside it."""
    return 15 if runs <= 60 else 10 if runs <= 150 else 6


def drawn(grid: dict[str, Any], root: str, now_iso: str) -> Picture:
    """The grid with the oldest run on the left, as links below `root`."""
    runs: Sequence[dict[str, Any]] = grid["runs"][::-1]
    rows, wide = grid["rows"], pitch(len(runs))
    size, tall = ("large", 18) if len(rows) <= FEW_ROWS else ("small", 14)
    top = HEAD + TALL + GAP
    width, height = wide * len(runs), top + tall * len(rows)
    took = [_took(run, now_iso) for run in runs]
    longest = max([*took, 1.0])
    usual = grid["tookP95Ms"] if len(runs) >= ENOUGH else None
    columns = []
    for nth, (run, spent) in enumerate(zip(runs, took, strict=True)):
        x = nth * wide
        bar = Bar(x, wide, height, _tall(spent, longest), _marks(run, spent, longest, usual, x + (wide - 1) / 2))
        columns.append(_column(run, bar, root, _said(run, spent, grid), is_last=nth == len(runs) - 1))
    letters = [run["cells"] for run in runs]
    deploys = [nth for nth in range(1, len(runs)) if runs[nth]["version"] != runs[nth - 1]["version"]]
    parting = "".join(f"M0 {top + tall * row}H{width}" for row in range(len(rows) + 1))
    parts = [
        _band(grid, longest, width),
        *columns,
        f'<g class="cells">{_cells(letters, top, tall, wide)}<path class="parting" d="{parting}"/></g>',
        *(_deploy(nth * wide, height, runs[nth]["version"]) for nth in deploys),
    ]
    label = f"{counted(len(runs), 'run')} side by side, oldest first, with {counted(len(rows), grid['kind'][:-1])}"
    svg = (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="group" aria-label="{escape(label)}" '
        f'data-top="{top}" data-tall="{tall}" data-wide="{wide}">{"".join(parts)}'
        f'<rect class="cursor" width="{wide - 1}" height="{tall}" hidden="hidden"/></svg>'
    )
    figures = list(zip(rows, grids.counted(letters), strict=True))
    return Picture(Markup(svg), figures, size, len(deploys))  # noqa: S704 every name in it is escaped


def _cells(columns: Sequence[str], top: int, tall: int, wide: int) -> str:
    """Paths, one for each look; those that follow one another in a column are one rectangle."""
    paths: dict[str, list[str]] = {look: [] for look in sorted(set(LOOKS.values()))}
    slashes: list[str] = []
    for nth, letters in enumerate(columns):
        x = nth * wide
        for found in _STRETCH.finditer(letters):
            letter, rows = found[1], range(found.start(), found.end())
            look = LOOKS.get(letter)
            if look is None:
                continue
            if letter in LOW:
                paths[look] += [f"M{x} {top + tall * row + tall // 2}h{wide - 1}v{tall // 2}h{1 - wide}z" for row in rows]
            else:
                paths[look].append(f"M{x} {top + tall * rows[0]}h{wide - 1}v{tall * len(rows)}h{1 - wide}z")
            if letter in BAD and wide >= WIDE:
                slashes += [f"M{x + 2} {top + tall * (row + 1) - 4}l{wide - 5} {7 - tall}" for row in rows]
    drawn = [f'<path class="{look}" d="{"".join(some)}"/>' for look, some in paths.items() if some]
    return "".join([*drawn, f'<path class="slash" d="{"".join(slashes)}"/>' if slashes else ""])


def _took(run: dict[str, Any], now_iso: str) -> float:
    return float(run["tookMs"] if run["tookMs"] is not None else between(run["startedAt"], run["finishedAt"] or now_iso) or 0.0)


def _tall(took: float, longest: float) -> float:
    return 4 + (TALL - 4) * min(took / longest, 1.0)


def _band(grid: dict[str, Any], longest: float, width: int) -> str:
    """Where half and nearly all of the runs end."""
    low, high = grid["tookP50Ms"], grid["tookP95Ms"]
    if low is None or high is None:
        return ""
    foot = HEAD + TALL
    upper, lower = foot - _tall(high, longest), foot - _tall(low, longest)
    return (
        f'<rect class="usual" y="{upper:.1f}" width="{width}" height="{max(lower - upper, 1):.1f}"/>'
        f'<path class="median" d="M0 {lower:.1f}H{width}"/>'
    )


def _marks(run: dict[str, Any], took: float, longest: float, usual: float | None, middle: float) -> str:
    marks = ""
    if (run["latenessMs"] or 0) > LATE_MS:
        marks += f'<path class="f-blocked" d="M{middle:g} 0l4 4-4 4-4-4z"/>'
    if usual is not None and took > usual:
        y = HEAD + TALL - _tall(took, longest) - 9
        marks += f'<path class="f-dead" d="M{middle:g} {max(y, 9):.1f}l4 7h-8z"/>'
    return marks


def _column(run: dict[str, Any], bar: Bar, root: str, said: str, *, is_last: bool) -> str:
    """A run as one thing to click, from its marks to its last cell. The newest is on the way of Tab, the others are walked to."""
    id, look = run["executionId"], run["state"].lower()
    return (
        f'<a href="{escape(root)}/executions/{id}" data-run="{id}" data-cells="{run["cells"]}" tabindex="{is_last - 1}" '
        f'aria-label="{escape(said)}">'
        f'<rect class="hit" x="{bar.x}" width="{bar.wide}" height="{bar.height}"/>'
        f'<rect class="f-{look}" x="{bar.x}" y="{HEAD + TALL - bar.tall:.1f}" width="{bar.wide - 1}" height="{bar.tall:.1f}" rx="1.5"/>'
        f"{bar.marks}</a>"
    )


def _deploy(x: int, height: int, version: int) -> str:
    return (
        f'<g class="deploy"><title>version {version} from here on</title><path class="at" d="M{x - 0.5:g} 8V{height}"/>'
        f'<path d="M{x - 0.5:g} 1l4 7h-8z"/></g>'
    )


def _said(run: dict[str, Any], took: float, grid: dict[str, Any]) -> str:
    """A run in words: how it ended, when it was due, how long it took, and what went wrong in it."""
    words = [run["state"].lower(), f"due {run['scheduledAt']}", f"took {span(took)}"]
    if (run["latenessMs"] or 0) > LATE_MS:
        words.append(f"{span(run['latenessMs'])} late")
    letters = run["cells"]
    bad = [f"{grid['rows'][found.start()]} {grid['letters'][found[0]]}" for found in islice(_BAD.finditer(letters), MOST_NAMED)]
    more = sum(map(letters.count, BAD)) - len(bad)
    return ", ".join([*words, *bad, *([f"and {more} more"] if more else [])])
