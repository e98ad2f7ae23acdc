"""A report as plots: bars for what is counted by the second, stretches from p50 to p99 for delays."""

from __future__ import annotations

from pathlib import Path

from benchmarks.figures import number
from benchmarks.peers.questions import QUESTIONS, Question
from benchmarks.peers.rows import Row, rows_of
from benchmarks.plots import Line, drawn
from benchmarks.report import Report
from duly.verify.pages.svg import Figure


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
    lines = [_line(row) for row in rows_of(report, question)]
    return drawn(question.name, question.title, question.about, lines, question.compared, delays=not question.more_is_better)


def _line(row: Row) -> Line:
    note = "" if row.ratio is None else f" (Duly {number(row.ratio.median)}×)"
    tone = "c1" if row.is_ours else "quiet" if row.is_default else "c2"
    return Line(title=row.title, setting=row.setting, figures=row.figures, note=note, tone=tone)
