"""`make soak`: an hour on PostgreSQL; `--minutes 5`, `--store sqlite` and so on choose otherwise.

Exit status 1 when a bar is broken, 2 when the run itself failed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from duly.services import ServiceFailed, ServiceMissing
from tests.soak.report import report
from tests.soak.run import Plan, soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (default: %(default)g); half of it pinned")
    parser.add_argument("--store", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--url", help="an empty PostgreSQL database of your own; otherwise a private server is started")
    parser.add_argument("--rate", type=int, default=300, help="executions enqueued per second, beside the schedules (default: %(default)s)")
    parser.add_argument(
        "--steady",
        action="store_true",
        help="no old snapshot: the end must be as the beginning was. With half of what the machine can do as --rate: see benchmarks/",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("soak-report"), help="where samples, summary and picture go (default: %(default)s)"
    )
    options = parser.parse_args()
    if options.url and options.store == "sqlite":
        parser.error("--url names a PostgreSQL database")
    options.out.mkdir(parents=True, exist_ok=True)
    plan = Plan(options.store, options.minutes * 60, options.rate, options.out, options.url, options.steady)
    try:
        with tempfile.TemporaryDirectory(prefix="duly-soak-") as directory:
            result = asyncio.run(soak(plan, Path(directory)))
    except (ServiceMissing, ServiceFailed, RuntimeError) as error:
        print(f"the soak failed: {error}", file=sys.stderr)
        return 2
    verdicts = report(plan, result)
    return 1 if any(verdict.judgement == "broken" for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
