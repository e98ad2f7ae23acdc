"""A run of Duly's own benchmarks as Markdown and as plots: medians, spreads, ratios, and whether the targets hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Spread, ratios
from benchmarks.plots import Line, drawn
from benchmarks.question import Bound, Question
from benchmarks.report import Report
from benchmarks.table import ratio_text, spread_text, target_lines, where_lines
from benchmarks.targets import Target, judged

TITLES = {"postgres": "PostgreSQL", "sqlite": "SQLite"}
TONES = {"postgres": "c1", "sqlite": "c2"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One case on one store."""

    store: str
    case: str
    figures: dict[str, Spread]
    ratio: Spread | None
    """How many times the base of the question, turn by turn; more is better. None for the base itself."""


def rows_of(report: Report, question: Question) -> list[Row]:
    """In the order in which they were asked."""
    settings = dict.fromkeys((result.system, result.setting) for result in report.results if result.question == question.name)
    return [
        Row(
            store=store,
            case=case,
            figures={name: Spread.of(found) for name in question.figures if (found := _values(report, question.name, case, store, name))},
            ratio=_ratio(report, question, case, store),
        )
        for store, case in sorted(settings, key=lambda setting: setting[0] != "postgres")
    ]


def markdown(report: Report, questions: Mapping[str, Question]) -> str:
    """The whole report."""
    return "\n".join(_lines(report, questions)) + "\n"


def targets(report: Report, questions: Mapping[str, Question]) -> list[Target]:
    """Those that this run can judge, by its medians."""
    return [target for question in questions.values() for bound in question.bounds if (target := _target(report, question, bound))]


def write_plots(report: Report, questions: Mapping[str, Question], directory: Path) -> list[str]:
    """One file for each question that was answered; their names."""
    names: list[str] = []
    for question in questions.values():
        lines = [
            Line(title=TITLES[row.store], setting=row.case, figures=row.figures, note=_note(row), tone=TONES[row.store])
            for row in rows_of(report, question)
        ]
        if picture := drawn(question.name, question.title, question.about, lines, question.compared, delays=question.has_delays):
            names.append(f"{question.name}.svg")
            (directory / names[-1]).write_text(picture.file())
    return names


def _lines(report: Report, questions: Mapping[str, Question]) -> Iterator[str]:
    yield "# Duly, measured"
    yield ""
    yield from where_lines(report)
    yield f"Duly {report.versions['duly']}."
    if report.scale.is_short:
        yield "**A short run: what takes long was asked once, and drains last a second or two.**"
    turns = "one turn" if report.repeats == 1 else f"up to {report.repeats} turns"
    yield f"Medians (least–most) of {turns}, in which one case came after the other. Ratios are made turn by turn."
    for question in questions.values():
        if rows := rows_of(report, question):
            yield from _question(question, rows)
    yield from target_lines(targets(report, questions))
    promised = [question for question in questions.values() if question.peers and rows_of(report, question)]
    if promised:
        yield ""
        yield "What was promised in comparison with peers can only be judged beside them, by `make bench-peers`:"
        yield from (f"{question.title} {question.peers}." for question in promised)
    if report.not_measured:
        yield ""
        yield "## Not measured"
        yield ""
        for missing in report.not_measured:
            yield f"* **not measured: {missing.question}, {TITLES[missing.system]} ({missing.setting}): {' '.join(missing.why.split())}**"


def _question(question: Question, rows: list[Row]) -> Iterator[str]:
    shown = {name: head for name, head in question.figures.items() if any(name in row.figures for row in rows)}
    base = f" of {question.base.replace('/', ', ')}" if question.base else ""
    yield ""
    yield f"## {question.title}"
    yield ""
    yield f"{question.about[0].upper()}{question.about[1:]}."
    yield ""
    yield f"| store | case | {' | '.join(shown.values())} |{f' times that{base} |' if base else ''}"
    yield f"|---|---|{'---:|' * (len(shown) + bool(base))}"
    for row in rows:
        cells = [spread_text(row.figures.get(name)) for name in shown] + ([ratio_text(row.ratio)] if base else [])
        yield f"| {TITLES[row.store]} | {row.case} | {' | '.join(cells)} |"


def _note(row: Row) -> str:
    return "" if row.ratio is None else f" ({ratio_text(row.ratio)})"


def _ratio(report: Report, question: Question, case: str, store: str) -> Spread | None:
    base_question, base = question.base_key
    if not question.base or (base_question, base) == (question.name, case):
        return None
    ours = _values(report, question.name, case, store, question.compared)
    theirs = _values(report, base_question, base, store, question.compared)
    return ratios(ours, theirs, more_is_better=question.more_is_better)


def _target(report: Report, question: Question, bound: Bound) -> Target | None:
    found = _values(report, question.name, bound.case, bound.store, bound.figure)
    what = f"{question.title}, {bound.case}, {TITLES[bound.store]}"
    if bound.times_as_much_as:
        base = _values(report, question.name, bound.times_as_much_as, bound.store, bound.figure)
        ratio = ratios(found, base, more_is_better=bound.more_is_better)
        what = f"{what}, of {bound.times_as_much_as}"
        return None if ratio is None else judged(what, ratio.median, bound.bound, bound.unit, more_is_better=True)
    return judged(what, Spread.of(found).median, bound.bound, bound.unit, more_is_better=bound.more_is_better) if found else None


def _values(report: Report, question: str, case: str, store: str, figure: str) -> list[float]:
    return [
        value
        for result in report.results
        if (result.question, result.setting, result.system) == (question, case, store) and (value := result.figures.get(figure)) is not None
    ]
