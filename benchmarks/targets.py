"""What was promised of Duly's own figures, and how a figure is judged by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.figures import number

PICK_UP_MS: Mapping[str, float] = {"p50": 2.0, "p99": 4.0}
SPREAD_MS: Mapping[str, float] = {"p50": 1.5, "p99": 3.0}
SAME_SECOND_MS: Mapping[str, float] = {"p99": 6.0}
SQLITE_DRAIN = 50_000.0
THREADS_DRAIN = 30_000.0
BATCH_FACTOR = 2.0
BULK_ENQUEUE = 90_000.0
HTTP_FACTOR = 1.5
"""Bare inserts may be so many times as fast as submits over HTTP."""
HERD_SECONDS = 3.0
FIRES_A_MINUTE: Mapping[str, float] = {"allow": 2_000_000.0, "skip": 1_600_000.0}
FAILOVER_MS = 1_000.0
CLEAN_STOP_MS = 200.0


@dataclass(frozen=True, kw_only=True)
class Target:
    """One promise."""

    what: str
    wanted: str
    found: str
    holds: bool


def judged(what: str, value: float, bound: float, unit: str, *, more_is_better: bool) -> Target:
    """Whether a figure is at least so large, or at most."""
    sign = "≥" if more_is_better else "≤"
    holds = value >= bound if more_is_better else value <= bound
    return Target(what=what, wanted=f"{sign} {number(bound)}{unit}", found=f"{number(value)}{unit}", holds=holds)
