"""What was promised, and whether this run shows it: ratios to single peers, and figures of Duly's own."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.figures import Spread
from benchmarks.peers.questions import QUESTIONS
from benchmarks.peers.rows import Row, rows_of
from benchmarks.report import Report
from benchmarks.targets import BULK_ENQUEUE, PICK_UP_MS, SAME_SECOND_MS, SPREAD_MS, SQLITE_DRAIN, Target, judged

HALF = 0.5
OTHER_WORK = ("mixed", "tenants", "tenants-queues", "failures", "large")

RATIOS = (
    ("drain", "graphile", 2.0),
    ("drain", "pgqueuer", 5.0),
    ("drain", "celery", 60.0),
    ("flow", "graphile", 2.0),
    ("pinned", "graphile", 2.0),
)
"""The question, the peer in its best setting, and how many times faster Duly is to be."""

FIGURES = (
    *(("pickup", "duly", figure, bound) for figure, bound in PICK_UP_MS.items()),
    *(("spread", "duly", figure, bound) for figure, bound in SPREAD_MS.items()),
    *(("same-second", "duly", figure, bound) for figure, bound in SAME_SECOND_MS.items()),
    ("enqueue-bulk", "duly", "per_second", BULK_ENQUEUE),
    ("drain", "duly-sqlite", "per_second", SQLITE_DRAIN),
)
"""The question, the store, and what Duly is to reach there: at most so many milliseconds, at least so many a second."""


@dataclass(frozen=True, kw_only=True)
class OtherWork:
    """One kind of work, and which share of the no-op ratio is left of it."""

    title: str
    ratio: Spread
    share: float

    @property
    def holds(self) -> bool:
        """Whether enough of it is left."""
        return self.share >= HALF


def targets(report: Report) -> list[Target]:
    """Those that this run can judge, by its medians."""
    found: list[Target] = []
    for name, peer, factor in RATIOS:
        row = _best(report, name, peer)
        if row is not None and row.ratio is not None:
            what = f"{QUESTIONS[name].title}, against {row.title}"
            found.append(Target(what=what, wanted=f"≥ {factor:g}×", found=f"{row.ratio.median:.2f}×", holds=row.ratio.median >= factor))
    for name, system, figure, bound in FIGURES:
        row, question = _best(report, name, system), QUESTIONS[name]
        if row is not None and figure in row.figures:
            unit = "/s" if question.more_is_better else f" ms {figure}"
            what = f"{question.title}, {row.title}"
            found.append(judged(what, row.figures[figure].median, bound, unit, more_is_better=question.more_is_better))
    return found


def other_work(report: Report) -> list[OtherWork]:
    """The ratio to Graphile Worker at every other kind of work, beside the one at no-op jobs."""
    noop = _best(report, "drain", "graphile")
    if noop is None or noop.ratio is None:
        return []
    found: list[OtherWork] = []
    for name in OTHER_WORK:
        row = _best(report, name, "graphile")
        if row is not None and row.ratio is not None:
            found.append(OtherWork(title=QUESTIONS[name].title, ratio=row.ratio, share=row.ratio.median / noop.ratio.median))
    return found


def _best(report: Report, question: str, system: str) -> Row | None:
    rows = [row for row in rows_of(report, QUESTIONS[question]) if row.system == system and not row.is_default]
    return rows[0] if rows else None
