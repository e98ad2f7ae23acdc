"""A job's run grid on the wire."""

from __future__ import annotations

from duly.domain.grid import LETTERS, Column, Grid
from duly.domain.ids import execution_text
from duly.domain.instants import to_rfc3339
from duly.wire.executions import StateName
from duly.wire.history import milliseconds
from duly.wire.shapes import View, shown


class GridRunView(View, kw_only=True):
    """A run: `cells` has a letter for each row, from the top; `version` is that of the definition it ran by."""

    execution_id: str
    version: int
    state: StateName
    scheduled_at: str
    started_at: str | None
    finished_at: str | None
    attempt: int
    lateness_ms: float | None
    took_ms: float | None
    cells: str


class GridView(View, kw_only=True):
    """Runs that have begun, newest first, beside one another. `rows` are the names of steps, or the numbers of attempts (`kind`);
    `letters` says what the letters of `cells` mean; `rowsLeftOut` are more than are told."""

    kind: str
    rows: list[str]
    rows_left_out: int
    letters: dict[str, str]
    took_p50_ms: float | None
    took_p95_ms: float | None
    runs: list[GridRunView]


def grid_view(grid: Grid) -> GridView:
    """A grid as the API answers it."""
    return GridView(
        kind=grid.kind,
        rows=grid.rows,
        rows_left_out=grid.left_out,
        letters=LETTERS,
        took_p50_ms=milliseconds(grid.took_at(0.5)),
        took_p95_ms=milliseconds(grid.took_at(0.95)),
        runs=[_run_view(column) for column in grid.columns],
    )


def _run_view(column: Column) -> GridRunView:
    run = column.run
    return GridRunView(
        execution_id=execution_text(run.id),
        version=run.version,
        state=StateName[run.state.name],
        scheduled_at=to_rfc3339(run.scheduled_at),
        started_at=shown(run.started_at),
        finished_at=shown(run.finished_at),
        attempt=run.attempt,
        lateness_ms=milliseconds(column.late),
        took_ms=milliseconds(run.took),
        cells=column.cells,
    )
