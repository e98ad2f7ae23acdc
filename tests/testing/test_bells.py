"""Who was rung for, and whether all of it stands on one route."""

from __future__ import annotations

import pytest

from duly.testing.bells import Alarm, Switchboard
from duly.testing.database import at_once


@pytest.fixture
def bell() -> Switchboard:
    return Switchboard(Alarm().ring)


def test_one_route_is_known_while_every_ring_names_it(bell: Switchboard) -> None:
    at_once(bell.announce([7]))
    at_once(bell.announce([7]))

    assert bell.is_ready
    assert bell.route == 7


@pytest.mark.parametrize("others", [[8], [7, 8]])
def test_no_route_is_known_where_several_were_named(bell: Switchboard, others: list[int]) -> None:
    at_once(bell.announce([7]))
    at_once(bell.announce(others))
    at_once(bell.announce([7]))

    assert bell.is_ready
    assert bell.route is None


def test_no_route_is_known_when_somebody_has_rung_without_a_name_until_it_is_silenced(bell: Switchboard) -> None:
    bell.ring()
    at_once(bell.announce([7]))
    assert bell.route is None

    bell.silence()
    at_once(bell.announce([7]))

    assert bell.route == 7


def test_an_alarm_is_heard_until_the_next_ring() -> None:
    alarm = Alarm()
    assert alarm.is_heard

    alarm.ring()

    assert alarm.has_rung
    assert not alarm.is_heard
