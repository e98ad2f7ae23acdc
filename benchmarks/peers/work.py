"""The kinds of work: what a job carries, and what its handler does after its mark. Only the standard library.

`programs/frame.js` has the same for Node; a test compares the two.
"""

from __future__ import annotations

import os
import time
from typing import Any

KIND = "BENCH_WORK"
KINDS = ("noop", "mixed", "tenants", "failures", "large")

PAD = 48
LARGE_PAD = 10_000
TENANTS = 1_000

MIXED_MS = (0,) * 16 + (2,) * 3 + (40,)
"""Of twenty handlers sixteen end at once, three take 2 ms and one takes 40: 2.3 ms on average."""


def kind() -> str:
    """The work of this measurement, as the environment has it."""
    return os.environ.get(KIND, "noop")


def payload(i: int, t: float | None = None) -> dict[str, Any]:
    """What job number `i` carries: about 100 bytes, unless it is large. `t` is now, or when it is due."""
    work = kind()
    made: dict[str, Any] = {"i": i, "t": time.time() if t is None else t, "pad": "x" * (LARGE_PAD if work == "large" else PAD)}
    if work == "mixed":
        made["ms"] = MIXED_MS[i % len(MIXED_MS)]
    if work == "failures":
        made["fails"] = i % 2 == 1
    return made


def tenant(i: int) -> str:
    """Whose job number `i` is."""
    return f"t{i % TENANTS}"
