"""What every table of figures shares: how numbers are written, where it was measured, and whether targets hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks.figures import Spread, number
from benchmarks.report import Report
from benchmarks.targets import Target


def spread_text(spread: Spread | None) -> str:
    """The median, and the least and the most when there were several runs."""
    if spread is None:
        return "–"
    if spread.runs == 1:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.least)}–{number(spread.most)})"


def ratio_text(spread: Spread | None) -> str:
    """The same for how many times more or better something is."""
    if spread is None:
        return "–"
    return f"{number(spread.median)}×" + ("" if spread.runs == 1 else f" ({number(spread.least)}–{number(spread.most)})")


def where_lines(report: Report) -> Iterator[str]:
    """The machine, the servers and how long it took."""
    machine = report.machine
    where = (machine["cpu"], machine["memory"], machine["system"], f"Python {machine['python']}", machine["postgres"])
    yield f"{report.began}: {'; '.join((*where, machine['redis']) if 'redis' in report.servers else where)}."
    settings = [f"{name} {value!r}" for found in report.servers.values() for name, value in found.items()]
    yield f"Servers: {', '.join(settings)}; fsync and synchronous_commit on, the rest as it comes."


def target_lines(found: Iterable[Target]) -> Iterator[str]:
    """Nothing when there are none."""
    rows = list(found)
    if not rows:
        return
    yield ""
    yield "## Targets"
    yield ""
    yield "| what | target | found | holds |"
    yield "|---|---|---|---|"
    for target in rows:
        yield f"| {target.what} | {target.wanted} | {target.found} | {yes(target.holds)} |"


def yes(holds: bool) -> str:
    """A no is loud."""
    return "yes" if holds else "**no**"
