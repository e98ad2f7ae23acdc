"""The run grid: a letter for each row of each run, whatever was tried and in whatever order it is told."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from duly.domain.grid import LETTERS, MOST_ROWS, NOTHING, Run, Tries, counted, most_runs, of_attempts, of_steps
from duly.domain.instants import SECOND
from duly.domain.lifecycle import Outcome, State

_FAILED = [Outcome.FAILED, Outcome.TIMED_OUT, Outcome.WORKER_LOST, Outcome.RELEASED]


def run(nth: int, state: State = State.SUCCEEDED, attempt: int = 1, definition: int = 1) -> Run:
    at = nth * 60 * SECOND
    return Run(UUID(int=nth), definition, definition, at, at, at, state, attempt, at + SECOND, at + 3 * SECOND)


@given(st.lists(st.lists(st.sampled_from(_FAILED), max_size=130), max_size=12), st.booleans())
def test_every_try_has_its_cell(failures: list[list[Outcome]], dies: bool) -> None:
    runs, tries = [], {}
    for nth, failed in enumerate(failures):
        ends_badly = dies and bool(failed)
        runs.append(run(nth, State.DEAD if ends_badly else State.SUCCEEDED, len(failed) + (not ends_badly)))
        tries[UUID(int=nth)] = Tries("".join(str(outcome.value) for outcome in failed), None)

    grid = of_attempts(runs, tries)

    most = max((one.attempt for one in runs), default=1)
    assert len(grid.rows) == min(most, MOST_ROWS)
    assert len(grid.rows) + grid.left_out == most
    for column in grid.columns:
        assert len(column.cells) == len(grid.rows)
        assert set(column.cells) <= LETTERS.keys()
        shown = min(column.run.attempt, MOST_ROWS)
        assert NOTHING not in column.cells[:shown]
        assert set(column.cells[shown:]) <= {NOTHING}
        if column.run.state is State.SUCCEEDED and column.run.attempt <= MOST_ROWS:
            assert column.cells[column.run.attempt - 1] == "S"


@given(
    st.lists(
        st.permutations(["a", "b", "c", "d", "e"]).flatmap(lambda names: st.sampled_from([names[:n] for n in range(1, 6)])), min_size=1
    )
)
def test_every_step_is_below_its_name_whichever_version_it_is_of(versions: list[list[str]]) -> None:
    orders = {nth: {name: place for place, name in enumerate(names)} for nth, names in enumerate(versions)}
    runs = [run(nth, definition=nth) for nth in range(len(versions))]
    # Of every run the first step has failed.
    states = f"{State.DEAD.value}{str(State.SUCCEEDED.value) * 4}"
    steps = {one.id: states[: len(names)] for one, names in zip(runs, versions, strict=True)}

    grid = of_steps(runs, steps, orders)

    assert sorted(grid.rows) == sorted({name for names in versions for name in names})
    assert grid.rows[: len(versions[0])] == versions[0], "the newest run's order comes first"
    for column, names in zip(grid.columns, versions, strict=True):
        told = {name: letter for name, letter in zip(grid.rows, column.cells, strict=True) if letter != NOTHING}
        assert told == {name: "D" if place == 0 else "S" for place, name in enumerate(names)}


def test_how_long_runs_take_is_told_of_those_that_ended() -> None:
    runs = [run(nth) for nth in range(1, 21)]
    runs[3] = runs[3]._replace(finished_at=runs[3].due_at + 101 * SECOND)
    runs[7] = runs[7]._replace(state=State.CANCELLED, finished_at=runs[7].due_at + 1000 * SECOND)
    runs[9] = runs[9]._replace(state=State.RUNNING, finished_at=None)

    grid = of_attempts(runs, {})

    assert grid.took_at(0.5) == 2 * SECOND
    assert grid.took_at(1.0) == 100 * SECOND
    assert of_attempts([], {}).took_at(0.5) is None


def test_more_steps_than_a_page_can_show_are_counted() -> None:
    names = {f"s{nth}": nth for nth in range(MOST_ROWS + 7)}

    grid = of_steps([run(1)], {UUID(int=1): "4" * (MOST_ROWS + 7)}, {1: names})

    assert (len(grid.rows), grid.left_out) == (MOST_ROWS, 7)
    assert grid.columns[0].cells == "S" * MOST_ROWS


def test_a_retry_is_late_by_its_own_time() -> None:
    retried = run(1, attempt=2)._replace(started_at=90 * SECOND)

    [column] = of_attempts([retried], {retried.id: Tries("2", 88 * SECOND)}).columns

    assert (column.cells, column.late) == ("FS", 2 * SECOND)
    assert of_attempts([retried], {}).columns[0].cells == ".S", "what is not known is not told"


def test_a_step_that_was_not_made_is_told_apart() -> None:
    [column] = of_steps([run(1)], {UUID(int=1): "4 7"}, {1: {"a": 0, "b": 1, "c": 2, "d": 3}}).columns

    assert column.cells == "S.K."
    newer = run(2, definition=2)
    told = of_steps([run(1), newer], {UUID(int=1): "4", newer.id: "555"}, {1: {"a": 0}, 2: {}})
    assert [one.cells for one in told.columns] == ["S"], "nothing is known of the steps of a definition that cannot be read"


def test_a_workflow_begins_when_it_was_made_and_is_due() -> None:
    at = 100 * SECOND
    workflow = Run(UUID(int=1), 1, 1, at, at + 7 * SECOND, at - 900 * SECOND, State.SUCCEEDED, 0, None, at + 9 * SECOND)
    early = workflow._replace(created_at=at - 50 * SECOND)

    made_late, made_early = of_steps([workflow, early], {UUID(int=1): "4"}, {1: {"a": 0}}).columns

    assert (made_late.run.took, made_late.late) == (2 * SECOND, 7 * SECOND)
    assert (made_early.run.took, made_early.late) == (9 * SECOND, 0)


def test_what_never_began_is_no_column_and_what_waits_for_a_retry_is() -> None:
    cancelled = run(1, State.CANCELLED, attempt=0)._replace(started_at=None)
    waiting = run(2, State.SCHEDULED, attempt=3)._replace(started_at=None, finished_at=None)

    grid = of_attempts([cancelled, waiting], {waiting.id: Tries("22", None)})

    assert [(column.run.id, column.cells) for column in grid.columns] == [(waiting.id, "FFW")]


def test_of_very_many_steps_fewer_runs_are_looked_at() -> None:
    assert (most_runs(500, 100), most_runs(500, 2_000), most_runs(60, 0)) == (500, 50, 60)


@given(st.integers(0, 5).flatmap(lambda rows: st.lists(st.text(sorted(LETTERS), min_size=rows, max_size=rows), max_size=20)))
def test_every_cell_of_a_row_is_counted_once(columns: list[str]) -> None:
    for row, figures in enumerate(counted(columns)):
        cells = [column[row] for column in columns]
        assert sum(figures) == sum(cell != NOTHING for cell in cells)
        assert figures.failed == sum(LETTERS[cell] in ("dead", "failed", "timed out", "worker lost") for cell in cells)
