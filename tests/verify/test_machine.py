"""What the machine does by itself is noted as a fault, and nothing else is."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from duly.verify import machine
from duly.verify.checker.windows import Windows, set_back
from duly.verify.history import SECOND, Fault, History
from duly.verify.judge import judge
from duly.verify.machine import LEARNT, Reading, between

NOW = Reading(1_800_000_000 * SECOND, 5_000 * SECOND)


def later(seconds: float, *, set_on: float = 0.0) -> Reading:
    return Reading(NOW.wall + round((seconds + set_on) * SECOND), NOW.boottime + round(seconds * SECOND))


@pytest.mark.parametrize("seconds", [0.1, 0.4, 1.0])
def test_time_that_passes_is_no_fault(seconds: float) -> None:
    assert between(NOW, later(seconds)) is None
    assert between(NOW, later(seconds, set_on=0.04)) is None, "clocks are slewed all the time"


def test_a_machine_that_stood_still_is_one() -> None:
    fault = between(NOW, later(4.0))

    assert fault is not None
    assert (fault.since, fault.until, fault.about) == (NOW.wall, NOW.wall + 4 * SECOND, {"seconds": 4.0})


@pytest.mark.parametrize("by", [56.0, 0.2, -0.2, -30.0])
def test_a_clock_that_was_set_is_one_until_everybody_has_learnt_of_it(by: float) -> None:
    fault = between(NOW, later(0.1, set_on=by))

    assert fault is not None
    assert fault.about == {"by": round(by * SECOND)}
    after = NOW.wall + round((0.1 + by) * SECOND)
    assert (fault.since, fault.until) == (NOW.wall, max(NOW.wall, after) + LEARNT)


def test_the_checker_knows_how_far_behind_the_nodes_may_have_been() -> None:
    fault = between(NOW, later(0.1, set_on=56.0))
    assert fault is not None
    windows = Windows(History(started_at=NOW.wall, ended_at=NOW.wall + 100 * SECOND, faults=[fault]))

    assert windows.behind(NOW.wall + SECOND, NOW.wall + 2 * SECOND) == 56 * SECOND
    assert windows.behind(NOW.wall + 90 * SECOND, NOW.wall + 91 * SECOND) == 0


def test_a_clock_that_was_set_on_makes_nothing_of_the_order_of_events() -> None:
    fault = between(NOW, later(0.1, set_on=56.0))
    assert fault is not None
    history = History(started_at=NOW.wall, ended_at=NOW.wall + 100 * SECOND, faults=[fault])

    assert set_back(history) == 0


@pytest.mark.parametrize(("seconds", "is_weak"), [(30, False), (300, True)])
def test_a_test_during_which_the_machine_stood_still_for_long_says_little(seconds: int, is_weak: bool) -> None:
    stood = Fault(kind=machine.KIND, since=NOW.wall, until=NOW.wall + seconds * SECOND, nodes=[], about={"seconds": seconds})
    history = History(started_at=NOW.wall, ended_at=NOW.wall + 600 * SECOND, faults=[stood])

    _, against = judge(history)

    assert any("stood still" in reason for reason in against) is is_weak


def test_what_happens_while_it_is_watched_is_noted() -> None:
    readings = iter([NOW, later(0.1), later(0.2), later(0.3, set_on=20.0), later(0.4, set_on=20.0)])
    seen, last = threading.Event(), NOW

    def read() -> Reading:
        nonlocal last
        found = next(readings, None)
        if found is None:
            seen.set()
            return last
        last = replace(found)
        return last

    faults: list[Fault] = []
    with machine.watched(faults, read, every=0.0):
        assert seen.wait(10)

    assert [fault.about for fault in faults] == [{"by": 20 * SECOND}]
