"""A memory that follows what is in use."""

from __future__ import annotations

from duly.domain.instants import DAY, HOUR
from duly.domain.recent import GENERATION, Lately, Recent


def ask(recent: Recent[str], wanted: set[int], now: int) -> list[int]:
    """Ask for these, and look up what is unknown; answers what was."""
    unknown = recent.unknown(wanted, now)
    recent.learn({number: f"value {number}" for number in unknown})
    assert recent.known(wanted) == {number: f"value {number}" for number in wanted}
    return unknown


def test_what_is_in_use_is_looked_up_once() -> None:
    recent: Recent[str] = Recent()

    looked_up = [ask(recent, {3, 1}, now) for now in range(0, DAY, GENERATION // 2)]

    assert looked_up[0] == [1, 3]
    assert not any(looked_up[1:])


def test_what_nobody_asked_for_in_a_generation_is_forgotten() -> None:
    recent: Recent[str] = Recent()
    ask(recent, {1, 2}, HOUR)

    ask(recent, {2}, HOUR + GENERATION + 1)
    ask(recent, {2}, HOUR + 2 * GENERATION + 2)

    assert recent.known({1, 2}) == {2: "value 2"}
    assert recent.unknown({1, 2}, HOUR + 2 * GENERATION + 3) == [1]


def test_a_stream_of_numbers_that_come_once_is_not_kept() -> None:
    recent: Recent[str] = Recent(lasts=100)

    for number in range(10_000):
        ask(recent, {number}, number)

    assert len(recent.known(set(range(10_000)))) <= 202


def test_a_clock_that_was_set_back_keeps_nothing_for_ever() -> None:
    recent: Recent[str] = Recent()
    ask(recent, {1}, DAY)

    ask(recent, {2}, HOUR)
    ask(recent, {2}, HOUR + GENERATION + 1)

    assert recent.known({1, 2}) == {2: "value 2"}


def test_what_was_known_is_there_though_somebody_else_ended_the_generation() -> None:
    recent: Recent[str] = Recent()
    ask(recent, {1}, 0)
    assert recent.unknown({1, 2}, 1) == [2]

    recent.unknown(set(), GENERATION + 2)
    recent.learn({2: "value 2"})

    assert recent.known({1, 2}) == {1: "value 1", 2: "value 2"}


def test_one_by_one_what_is_asked_for_stays_and_what_is_not_goes() -> None:
    lately: Lately[str, str] = Lately(lasts=100)
    for name in ("kept", "left"):
        assert lately.get(name, 0) is None
        lately.put(name, name)

    found = [lately.get("kept", now) for now in range(0, 1000, 50)]

    assert set(found) == {"kept"}
    assert lately.get("left", 1000) is None
    assert len(lately) <= 2


def test_a_generation_ends_when_it_is_full() -> None:
    lately: Lately[int, int] = Lately(most=10)

    for number in range(1000):
        lately.put(number, number)

    assert len(lately) <= 20
    assert lately.get(999, 0) == 999
