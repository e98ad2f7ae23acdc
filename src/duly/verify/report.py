"""What a check found: a verdict per invariant, what was counted, and what the pages draw."""

from __future__ import annotations

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
    """One invariant: whether it held, how many things were looked at, and what broke it. Looked at nothing: not judged."""

    invariant: str
    title: str
    status: Status
    judged: int
    findings: list[Finding] = []


class Spread(msgspec.Struct, kw_only=True):
    """A few numbers about many, in microseconds."""

    count: int = 0
    p50: int = 0
    p99: int = 0
    most: int = 0


class Lane(msgspec.Struct, kw_only=True):
    """One job over time: when it should have run and when it did. `runs` are (nominal, start, end or None, accepted)."""

    job: str
    name: str
    targets: list[int] = []
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

    `counts` has at least: jobs, targets, fires, runs, attempts, lost, twice, early, staleAccepted, staleRefused, zombies.
    `delays` has `calm` and `faulty`: start minus target. `recovery`: after a fault healed, how long until what it held up had started.
    `reached` counts the nasty states that the run went through: a run that met none proves nothing about them.
    """

    started_at: int
    ended_at: int
    verdicts: list[Verdict]
    counts: dict[str, int] = {}
    delays: dict[str, Spread] = {}
    recovery: Spread = msgspec.field(default_factory=Spread)
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
