"""The run grid of a job: its runs side by side, and below each how its steps went, or its tries.

A grid has a hundred rows and five hundred runs, so a run's column is a text with a letter for each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from duly.domain.history import nearest_rank
from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant, Micros
from duly.domain.lifecycle import Outcome, State, is_final

MOST_RUNS = 500
MOST_ROWS = 100
# Of a workflow with very many steps fewer runs are shown: all of their steps are read.
MOST_CELLS = 100_000


class Kind(StrEnum):
    """What the rows are."""

    STEPS = "steps"
    ATTEMPTS = "attempts"


# How a cell is written. A try that failed is no dead run: it may have been tried again.
NOTHING = "."
LETTERS = {
    "S": "succeeded",
    "D": "dead",
    "F": "failed",
    "T": "timed out",
    "L": "worker lost",
    "C": "cancelled",
    "K": "skipped",
    "G": "given back",
    "R": "running",
    "B": "blocked",
    "P": "pending",
    "W": "scheduled",
    NOTHING: "nothing",
}
# What went wrong.
BAD = frozenset("DFTL")
# A store tells them by their digits, and a space where there is nothing.
_STATES = str.maketrans(
    {
        str(State.SCHEDULED.value): "W",
        str(State.BLOCKED.value): "B",
        str(State.PENDING.value): "P",
        str(State.RUNNING.value): "R",
        str(State.SUCCEEDED.value): "S",
        str(State.DEAD.value): "D",
        str(State.CANCELLED.value): "C",
        str(State.SKIPPED.value): "K",
        " ": NOTHING,
    }
)
_LIVE = frozenset(str(state.value) for state in State if not is_final(state))
_OUTCOMES = str.maketrans(
    {
        str(Outcome.SUCCEEDED.value): "S",
        str(Outcome.FAILED.value): "F",
        str(Outcome.TIMED_OUT.value): "T",
        str(Outcome.WORKER_LOST.value): "L",
        str(Outcome.CANCELLED.value): "C",
        str(Outcome.RELEASED.value): "G",
    }
)


class Run(NamedTuple):
    """A run as the grid has it. `version` counts the definitions of its job; `definition` names the one it ran by."""

    id: ExecutionId
    definition: int
    version: int
    due_at: Instant
    created_at: Instant
    scheduled_at: Instant
    state: State
    attempt: int
    started_at: Instant | None
    finished_at: Instant | None

    @property
    def took(self) -> Micros | None:
        """How long it ran, from the start of its last try to the end."""
        return None if self.started_at is None or self.finished_at is None else self.finished_at - self.started_at


class Tries(NamedTuple):
    """The tries of a run that did not succeed: a digit of each one's outcome, first to last, and when the last one wanted the next."""

    outcomes: str
    retry_at: Instant | None


@dataclass(frozen=True, slots=True)
class Column:
    """A run, its cells from the top, and how late its last try began."""

    run: Run
    cells: str
    late: Micros | None


@dataclass(frozen=True, slots=True)
class Grid:
    """The newest first. `left_out` rows are below the last one."""

    kind: Kind
    rows: list[str]
    columns: list[Column]
    left_out: int = 0

    def took_at(self, share: float) -> Micros | None:
        """The smallest time that this share of the runs that succeeded or died did not exceed."""
        ended = [column.run for column in self.columns if column.run.state in (State.SUCCEEDED, State.DEAD)]
        return nearest_rank([took for run in ended if (took := run.took) is not None], share)


class Counted(NamedTuple):
    """A row in figures: how many of its cells succeeded, failed and came to something else; empty ones are not counted."""

    succeeded: int
    failed: int
    other: int


def counted(columns: Sequence[str]) -> list[Counted]:
    """The figures of each row, from the top, of these columns of letters."""
    found = []
    for cells in zip(*columns, strict=True):
        succeeded, failed = cells.count("S"), sum(map(cells.count, BAD))
        found.append(Counted(succeeded, failed, len(cells) - succeeded - failed - cells.count(NOTHING)))
    return found


def most_runs(wanted: int, steps: int) -> int:
    """How many runs of so many steps are looked at, of those that are wanted."""
    return min(wanted, max(MOST_CELLS // max(steps, 1), 1))


def of_attempts(runs: Sequence[Run], tries: Mapping[ExecutionId, Tries]) -> Grid:
    """A row for each try; a run that succeeded at once has none that failed."""
    told: list[tuple[Run, str, Micros | None]] = []
    for run in runs:
        failed = tries.get(run.id)
        cells = "" if failed is None else failed.outcomes.translate(_OUTCOMES)
        if run.attempt > len(cells):
            # The one that is under way, or with which it ended; nothing is known of what is missing before it.
            cells = cells.ljust(run.attempt - 1, NOTHING) + str(run.state.value).translate(_STATES)
        # A retry is late when it starts after its own time, not because it had to wait for it.
        told.append((run, cells, _late(run, failed.retry_at if failed is not None and run.attempt > 1 else None)))
    most = max((len(cells) for _, cells, _ in told), default=1) or 1
    rows = [f"attempt {nth}" for nth in range(1, min(most, MOST_ROWS) + 1)]
    columns = [Column(run, cells[:MOST_ROWS].ljust(len(rows), NOTHING), late) for run, cells, late in told]
    return Grid(Kind.ATTEMPTS, rows, _begun(columns), max(0, most - MOST_ROWS))


def of_steps(runs: Sequence[Run], steps: Mapping[ExecutionId, str], orders: Mapping[int, Mapping[str, int]]) -> Grid:
    """A row for each step that any of the runs had, in the order of the newest. `steps` has a digit of the state of each place; `orders`
    has the steps of each definition in their order, with their places."""
    rows = list(dict.fromkeys(name for definition in dict.fromkeys(run.definition for run in runs) for name in orders[definition]))
    shown = rows[:MOST_ROWS]
    # Where each row stands in a definition; a step that it does not have is behind the last.
    places = {definition: [order.get(name, len(order)) for name in shown] for definition, order in orders.items()}
    columns = []
    for run in runs:
        made = steps.get(run.id, "")
        steps_of = len(orders[run.definition])
        whole = made.translate(_STATES)[:steps_of].ljust(steps_of + 1, NOTHING)
        # No worker runs a workflow: it begins when it was made and is due.
        begun = run if run.started_at is not None else run._replace(started_at=max(run.created_at, run.due_at))
        columns.append(Column(begun, "".join([whole[place] for place in places[run.definition]]), _late(begun, None)))
    return Grid(Kind.STEPS, shown, _begun(columns), len(rows) - len(shown))


def _begun(columns: Sequence[Column]) -> list[Column]:
    """Those in which anything was tried. What was skipped, or cancelled before it began, is no column."""
    return [column for column in columns if column.cells.strip(NOTHING)]


def have_ended(steps: str) -> bool:
    """Whether all steps that were made have, by the digits of their states."""
    return bool(steps) and not _LIVE.intersection(steps)


def _late(run: Run, retry_at: Instant | None) -> Micros | None:
    return None if run.started_at is None else run.started_at - (run.due_at if retry_at is None else retry_at)
