"""What a check found: a verdict per invariant, what was counted, and what the pages draw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

Status = Literal["held", "broken", "not judged"]


class Finding(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One violation, said so that it can be looked up."""

    invariant: str
    says: str
    at: int | None = None
    job: str | None = None
    run: str | None = None
    seqs: list[int] = []


class Verdict(msgspec.Struct, kw_only=True):
    """One invariant: whether it held, how many things were looked at, and what broke it. Looked at nothing: not judged, and `why`."""

    invariant: str
    title: str
    status: Status
    judged: int
    findings: list[Finding] = []
    why: str = ""


class Spread(msgspec.Struct, kw_only=True):
    """A few numbers about many, in microseconds. `curve` are points (value, how many are at most that), the last one the whole."""

    count: int = 0
    p50: int = 0
    p99: int = 0
    most: int = 0
    curve: list[tuple[int, int]] = []


def spread_of(values: Iterable[int], points: int = 200) -> Spread:
    """The spread of these values: percentiles by nearest rank, a curve of at most about that many points, denser towards the tail."""
    ordered = sorted(values)
    total = len(ordered)
    if not total:
        return Spread()
    # Half of the ranks evenly, half by the share that is left: the tail is what a curve of delays is read for.
    even = {-(-total * n // (points // 2)) for n in range(1, points // 2 + 1)}
    tail = {total - round(total ** (1 - n / (points // 2))) + 1 for n in range(points // 2 + 1)}
    curve: list[tuple[int, int]] = []
    for rank in sorted(rank for rank in even | tail | {1, total} if 1 <= rank <= total):
        if curve and curve[-1][0] == ordered[rank - 1]:
            curve.pop()
        curve.append((ordered[rank - 1], rank))
    return Spread(
        count=total, p50=ordered[-(-total * 50 // 100) - 1], p99=ordered[-(-total * 99 // 100) - 1], most=ordered[-1], curve=curve
    )


class Lane(msgspec.Struct, kw_only=True):
    """One job over time: when it should have run and when it did. `runs` are (nominal, start, end or None, accepted).

    `optional` are targets that nobody can hold it to: a change or the end of the test came too soon after them.
    """

    job: str
    name: str
    targets: list[int] = []
    optional: list[int] = []
    skipped: list[int] = []
    runs: list[tuple[int, int, int | None, bool]] = []
    missing: list[int] = []
    extra: list[int] = []


class Band(msgspec.Struct, kw_only=True):
    """A fault over time."""

    kind: str
    since: int
    until: int
    nodes: list[str] = []


class Report(msgspec.Struct, kw_only=True):
    """The whole of it.

    `counts` has at least: jobs, targets, optional, fires, runs, attempts, lost, twice, early, staleAccepted, staleRefused, zombies.
    `delays` has `calm` and `faulty`: start minus target. `recovery`: after a fault healed, how long until what it held up had started;
    `recoveries` the same by the kind of the fault that healed last; `recovery_bound` how long it may take.
    `reached` counts the nasty states that the run went through: a run that met none proves nothing about them.
    """

    started_at: int
    ended_at: int
    verdicts: list[Verdict]
    counts: dict[str, int] = {}
    delays: dict[str, Spread] = {}
    recovery: Spread = msgspec.field(default_factory=Spread)
    recoveries: dict[str, Spread] = {}
    recovery_bound: int = 0
    faults: dict[str, int] = {}
    reached: dict[str, int] = {}
    lanes: list[Lane] = []
    bands: list[Band] = []
    about: dict[str, Any] = {}

    @property
    def holds(self) -> bool:
        """Whether nothing was broken."""
        return all(verdict.status != "broken" for verdict in self.verdicts)

    def findings(self) -> list[Finding]:
        """All violations, in the order of the invariants."""
        return [finding for verdict in self.verdicts for finding in verdict.findings]


def encode(report: Report) -> bytes:
    """The report as JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1)
