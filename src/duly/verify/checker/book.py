"""Where findings are written: per invariant, how many things were looked at, and what was wrong with some of them."""

from __future__ import annotations

from collections import Counter

from duly.verify.checker.codes import TITLES, WHY
from duly.verify.report import Finding, Status, Verdict

# Whoever reads a report looks at the first few; the rest are counted.
MOST_FINDINGS = 200


class Book:
    """The findings so far."""

    def __init__(self) -> None:
        self.judged: Counter[str] = Counter()
        self._broken: Counter[str] = Counter()
        self._findings: dict[str, list[Finding]] = {}

    def look(self, invariant: str, times: int = 1) -> None:
        """So many things were looked at."""
        self.judged[invariant] += times

    def broken(
        self,
        invariant: str,
        says: str,
        *,
        at: int | None = None,
        job: str | None = None,
        run: str | None = None,
        seqs: tuple[int, ...] = (),
    ) -> None:
        """One violation. What is broken was looked at, too."""
        self._broken[invariant] += 1
        self.judged[invariant] = max(self.judged[invariant], 1)
        found = self._findings.setdefault(invariant, [])
        if len(found) < MOST_FINDINGS:
            found.append(Finding(invariant=invariant, says=says, at=at, job=job, run=run, seqs=list(seqs)))

    def count(self, *invariants: str) -> int:
        """How often these were broken."""
        return sum(self._broken[invariant] for invariant in invariants)

    def verdicts(self) -> list[Verdict]:
        """One for each invariant, whether it was judged or not."""
        return [self._verdict(invariant, title) for invariant, title in TITLES.items()]

    def _verdict(self, invariant: str, title: str) -> Verdict:
        findings = self._findings.get(invariant, [])
        more = self._broken[invariant] - len(findings)
        if more > 0:
            findings = [*findings, Finding(invariant=invariant, says=f"and {more:,} more")]
        judged = self.judged[invariant]
        status: Status = "broken" if findings else "held" if judged else "not judged"
        why = WHY.get(invariant, "the history has none of it") if status == "not judged" else ""
        return Verdict(invariant=invariant, title=title, status=status, judged=judged, findings=findings, why=why)
