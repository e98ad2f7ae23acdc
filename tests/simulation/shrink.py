"""Makes a failing plan smaller while it still breaks the same invariant: faults, nodes, time, workload."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.plan import Plan, changed
from tests.simulation.run import Outcome, run_seed

MOST_RUNS = 120


def invariants(findings: list[str]) -> set[str]:
    """Which invariants the findings are about: what stands before the colon."""
    return {finding.partition(":")[0] for finding in findings}


def shrink(outcome: Outcome) -> Outcome:
    """The smallest run that was found to break one of the same invariants."""
    wanted = invariants(outcome.findings)
    runs = 0
    progress = True
    while progress:
        progress = False
        for plan in _smaller(outcome.plan):
            if runs >= MOST_RUNS:
                return outcome
            runs += 1
            tried = run_seed(plan)
            if wanted & invariants(tried.findings):
                outcome, progress = tried, True
                break
    return outcome


def _smaller(plan: Plan) -> Iterator[Plan]:
    for fault in plan.faults:
        yield changed(plan, faults=tuple(kind for kind in plan.faults if kind != fault))
    for name in ("dispatchers", "workers"):
        many, least = getattr(plan, name), 1 if plan.mode == "safety" else 2
        for fewer in dict.fromkeys((least, max(least, many // 2))):
            if fewer < many:
                yield changed(plan, **{name: fewer})
    if plan.clients > 1:
        yield changed(plan, clients=1)
    for share in (0.5, 0.75, 0.9):
        if plan.horizon * share > 3:
            yield changed(plan, horizon=round(plan.horizon * share, 1))
    for kind in plan.kinds:
        if len(plan.kinds) > 1:
            yield changed(plan, kinds=tuple(other for other in plan.kinds if other != kind))
    if plan.jobs > 1:
        yield changed(plan, jobs=plan.jobs // 2)
