"""Plots of figures: bars for what is counted, stretches from p50 to p99 for delays."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.figures import Spread, number
from duly.verify.pages.quantities import MILLISECOND
from duly.verify.pages.svg import Figure, Plot, Scale, decade_marks, number_marks

_WIDTH, _LEFT, _RIGHT = 900.0, 420.0, 150.0
_LINE, _TOP, _BOTTOM = 26.0, 14.0, 40.0
_BAR = 12.0
_LONGEST = 64


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a plot: who, in which setting, and what was found. Delays need `p50` and `p99`, whatever is compared."""

    title: str
    setting: str
    figures: dict[str, Spread]
    note: str = ""
    tone: str = "c1"


def drawn(name: str, title: str, about: str, lines: Sequence[Line], figure: str, *, delays: bool) -> Figure | None:
    """A plot of one figure of each line, or of their delays; None when nobody has it."""
    found = [line for line in lines if figure in line.figures]
    if not found:
        return None
    height = _TOP + _LINE * len(found) + _BOTTOM
    picture = Figure(name, title, f"{title}: {about}.", _WIDTH, height)
    picture.put(_stretches(found, about, height) if delays else _bars(found, figure, about, height))
    return picture


def _bars(lines: Sequence[Line], figure: str, about: str, height: float) -> Plot:
    """From zero, so that lengths compare; a hairline shows the least and the most."""
    most = max(line.figures[figure].most for line in lines)
    plot = _empty(Scale(low=0, high=most or 1.0, start=_LEFT, end=_WIDTH - _RIGHT), height)
    plot.x_axis(number_marks(0, most or 1.0), title=about)
    for middle, line in _placed(lines):
        spread = line.figures[figure]
        plot.bars([(0.0, spread.median)], middle - _BAR / 2, middle + _BAR / 2, tone=line.tone)
        if spread.runs > 1:
            plot.bars([(spread.least, spread.most)], middle - 0.5, middle + 0.5, tone="ink")
        plot.text(plot.x(spread.most) + 6, middle + 4, f"{number(spread.median)}{line.note}", kind="name")
        _label(plot, middle, line)
    return plot


def _stretches(lines: Sequence[Line], about: str, height: float) -> Plot:
    """From p50 to p99, every factor of ten the same length. What is early or under 0.1 ms stands at the left end."""
    most = max(line.figures["p99"].median for line in lines) * MILLISECOND
    low, high = MILLISECOND / 10, 10.0 ** math.ceil(math.log10(max(most, MILLISECOND)))
    plot = _empty(Scale(low=low, high=high, start=_LEFT, end=_WIDTH - _RIGHT, log=True), height)
    plot.x_axis(decade_marks(low, high), title=f"p50 to p99, {about}")
    for middle, line in _placed(lines):
        p50, p99 = (line.figures[name].median for name in ("p50", "p99"))
        plot.bars([(max(low, p50 * MILLISECOND), max(low, p99 * MILLISECOND))], middle - 2, middle + 2, tone=line.tone)
        plot.marks([max(low, p50 * MILLISECOND)], middle, 4, shape="round", tone=line.tone)
        plot.text(plot.x(max(low, p99 * MILLISECOND)) + 8, middle + 4, f"{number(p50)} / {number(p99)} ms", kind="name")
        _label(plot, middle, line)
    return plot


def _empty(x: Scale, height: float) -> Plot:
    return Plot(x=x, y=Scale(low=0, high=1, start=height - _BOTTOM, end=_TOP))


def _placed(lines: Sequence[Line]) -> Iterator[tuple[float, Line]]:
    for nth, line in enumerate(lines):
        yield _TOP + _LINE * (nth + 0.5), line


def _label(plot: Plot, middle: float, line: Line) -> None:
    setting = line.setting if len(line.setting) <= _LONGEST else f"{line.setting[: _LONGEST - 1]}…"
    plot.text(_LEFT - 8, middle - 1, line.title, anchor="end", kind="name", title=line.setting)
    plot.text(_LEFT - 8, middle + 10, setting, anchor="end")
