"""Which executions are meant, what dead letters have in common, and due times at a rate."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.bulk import BulkAction, Candidate, Match, can, fits
from duly.domain.causes import cause_of, normalised
from duly.domain.instants import SECOND
from duly.domain.lifecycle import Outcome, State, is_final
from duly.domain.serving import Misfit, Needs, misfits, missing_labels
from duly.domain.spacing import spaced

JOB = UUID(int=7)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("no user 17", "no user #"),
        ("no user 'anna' in \"eu\"", "no user '…' in '…'"),
        ("row 0198c2d5-a4e8-7f3b-9c1d-2e3f4a5b6c7d is gone", "row # is gone"),
        ("run_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d is gone", "# is gone"),
        ("at 0x7f3b9c1d: bad", "at #: bad"),
        ("commit deadbeef1 missing", "commit # missing"),
        ("the facade defaced it", "the facade defaced it"),
        ("took 1.5 s at 12:30:05", "took # s at #"),
        ("first line\nsecond line 5", "first line"),
        ("", ""),
    ],
)
def test_what_differs_from_run_to_run_is_left_out(message: str, expected: str) -> None:
    assert normalised(message) == expected


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.uuids(), st.uuids())
def test_numbers_and_ids_do_not_make_a_cause(one: int, two: int, first: UUID, second: UUID) -> None:
    this, that = (cause_of(JOB, "KeyError", f"row {n} of {id} is gone") for n, id in ((one, first), (two, second)))

    assert this == that
    assert this.key != cause_of(UUID(int=8), "KeyError", f"row {one} of {first} is gone").key
    assert this.key != cause_of(JOB, "ValueError", f"row {one} of {first} is gone").key


@given(st.text(max_size=2000))
def test_a_cause_is_short_and_normalising_never_fails(message: str) -> None:
    assert len(normalised(message)) <= 300


@given(st.integers(1, 500), st.integers(0, 10**15), st.floats(0.01, 10_000))
def test_due_times_keep_the_rate_and_never_drift(count: int, now: int, per_second: float) -> None:
    due = spaced(count, now, per_second)

    assert due[0] == now
    assert due == sorted(due)
    assert all(abs(at - now - nth * SECOND / per_second) <= 1 for nth, at in enumerate(due))
    assert spaced(count, now, None) == [now] * count


def candidate(state: State, **changes: object) -> Candidate:
    plain = Candidate(UUID(int=1), JOB, state, 100, None, None, {"type": "E", "message": "m"}, False, None)
    return plain._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("action", list(BulkAction))
@pytest.mark.parametrize("state", list(State))
def test_an_action_is_done_only_to_what_can_take_it(action: BulkAction, state: State) -> None:
    done = can(action, candidate(state, last_outcome=Outcome.FAILED))

    assert (
        done
        is {
            BulkAction.CANCEL: not is_final(state),
            BulkAction.RETRY: state in (State.DEAD, State.SCHEDULED),
            BulkAction.REPLAY: is_final(state),
            BulkAction.DISCARD: state is State.DEAD,
        }[action]
    )


def test_a_delay_is_no_retry() -> None:
    assert not can(BulkAction.RETRY, candidate(State.SCHEDULED))


@pytest.mark.parametrize(
    ("match", "meant"),
    [
        (Match(), True),
        (Match(job_id=JOB), True),
        (Match(job_id=UUID(int=8)), False),
        (Match(state=State.DEAD), True),
        (Match(state=State.SUCCEEDED), False),
        (Match(created_before=100), False),
        (Match(created_before=101), True),
        (Match(created_after=100), True),
        (Match(created_after=101), False),
        (Match(batch=UUID(int=3)), False),
        (Match(ids=(UUID(int=1),)), True),
        (Match(ids=()), False),
        (Match(cause=cause_of(JOB, "E", "m").key), True),
        (Match(cause="0" * 16), False),
    ],
)
def test_everything_that_is_given_must_hold(match: Match, meant: bool) -> None:
    assert fits(match, BulkAction.DISCARD.states, candidate(State.DEAD)) is meant
    assert not fits(match, BulkAction.DISCARD.states, candidate(State.DEAD, settled=True))


def test_only_an_empty_match_means_everything() -> None:
    assert Match().is_empty
    assert not Match(ids=()).is_empty


@pytest.mark.parametrize(
    ("pool", "labels", "handlers", "missing"),
    [
        ("a", {"gpu": "", "region": "eu"}, ["h"], set()),
        ("b", {"gpu": "", "region": "eu"}, ["h"], {Misfit.POOL}),
        ("a", {"gpu": "", "region": "us"}, ["h"], {Misfit.LABELS}),
        ("a", {"gpu": "", "region": "eu"}, [], {Misfit.HANDLER}),
        ("b", {}, [], {Misfit.POOL, Misfit.LABELS, Misfit.HANDLER}),
    ],
)
def test_a_misfit_names_every_part(pool: str, labels: dict[str, str], handlers: list[str], missing: set[Misfit]) -> None:
    assert misfits(pool, labels, handlers, Needs("a", "gpu,region=eu", "h")) == missing


def test_missing_labels_are_named_in_their_order() -> None:
    assert missing_labels({"gpu": ""}, "gpu,region=eu,zone") == ["region=eu", "zone"]
    assert missing_labels({}, "") == []
