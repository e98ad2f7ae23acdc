"""A report as plots: bars for what is counted by the second, stretches from p50 to p99 for delays."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks.peers.questions import QUESTIONS, Question
from benchmarks.peers.rows import Row, rows_of
from benchmarks.peers.run import Report
from benchmarks.peers.table import number
from duly.verify.pages.quantities import MILLISECOND
from duly.verify.pages.svg import Figure, Plot, Scale, decade_marks, number_marks

_WIDTH, _LEFT, _RIGHT = 900.0, 420.0, 150.0
_LINE, _TOP, _BOTTOM = 26.0, 14.0, 40.0
_BAR = 12.0
_LONGEST = 64


def write_plots(report: Report, directory: Path) -> list[str]:
    """One file for each question that was answered; their names."""
    names: list[str] = []
    for question in QUESTIONS.values():
        if figure := plot(report, question):
            names.append(f"{question.name}.svg")
            (directory / names[-1]).write_text(figure.file())
    return names


def plot(report: Report, question: Question) -> Figure | None:
    """None when there is nothing to draw."""
    rows = [row for row in rows_of(report, question) if question.compared in row.figures]
    if not rows:
        return None
    height = _TOP + _LINE * len(rows) + _BOTTOM
    figure = Figure(question.name, question.title, f"{question.title}: {question.about}.", _WIDTH, height)
    drawn = _bars(rows, question, height) if question.more_is_better else _stretches(rows, question, height)
    figure.put(drawn)
    return figure


def _bars(rows: list[Row], question: Question, height: float) -> Plot:
    """From zero, so that lengths compare; a hairline shows the least and the most."""
    most = max(row.figures[question.compared].most for row in rows)
    plot = _empty(Scale(low=0, high=most or 1.0, start=_LEFT, end=_WIDTH - _RIGHT), height)
    plot.x_axis(number_marks(0, most or 1.0), title=question.about)
    for middle, row in _placed(rows):
        spread = row.figures[question.compared]
        tone = _tone(row)
        plot.bars([(0.0, spread.median)], middle - _BAR / 2, middle + _BAR / 2, tone=tone)
        if spread.runs > 1:
            plot.bars([(spread.least, spread.most)], middle - 0.5, middle + 0.5, tone="ink")
        ratio = "" if row.ratio is None else f" (Duly {number(row.ratio.median)}×)"
        plot.text(plot.x(spread.most) + 6, middle + 4, f"{number(spread.median)}{ratio}", kind="name")
        _label(plot, middle, row)
    return plot


def _stretches(rows: list[Row], question: Question, height: float) -> Plot:
    """From p50 to p99, every factor of ten the same length. What is early or under 0.1 ms stands at the left end."""
    most = max(row.figures["p99"].median for row in rows) * MILLISECOND
    low, high = MILLISECOND / 10, 10.0 ** math.ceil(math.log10(max(most, MILLISECOND)))
    plot = _empty(Scale(low=low, high=high, start=_LEFT, end=_WIDTH - _RIGHT, log=True), height)
    plot.x_axis(decade_marks(low, high), title=f"p50 to p99, {question.about}")
    for middle, row in _placed(rows):
        p50, p99 = (row.figures[name].median for name in ("p50", "p99"))
        tone = _tone(row)
        plot.bars([(max(low, p50 * MILLISECOND), max(low, p99 * MILLISECOND))], middle - 2, middle + 2, tone=tone)
        plot.marks([max(low, p50 * MILLISECOND)], middle, 4, shape="round", tone=tone)
        plot.text(plot.x(max(low, p99 * MILLISECOND)) + 8, middle + 4, f"{number(p50)} / {number(p99)} ms", kind="name")
        _label(plot, middle, row)
    return plot


def _empty(x: Scale, height: float) -> Plot:
    return Plot(x=x, y=Scale(low=0, high=1, start=height - _BOTTOM, end=_TOP))


def _placed(rows: list[Row]) -> list[tuple[float, Row]]:
    return [(_TOP + _LINE * (nth + 0.5), row) for nth, row in enumerate(rows)]


def _tone(row: Row) -> str:
    return "c1" if row.is_ours else "quiet" if row.is_default else "c2"


def _label(plot: Plot, middle: float, row: Row) -> None:
    setting = row.setting if len(row.setting) <= _LONGEST else f"{row.setting[: _LONGEST - 1]}…"
    plot.text(_LEFT - 8, middle - 1, row.title, anchor="end", kind="name", title=row.setting)
    plot.text(_LEFT - 8, middle + 10, setting, anchor="end")
