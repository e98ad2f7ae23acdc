"""All benchmarks in their short form, one after the other: `make bench`."""

from __future__ import annotations

import asyncio
import platform
import sqlite3

from benchmarks.drain import drain
from benchmarks.fairness import SHORT, fairness
from benchmarks.harness import STORES, report
from benchmarks.latency import latency
from benchmarks.submit import submit


def main() -> None:
    """Figures as JSON lines; read them as ratios within this run."""
    report("machine", python=platform.python_version(), sqlite=sqlite3.sqlite_version, system=platform.platform())
    for kind in STORES:
        asyncio.run(drain(kind, 100_000, 1 if kind == "sqlite" else 2))
        asyncio.run(submit(kind, 3.0, 64))
        asyncio.run(latency(kind, 50, 5.0))
    fairness(*SHORT)


if __name__ == "__main__":
    main()
