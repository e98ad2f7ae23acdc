"""A report as Markdown: a table for each question, the other work against Graphile Worker, and what was not measured."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.peers.questions import QUESTIONS, Question
from benchmarks.peers.rows import TITLES, Row, rows_of
from benchmarks.peers.targets import other_work, targets
from benchmarks.report import Report
from benchmarks.table import ratio_text, spread_text, target_lines, where_lines, yes

HEADS = {
    "per_second": "a second",
    "until_settled": "until settled",
    "worker_cpu": "worker CPU µs/job",
    "server_cpu": "server CPU µs/job",
    "p50": "p50 ms",
    "p99": "p99 ms",
}


def markdown(report: Report) -> str:
    """The whole report."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield "# Duly and its peers, in one run"
    yield ""
    yield from where_lines(report)
    yield f"Versions: {', '.join(f'{TITLES.get(name, name)} {version}' for name, version in report.versions.items() if version)}."
    if report.scale.is_short:
        yield "**A short run: it shows that everything works; its figures are rough.**"
    turns = "one turn" if report.repeats == 1 else f"{report.repeats} turns"
    yield f"Medians (least–most) of {turns}, in which one system came after the other."
    yield "`Duly is` says how many times better Duly is than the row, turn by turn."
    for question in QUESTIONS.values():
        if rows := rows_of(report, question):
            yield from _question(question, rows)
    yield from _other_work(report)
    yield from target_lines(targets(report))
    yield from _not_measured(report)


def _question(question: Question, rows: list[Row]) -> Iterator[str]:
    heads = [HEADS[name] for name in question.figures]
    yield ""
    yield f"## {question.title}"
    yield ""
    yield f"{question.about[0].upper()}{question.about[1:]}."
    yield ""
    yield f"| system | setting | {' | '.join(heads)} | Duly is | notes |"
    yield f"|---|---|{'---:|' * len(heads)}---:|---|"
    for row in rows:
        name = f"**{row.title}**" if row.is_ours else row.title
        cells = [spread_text(row.figures.get(figure)) for figure in question.figures]
        yield f"| {name} | {row.setting} | {' | '.join(cells)} | {ratio_text(row.ratio)} | {'; '.join(row.notes)} |"


def _other_work(report: Report) -> Iterator[str]:
    found = other_work(report)
    if not found:
        return
    yield ""
    yield "## Other work, against Graphile Worker's drain of the same"
    yield ""
    yield "None may fall below half of the ratio at no-op jobs."
    yield ""
    yield "| work | Duly ÷ Graphile Worker | of the no-op ratio | holds |"
    yield "|---|---:|---:|---|"
    for row in found:
        yield f"| {row.title} | {ratio_text(row.ratio)} | {row.share:.0%} | {yes(row.holds)} |"


def _not_measured(report: Report) -> Iterator[str]:
    if not report.not_measured:
        return
    yield ""
    yield "## Not measured"
    yield ""
    for missing in sorted(report.not_measured, key=lambda missing: missing.cannot):
        title, setting = TITLES.get(missing.system, missing.system), f" ({missing.setting})" if missing.setting else ""
        why = missing.why.splitlines()[0] if missing.cannot else " / ".join(line.strip() for line in missing.why.splitlines())
        words = f"{title}{setting}, {missing.question}: {why}"
        yield f"* {words}" if missing.cannot else f"* **not measured: {words}**"
