"""Where the next claim of a queue begins to look."""

from __future__ import annotations

from uuid import UUID

from duly.domain.instants import SECOND, Micros
from duly.domain.trail import FULL_LOOKS_IN, LEFT_FOR, SLOW, SLOW_LOOKS, Trail

HERE = (7, UUID(int=7))
THERE = (9, UUID(int=9))


def walked(took: Micros = SLOW) -> tuple[Trail, Micros]:
    """A trail after as many slow looks as it takes, and the time."""
    trail, now = Trail(), 0
    for _ in range(SLOW_LOOKS):
        trail.learn(None, now, took, HERE, found=100, is_full=True)
        now += took
    return trail, now


def test_a_quick_claim_leaves_no_trail() -> None:
    trail = Trail()

    for nth in range(5):
        trail.learn(None, nth * SLOW, SLOW - 1, HERE, found=100, is_full=True)

    assert trail.start(5 * SLOW) is None


def test_nor_does_a_single_slow_one() -> None:
    trail = Trail()

    trail.learn(None, 0, SLOW, HERE, found=100, is_full=True)

    assert trail.start(SLOW) is None


def test_after_slow_ones_claims_go_on_where_the_last_one_ended() -> None:
    trail, now = walked()

    assert trail.start(now) == HERE
    trail.learn(HERE, now, 100, THERE, found=100, is_full=True)

    assert trail.start(now + 100) == THERE


def test_the_whole_queue_is_looked_at_after_ten_times_what_that_costs() -> None:
    trail, now = walked()
    trail.learn(HERE, now, 100, THERE, found=100, is_full=True)

    assert trail.start(now + FULL_LOOKS_IN * SLOW - 1) == THERE
    assert trail.start(now + FULL_LOOKS_IN * SLOW) is None


def test_and_at_least_every_second_however_long_a_look_takes() -> None:
    trail, now = walked(took=2 * SECOND)

    assert trail.start(now + SECOND - 1) == HERE
    assert trail.start(now + SECOND) is None


def test_who_finds_less_than_he_asked_for_looks_at_the_whole_queue_next() -> None:
    trail, now = walked()

    trail.learn(HERE, now, 100, THERE, found=3, is_full=False)

    assert trail.start(now + 100) is None


def test_where_it_is_not_much_faster_it_is_left_for_a_while() -> None:
    # A server that is far away: each answer takes as long, wherever the look began.
    trail, now = walked()
    trail.learn(HERE, now, SLOW, THERE, found=100, is_full=True)

    skipping = 0
    while now < LEFT_FOR // 2:
        start = trail.start(now)
        skipping += start is not None
        trail.learn(start, now, SLOW, THERE, found=100, is_full=True)
        now += SLOW

    assert skipping == 0


def test_full_looks_take_little_of_the_time() -> None:
    trail, now, full = Trail(), 0, 0
    while now < 20 * SECOND:
        start = trail.start(now)
        took = SECOND // 4 if start is None else 5_000
        full += took if start is None else 0
        trail.learn(start, now, took, HERE, found=100, is_full=True)
        now += took

    assert full < now / 4
