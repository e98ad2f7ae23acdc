"""Where queues begin, as looks have found it."""

from __future__ import annotations

from uuid import UUID

from duly.domain.heads import LONG, LONG_LOOKS, LONGEST, MOST_QUEUES, WHOLE_LOOKS_IN, Heads, Queue
from duly.domain.instants import Micros
from duly.domain.trail import Place

ROUTE, OTHER = 3, 4
OURS, THEIRS = (ROUTE, 1), (ROUTE, 2)
HERE: Place = (7, UUID(int=7))
THERE: Place = (9, UUID(int=9))
FOUND: dict[Queue, Place] = {OURS: HERE, THEIRS: THERE}


def looked(took: Micros = LONG, found: dict[Queue, Place] = FOUND) -> tuple[Heads, Micros]:
    """After as many looks as it takes, and the time of the last."""
    heads = Heads()
    for now in range(LONG_LOOKS):
        heads.looked_at_all([ROUTE], found, now, took)
    return heads, LONG_LOOKS - 1


def test_looks_that_take_no_longer_than_they_must_leave_nothing_behind() -> None:
    heads, now = looked(LONG - 1)

    assert heads.known([ROUTE], now) == {}
    assert heads.place(OURS, now) is None


def test_nor_does_a_single_long_one() -> None:
    heads = Heads()

    heads.looked_at_all([ROUTE], FOUND, 0, LONG)

    assert heads.known([ROUTE], 0) == {}


def test_after_long_ones_each_queue_begins_where_its_first_was_found() -> None:
    heads, now = looked()

    assert heads.known([ROUTE], now) == FOUND
    assert (heads.place(OURS, now), heads.place(THEIRS, now)) == (HERE, THERE)
    assert heads.known([OTHER], now) == {}
    assert heads.place((OTHER, 1), now) is None


def test_everything_is_looked_at_again_after_twenty_times_what_that_takes() -> None:
    heads, now = looked()
    then = now + WHOLE_LOOKS_IN * LONG

    assert heads.known([ROUTE], then - 1) == FOUND
    assert heads.known([ROUTE], then) == {}
    assert heads.place(OURS, then) is None


def test_and_at_least_every_second_however_long_a_look_takes() -> None:
    heads, now = looked(LONGEST)

    assert heads.place(OURS, now + LONGEST - 1) == HERE
    assert heads.place(OURS, now + LONGEST) is None


def test_looks_that_go_on_from_there_move_the_places_but_not_the_time() -> None:
    heads, now = looked()

    heads.looked_on(FOUND, {OURS: THERE, THEIRS: THERE})

    assert heads.known([ROUTE], now) == {OURS: THERE, THEIRS: THERE}
    assert heads.known([ROUTE], now + WHOLE_LOOKS_IN * LONG) == {}


def test_a_queue_that_has_nothing_from_its_place_on_begins_at_its_head() -> None:
    heads, now = looked()

    heads.looked_on(FOUND, {THEIRS: THERE})

    assert heads.known([ROUTE], now) == {THEIRS: THERE}


def test_who_is_new_is_not_remembered_before_everything_is_looked_at() -> None:
    heads, now = looked()

    heads.looked_on(FOUND, FOUND | {(ROUTE, tenant): HERE for tenant in range(3, 1000)})

    assert heads.known([ROUTE], now) == FOUND


def test_a_whole_look_replaces_what_was_known_of_its_routes_alone() -> None:
    heads, now = looked()

    heads.looked_at_all([OTHER], {(OTHER, 1): HERE}, now, LONG)
    assert heads.known([ROUTE, OTHER], now) == FOUND | {(OTHER, 1): HERE}
    heads.looked_at_all([ROUTE], {OURS: THERE}, now, LONG)

    assert heads.known([ROUTE, OTHER], now) == {OURS: THERE, (OTHER, 1): HERE}


def test_one_that_was_short_ends_it() -> None:
    heads, now = looked()

    heads.looked_at_all([ROUTE], FOUND, now, LONG - 1)

    assert heads.known([ROUTE], now) == {}


def test_of_many_queues_none_is_remembered() -> None:
    many = {(ROUTE, tenant): HERE for tenant in range(MOST_QUEUES + 1)}

    heads, now = looked(found=many)

    assert heads.known([ROUTE], now) == {}


def test_what_is_forgotten_begins_at_its_head() -> None:
    heads, now = looked()

    heads.forget([OURS])

    assert heads.known([ROUTE], now) == {THEIRS: THERE}
