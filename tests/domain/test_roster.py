"""Who is there, and who has left."""

from __future__ import annotations

from duly.domain.roster import ABSENT_FOR, TOLD_FOR, Roster


def _three() -> Roster:
    roster = Roster("a")
    roster.seen(["a", "b", "c"])
    return roster


def test_who_goes_has_left_when_a_living_one_would_have_come_back() -> None:
    roster = _three()

    roster.went("b", 1_000)

    assert roster.left(1_000 + ABSENT_FOR - 1) == frozenset()
    assert roster.left(1_000 + ABSENT_FOR) == {"b"}


def test_who_comes_back_has_not_left() -> None:
    roster = _three()
    roster.went("b", 0)

    roster.came("b")

    assert roster.left(ABSENT_FOR) == frozenset()


def test_who_is_missing_after_a_silence_has_not_left() -> None:
    roster = _three()

    roster.unheard()
    roster.seen(["a", "c"])

    assert roster.left(TOLD_FOR - 1) == frozenset()


def test_who_is_not_on_the_list_himself_knows_nothing_about_others() -> None:
    roster = _three()

    roster.went("b", 0)
    roster.went("a", 0)

    assert roster.left(ABSENT_FOR) == frozenset()
    roster.came("a")
    assert roster.left(ABSENT_FOR) == {"b"}


def test_a_hint_is_dropped_when_the_leases_have_told_the_same() -> None:
    roster = _three()

    roster.went("b", 0)

    assert roster.left(TOLD_FOR - 1) == {"b"}
    assert roster.left(TOLD_FOR) == frozenset()


def test_who_was_never_there_does_not_leave() -> None:
    roster = _three()

    roster.went("x", 0)

    assert roster.left(ABSENT_FOR) == frozenset()
