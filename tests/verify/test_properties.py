"""What must be true of any history: the checker passes what is lawful, finds what is not, and never falls over."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import permutations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.verify.checker import check
from duly.verify.checker.matching import pair
from duly.verify.history import SECOND, Event, History
from duly.verify.oracle import Walk, change_in_year, cron_fires
from tests.verify.scheduler import lawful

SEEDS = st.integers(0, 1 << 32)


def copy_of(history: History) -> History:
    return msgspec.json.decode(msgspec.json.encode(history), type=History)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_what_is_lawful_holds(seed: int) -> None:
    report = check(lawful(seed))

    assert report.findings() == []
    judged = {verdict.invariant for verdict in report.verdicts if verdict.status == "held"}
    assert {"I0", "I1", "I2", "I3", "I4", "I5", "I6", "I7", "I10", "I16", "I18", "I21", "I23"} <= judged


# --- one thing is changed ---------------------------------------------------------------------------------------------


def of_kind(history: History, kind: str, chance: random.Random) -> Event:
    return chance.choice([event for event in history.events if event.kind == kind])


def fired(history: History, chance: random.Random) -> Event:
    return chance.choice([event for event in history.events if event.kind == "fire.created" and event.data["trigger"] == 0])


def drop_a_fire(history: History, chance: random.Random) -> None:
    run = fired(history, chance).run
    history.events = [event for event in history.events if event.run != run]
    history.effects = [effect for effect in history.effects if effect.run != run]
    assert history.final is not None
    history.final.executions = [stands for stands in history.final.executions if stands.run != run]


def repeat_a_fire(history: History, chance: random.Random) -> None:
    run = fired(history, chance).run
    seq = history.events[-1].seq
    for event in [event for event in history.events if event.run == run]:
        seq += 1
        fence = None if event.fence is None else event.fence + 1000
        history.events.append(msgspec.structs.replace(event, seq=seq, run="run_again", fence=fence))
    assert history.final is not None
    stands = next(stands for stands in history.final.executions if stands.run == run)
    history.final.executions.append(msgspec.structs.replace(stands, run="run_again"))


def move_a_nominal_time(history: History, chance: random.Random) -> None:
    event = fired(history, chance)
    event.data = event.data | {"nominal": event.data["nominal"] - SECOND, "due": event.data["due"] - SECOND}


def begin_early(history: History, chance: random.Random) -> None:
    run = fired(history, chance)
    start = next(effect for effect in history.effects if effect.run == run.run and effect.phase == "start")
    start.at = run.data["due"] - 1


def begin_late(history: History, chance: random.Random) -> None:
    run = fired(history, chance).run
    for effect in history.effects:
        if effect.run == run:
            effect.at += 90 * SECOND


def grant_early(history: History, chance: random.Random) -> None:
    run = fired(history, chance)
    grant = next(event for event in history.events if event.run == run.run and event.kind == "lease.granted")
    grant.at = run.data["due"] - 1


def lower_a_fence(history: History, chance: random.Random) -> None:
    event = of_kind(history, "run.ended", chance)
    event.fence = (event.fence or 0) - 1


def forget_an_outcome(history: History, chance: random.Random) -> None:
    history.events.remove(of_kind(history, "run.ended", chance))


def forget_a_grant(history: History, chance: random.Random) -> None:
    history.events.remove(of_kind(history, "lease.granted", chance))


def forget_that_it_was_ready(history: History, chance: random.Random) -> None:
    history.events.remove(of_kind(history, "run.ready", chance))


def end_again(history: History, chance: random.Random) -> None:
    event = of_kind(history, "run.ended", chance)
    history.events.append(msgspec.structs.replace(event, seq=history.events[-1].seq + 1))


def grant_again(history: History, chance: random.Random) -> None:
    event = of_kind(history, "lease.granted", chance)
    place = history.events.index(event) + 1
    history.events.insert(place, msgspec.structs.replace(event, fence=(event.fence or 0) + 5000))
    for seq, event in enumerate(history.events, 1):
        event.seq = seq


def leave_out_an_attempt(history: History, chance: random.Random) -> None:
    run = of_kind(history, "lease.granted", chance).run
    for event in history.events:
        if event.run == run and event.attempt:
            event.attempt += 1


def change_the_tenant(history: History, chance: random.Random) -> None:
    of_kind(history, "fire.created", chance).tenant = 2


def write_to_the_sink_twice(history: History, chance: random.Random) -> None:
    effect = chance.choice([effect for effect in history.effects if effect.accepted])
    history.effects.append(effect)


def lose_a_job(history: History, chance: random.Random) -> None:
    assert history.final is not None
    history.final.jobs.pop(chance.randrange(len(history.final.jobs)))


def hide_an_execution(history: History, chance: random.Random) -> None:
    assert history.final is not None
    history.final.executions.pop(chance.randrange(len(history.final.executions)))


def change_a_final_state(history: History, chance: random.Random) -> None:
    assert history.final is not None
    chance.choice(history.final.executions).state = "DEAD"


def swap_two_numbers(history: History, chance: random.Random) -> None:
    place = chance.randrange(len(history.events) - 1)
    first, second = history.events[place : place + 2]
    first.seq, second.seq = second.seq, first.seq


def forget_who_did_it(history: History, chance: random.Random) -> None:
    chance.choice(history.events).actor = None


def run_without_a_handler(history: History, chance: random.Random) -> None:
    run = chance.choice(sorted({effect.run for effect in history.effects}))
    rest = [effect for effect in history.effects if effect.run != run]
    if rest:
        history.effects = rest
    else:
        history.events.remove(of_kind(history, "run.ended", chance))


MUTATIONS: list[Callable[[History, random.Random], None]] = [
    drop_a_fire,
    repeat_a_fire,
    move_a_nominal_time,
    begin_early,
    begin_late,
    grant_early,
    lower_a_fence,
    forget_an_outcome,
    forget_a_grant,
    forget_that_it_was_ready,
    end_again,
    grant_again,
    leave_out_an_attempt,
    change_the_tenant,
    write_to_the_sink_twice,
    lose_a_job,
    hide_an_execution,
    change_a_final_state,
    swap_two_numbers,
    forget_who_did_it,
    run_without_a_handler,
]


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
@settings(max_examples=8, deadline=None)
@given(seed=SEEDS)
def test_one_change_is_found(mutate: Callable[[History, random.Random], None], seed: int) -> None:
    history = copy_of(lawful(seed))
    mutate(history, random.Random(seed))

    assert not check(history).holds


@settings(max_examples=8, deadline=None)
@given(seed=SEEDS)
def test_a_stale_write_that_the_sink_takes_is_found(seed: int) -> None:
    history = copy_of(lawful(seed))
    refused = [effect for effect in history.effects if effect.accepted is False]
    for effect in refused:
        effect.accepted = True

    assert check(history).holds is (not refused)


# --- anything at all --------------------------------------------------------------------------------------------------

JUNK = st.one_of(st.none(), st.integers(-5, 5), st.just(1 << 70), st.text(max_size=3), st.lists(st.integers(), max_size=2), st.booleans())


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 20), data=st.data())
def test_nothing_makes_it_fall_over(seed: int, data: st.DataObject) -> None:
    history = copy_of(lawful(seed))
    chance = random.Random(data.draw(st.integers(0, 1 << 30)))
    for _ in range(data.draw(st.integers(1, 6))):
        sources = (history.events, history.effects, history.calls, history.faults or history.events)
        entry = chance.choice(chance.choice(sources))
        field = chance.choice(entry.__struct_fields__)
        junk = data.draw(JUNK)
        if field in ("data", "body", "answer", "about") and chance.random() < 0.7:
            inside = getattr(entry, field)
            setattr(entry, field, inside | {chance.choice([*inside, "x"]): junk})
        else:
            setattr(entry, field, junk)

    report = check(history)

    assert len(report.verdicts) == 25


def test_an_empty_history_is_broken() -> None:
    report = check(History(started_at=0, ended_at=0))

    assert [verdict.invariant for verdict in report.verdicts if verdict.status == "broken"] == ["I0"]
    assert {verdict.status for verdict in report.verdicts if verdict.invariant != "I0"} == {"not judged"}


# --- pairing and expanding --------------------------------------------------------------------------------------------


def most_pairs(intervals: list[tuple[int, int]], points: list[int]) -> int:
    """By trying every order."""
    best = 0
    for order in permutations(range(len(intervals))):
        left, found = list(points), 0
        for place in order:
            first, last = intervals[place]
            fits = [point for point in left if first <= point <= last]
            if fits:
                left.remove(min(fits))
                found += 1
        best = max(best, found)
    return best


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=5),
    st.lists(st.integers(0, 18), max_size=6),
)
def test_no_pairing_pairs_more(spans: list[tuple[int, int]], points: list[int]) -> None:
    intervals = [(first, first + length) for first, length in spans]

    alone, left = pair(intervals, points)

    assert len(intervals) - len(alone) == len(points) - len(left) == most_pairs(intervals, points)


ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "America/St_Johns", "Asia/Gaza"]


@pytest.mark.parametrize("zone", ZONES)
def test_a_short_window_has_the_fires_of_the_long_walk(zone: str) -> None:
    chance = random.Random(zone)
    for year in (2011, 2026):
        change = change_in_year(zone, year, chance.randrange(4))
        if change is None:
            continue
        start, end = change // 60 * 60 - 86_400, change // 60 * 60 + 86_400
        walk = Walk(zone, start - 7200, end + 7200, 60, change)
        for _ in range(20):
            text = " ".join(
                [
                    chance.choice(["*", "*/7", "30", "0,30", "15-45/10"]),
                    chance.choice(["*", "0-3", "2", "1,2,3", "*/2", "23,0"]),
                    chance.choice(["*", "?", "L", "15"]),
                    "*",
                    chance.choice(["*", "1-5", "sun"]),
                ]
            )
            for gap in ("run_after", "skip", "shift"):
                for overlap in ("first", "second", "both"):
                    expected = walk.fires(text, False, gap, overlap, start, end)
                    assert cron_fires(text, False, zone, gap, overlap, start, end) == expected, text
