"""A job's runs side by side: `duly job grid`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from duly.cli import output, remote
from duly.cli.errors import OK
from duly.cli.output import Column
from duly.cli.parsing import Arguments, Parser, remote_options
from duly.domain.grid import MOST_RUNS, counted
from duly.sdk.job_calls import show_grid
from duly.wire.grid import GridRunView, GridView

# What cells look like; the others are the letters that the API has.
SIGNS = {"S": "✓", "D": "✗", "F": "×", "R": "▶", "K": "–", ".": " "}
# What the other columns take.
BESIDE = 20
LEVELS = "▁▂▃▄▅▆▇█"
_LEGEND = "✓ succeeded  ✗ dead  × failed  T timed out  L worker lost  G given back  ▶ running  W P B waits  – skipped  C cancelled"


def configure(parser: Parser) -> None:
    """Which job, and how many runs."""
    parser.add_argument("job", metavar="JOB", help="name or id")
    parser.add_argument("--runs", metavar="N", type=int, default=60, help=f"of so many of the newest, {MOST_RUNS} at most; 60 otherwise")
    remote_options(parser)


def grid(arguments: Arguments) -> int:
    """How the steps or the attempts of its newest runs went, oldest on the left, and how long each run took."""
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        job = remote.find_job(client, arguments.job)
        found = client.send(show_grid(job.job_id, arguments.runs))
    if out.format in ("json", "jsonl"):
        out.one([], found, name=job.name)
        return OK
    if not found.runs:
        out.say(f"None of the newest runs of {job.name} has begun.")
        return OK
    if out.is_for_people:
        # The newest that fit beside the names and the counts.
        room = max(output.terminal_width() - max(map(len, found.rows), default=0) - BESIDE, 10)
        found = msgspec.structs.replace(found, runs=found.runs[:room])
    out.rows(_columns(found.kind), _lines(found), name=lambda line: line[0])
    out.say(f"{len(found.runs)} runs, oldest on the left, {_took(found)}. {_LEGEND}")
    if found.rows_left_out:
        out.say(f"{found.rows_left_out} more rows are not shown.")
    return OK


Line = tuple[str, int, int, str]


def _lines(found: GridView) -> list[Line]:
    """A line for each row: its name, how many succeeded and failed, and its cells. The last one is how long the runs took."""
    runs = found.runs[::-1]
    lines: list[Line] = []
    for nth, (name, figures) in enumerate(zip(found.rows, counted([run.cells for run in runs]), strict=True)):
        cells = "".join(SIGNS.get(run.cells[nth], run.cells[nth]) for run in runs)
        lines.append((name, figures.succeeded, figures.failed, cells))
    ended = [run.state.name for run in runs]
    return [*lines, ("took", ended.count("SUCCEEDED"), ended.count("DEAD"), _levels(runs))]


def _levels(runs: Sequence[GridRunView]) -> str:
    longest = max((run.took_ms or 0 for run in runs), default=0) or 1
    return "".join(" " if run.took_ms is None else LEVELS[min(int(run.took_ms / longest * len(LEVELS)), len(LEVELS) - 1)] for run in runs)


def _took(found: GridView) -> str:
    if found.took_p50_ms is None or found.took_p95_ms is None:
        return "none of them has ended"
    return f"took {output.span(round(found.took_p50_ms * 1000))} (p50), {output.span(round(found.took_p95_ms * 1000))} (p95)"


def _columns(kind: str) -> tuple[Column[Line], ...]:
    return (
        Column("step" if kind == "steps" else "attempt", lambda line: line[0]),
        Column("ok", lambda line: str(line[1])),
        Column("failed", lambda line: str(line[2]), colour=lambda line: output.RED if line[2] else None),
        Column("runs", lambda line: line[3]),
    )
