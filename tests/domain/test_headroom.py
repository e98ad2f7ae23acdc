"""Quotas as pure functions: what is admitted, when a count is needed, and how long a refused one has to wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.errors import Invalid, TooLarge
from duly.domain.headroom import Answer, Headroom, wait_for_window, window_end
from duly.domain.instants import MINUTE, SECOND
from duly.domain.tenants import NO_QUOTAS, Quotas, check_payload, tenant_gates

NOW = 1_000_000 * SECOND

counts = st.integers(0, 10_000)


@given(counted=counts, granted=counts, wanted=st.integers(1, 100), quota=counts, age=st.integers(0, 2 * MINUTE))
def test_nothing_is_admitted_past_the_quota(counted: int, granted: int, wanted: int, quota: int, age: int) -> None:
    answer = Headroom(counted, granted, NOW - age).ask(wanted, quota, NOW)

    if answer is Answer.ADMIT:
        assert counted + granted + wanted <= quota


@given(counted=counts, unwritten=counts, wanted=st.integers(1, 100), quota=counts)
def test_after_a_count_there_is_an_answer(counted: int, unwritten: int, wanted: int, quota: int) -> None:
    room = Headroom()
    assert room.ask(wanted, quota, NOW) is Answer.COUNT

    room.learn(counted, NOW, unwritten)

    assert room.ask(wanted, quota, NOW) is (Answer.ADMIT if counted + unwritten + wanted <= quota else Answer.REFUSE)


def test_what_is_full_is_not_counted_for_each_who_asks() -> None:
    room = Headroom(counted=50_000, granted=0, counted_at=NOW)

    asked = [room.ask(1, 50_000, NOW + after) for after in (1, 400_000, 500_000, SECOND)]

    assert asked == [Answer.REFUSE, Answer.REFUSE, Answer.COUNT, Answer.COUNT]


def test_what_never_fits_is_not_counted() -> None:
    assert Headroom(10, 0, NOW).ask(1_001, 1_000, NOW + SECOND // 2) is Answer.REFUSE


def test_a_clock_that_went_back_makes_every_count_old() -> None:
    assert Headroom(0, 0, NOW + 1).ask(1, 10, NOW) is Answer.COUNT


@given(
    starts=st.dictionaries(st.integers(NOW // SECOND - 70, NOW // SECOND), st.integers(1, 20)),
    wanted=st.integers(1, 20),
    quota=st.integers(1, 60),
)
def test_who_waits_as_long_as_told_fits(starts: dict[int, int], wanted: int, quota: int) -> None:
    wait = wait_for_window(starts, wanted, quota, NOW)

    if wait is not None and wanted <= quota:
        assert 0 < wait <= MINUTE + SECOND
        assert wait_for_window(starts, wanted, quota, NOW + wait) is None
        assert wait_for_window(starts, wanted, quota, NOW + wait - 1) is not None


@given(first=st.integers(0, SECOND - 1), later=st.integers(0, MINUTE))
def test_no_minute_holds_more_than_the_quota(first: int, later: int) -> None:
    """One came in at `first`; a second one within the next minute never fits beside it."""
    came = NOW + first
    assert window_end(came // SECOND) > came + MINUTE

    assert wait_for_window({came // SECOND: 1}, 1, 1, came + later) is not None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_jobs", -1),
        ("max_queued", -1),
        ("max_concurrent", 0),
        ("max_fires_per_minute", 0),
        ("max_payload_bytes", 1),
        ("max_payload_bytes", 262_145),
        ("retention_days", 0),
    ],
)
def test_a_quota_out_of_range_is_refused_by_name(field: str, value: int) -> None:
    with pytest.raises(Invalid) as refused:
        Quotas(**{field: value})

    first, *rest = field.split("_")
    assert refused.value.field == f"quotas.{first}{''.join(word.capitalize() for word in rest)}"


def test_a_payload_is_measured_in_bytes() -> None:
    check_payload(Quotas(max_payload_bytes=4), '"é"')
    check_payload(NO_QUOTAS, '"long enough"')
    with pytest.raises(TooLarge) as refused:
        check_payload(Quotas(max_payload_bytes=4), '"éé"')

    assert refused.value.code == "DULY-E404"


def test_the_gates_of_a_tenant_are_its_own_and_the_rate_comes_last() -> None:
    both = Quotas(max_concurrent=3, max_fires_per_minute=60)

    running, rate = tenant_gates(7, both)

    assert (running.capacity, running.lasts, rate.capacity, rate.lasts) == (3, None, 60, MINUTE)
    assert running.kept
    assert rate.kept
    assert {gate.id for gate in tenant_gates(8, both)}.isdisjoint({running.id, rate.id})
    assert tenant_gates(7, NO_QUOTAS) == ()
