"""A report by question: one row for each system in each setting, with medians, spreads and the ratio to Duly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.figures import Spread, ratios
from benchmarks.peers.questions import Question
from benchmarks.peers.systems import SYSTEMS
from benchmarks.report import Report, Result

TITLES = {system.name: system.title for system in SYSTEMS}
STORES = {system.name: system.store for system in SYSTEMS}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One system in one setting."""

    system: str
    setting: str
    is_default: bool
    figures: dict[str, Spread]
    ratio: Spread | None
    """How many times better Duly is; None for Duly itself, or when one of them was not measured."""
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The system's name as people write it."""
        return TITLES.get(self.system, self.system)

    @property
    def is_ours(self) -> bool:
        """Whether it is Duly."""
        return self.system.startswith("duly")


def rows_of(report: Report, question: Question) -> list[Row]:
    """Best first."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in report.results:
        if result.question == question.name:
            groups.setdefault((result.system, result.setting), []).append(result)
    rows = [_row(question, group, _ours(groups, group[0].system)) for group in groups.values()]

    def rank(row: Row) -> float:
        median = row.figures[question.compared].median if question.compared in row.figures else 0.0
        return -median if question.more_is_better else median

    return sorted(rows, key=rank)


def _row(question: Question, group: list[Result], ours: list[Result]) -> Row:
    figures = {name: Spread.of(found) for name in question.figures if (found := _values(group, name))}
    ratio = None
    if ours and not group[0].system.startswith("duly"):
        ratio = ratios(_values(ours, question.compared), _values(group, question.compared), more_is_better=question.more_is_better)
    first = group[0]
    return Row(
        system=first.system, setting=first.setting, is_default=first.is_default, figures=figures, ratio=ratio, notes=tuple(_notes(group))
    )


def _ours(groups: dict[tuple[str, str], list[Result]], system: str) -> list[Result]:
    """Duly's own results on the same kind of store, in its best setting: SQLite is compared with SQLite, all else with PostgreSQL."""
    name = "duly-sqlite" if STORES.get(system) == "sqlite" else "duly"
    found = [group for (owner, _), group in groups.items() if owner == name and not group[0].is_default]
    return found[0] if found else []


def _values(group: Iterable[Result], name: str) -> list[float]:
    return [value for result in group if (value := result.figures.get(name)) is not None]


def _notes(group: list[Result]) -> Iterable[str]:
    figures = [result.figures for result in group]
    if any(found.get("complete") == 0.0 for found in figures):
        shares = ", ".join(f"{found['starts']:,.0f} of {found['jobs']:,.0f}" for found in figures)
        yield f"not all in time: {shares}"
    for name, words in (("missed", "never started"), ("early", "started early")):
        if worst := max((found.get(name) or 0.0 for found in figures), default=0.0):
            yield f"{worst:,.0f} of {figures[0]['jobs']:,.0f} {words}"
