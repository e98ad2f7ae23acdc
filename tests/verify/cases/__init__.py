"""What each invariant forbids, and how near to it one may come.

Every case is told twice: as it must not be, and with the smallest change that makes it lawful.
"""

from __future__ import annotations

from tests.verify.cases import attempts, flows, leases, outages, overlaps, readable, rest, targets, times, wishes
from tests.verify.cases.told import CASES, Case

__all__ = ["CASES", "Case", "attempts", "flows", "leases", "outages", "overlaps", "readable", "rest", "targets", "times", "wishes"]
