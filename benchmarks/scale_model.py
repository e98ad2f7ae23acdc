"""How far does it go? The table of docs/explanation/scale.md: loads up to 100 million jobs and a million fires a minute, over stores.

python -m benchmarks.scale_model [--costs FILE] [--check | --write]

Unit costs are measured (`python -m benchmarks.capacity --costs-only`, or those that come with Duly); everything else on the page is
extrapolated from them by the simulation of `duly capacity`. It runs in under a minute and needs no database. `--write` puts the table into
the page, `--check` ends with 1 when the page has another one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from duly.domain.capacity.costs import POSTGRES, Fleet, PoolSize, UnitCosts
from duly.domain.capacity.forecast import Question
from duly.domain.capacity.load import LoadClass
from duly.domain.capacity.spans import Span
from duly.domain.capacity.stores import StoresForecast, least_stores
from duly.domain.instants import DAY, MINUTE, SECOND, Micros
from duly.domain.schedule import IntervalSchedule
from duly.wire.capacity import read_costs

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "scale.md"
BEGIN, END = "<!-- made by python -m benchmarks.scale_model -->\n", "<!-- end -->"
# One server's database, and what one process beside it runs.
DATABASE_CORES = 16
SLOTS = 50
START = 20_454 * DAY
HEADS = (
    "load",
    "schedules",
    "fires/s",
    "executions/day",
    "stores",
    "dispatchers",
    "workers",
    "busiest database",
    "commits/s each",
    "WAL/s each",
    "disk each, 30 days",
    "rows in a day's partition",
    "connections each",
)


@dataclass(frozen=True, slots=True)
class Row:
    """A load: so many schedules, each firing every so often, its runs taking so long."""

    name: str
    jobs: int
    every: Micros
    lasts: Micros = 20_000
    payload: int = 0

    @property
    def per_second(self) -> float:
        """Fires a second."""
        return self.jobs * SECOND / self.every


ROWS = (
    Row("a team", 1_000, 60 * MINUTE),
    Row("a company", 100_000, 60 * MINUTE),
    Row("every minute", 100_000, MINUTE),
    Row("a million jobs", 1_000_000, 60 * MINUTE),
    Row("ten million", 10_000_000, 24 * 60 * MINUTE),
    Row("a hundred million", 100_000_000, 24 * 60 * MINUTE),
    Row("a million a minute", 1_000_000, MINUTE),
    Row("both", 100_000_000, 100 * MINUTE),
)


def question(row: Row, costs: UnitCosts) -> Question:
    """The load, spread over its interval, on the smallest fleet: it grows from there."""
    load = LoadClass(
        name=row.name,
        jobs=row.jobs,
        schedule=IntervalSchedule(row.every, START),
        spread=True,
        span=Span(row.lasts, row.lasts),
        payload_bytes=row.payload,
    )
    fleet = Fleet(pools={"default": PoolSize(1, SLOTS)}, servers=1, database_cores=DATABASE_CORES, worker_cores=2)
    return Question(classes=[load], fleet=fleet, costs=costs, begin=START, horizon=2 * MINUTE, most_units=1_500, retention=30 * DAY)


def table(costs: UnitCosts) -> str:
    """The page's table."""
    lines = [f"| {' | '.join(HEADS)} |", "|---" + "|--:" * (len(HEADS) - 1) + "|"]
    lines += [line(row, least_stores(question(row, costs))) for row in ROWS]
    return "\n".join(lines) + "\n"


def line(row: Row, found: StoresForecast) -> str:
    each = found.each
    cells = [
        row.name,
        f"{row.jobs:,}",
        f"{row.per_second:,.1f}" if row.per_second < 100 else f"{row.per_second:,.0f}",
        f"{row.per_second * 86_400:,.0f}",
        str(found.stores),
        str(found.servers),
        str(found.workers),
        f"{each.database.worst:.0%} of {DATABASE_CORES} cores",
        f"{each.worst_commits:,.0f}",
        _bytes(each.worst_log),
        _bytes(each.disk),
        f"{row.per_second * 86_400 / found.stores:,.0f}",
        str(found.connections),
    ]
    return f"| {' | '.join(cells)} |"


def _bytes(amount: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} TB"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--costs", type=Path, help="unit costs of another machine, as `duly capacity --costs` takes them")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--check", action="store_true", help="end with 1 when the page has another table")
    arguments = parser.parse_args(argv)
    costs = POSTGRES if arguments.costs is None else read_costs(arguments.costs.read_bytes())
    made = table(costs)
    print(made, end="")
    if not (arguments.write or arguments.check):
        return 0
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    old, _, after = rest.partition(END)
    if arguments.write:
        PAGE.write_text(before + BEGIN + made + END + after, encoding="utf-8")
    return 1 if arguments.check and old != made else 0


if __name__ == "__main__":
    sys.exit(main())
