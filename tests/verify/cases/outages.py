"""I12: what an outage leaves."""

from __future__ import annotations

from tests.verify.cases.told import breaks
from tests.verify.histories import Story, text

Moves = tuple[tuple[float, float], ...]


def outage(story: Story, ran: set[int], *, count: int = 5, every: int = 60, late: float = 45, before: Moves = (), **body: object) -> None:
    """A job whose dispatchers were away for `count` targets; those in `ran` ran, the others are misfires."""
    job = story.job(**{"intervalSec": every, "anchorAt": text(0), **body})
    for frm, to in before:
        story.advance(job, frm, to, 0.5)
    back = count * every + late
    # Healed long enough ago that a decision is not much older than its commit, and just so that the start is in time.
    story.fault("kill", 1, back - 30.5, "node-1")
    story.seconds = back + every - late - 1
    for nth in range(1, count + 1):
        nominal = nth * every
        if nth in ran:
            story.fire(job, nominal, back).ready(back).runs(back + 0.1, back + 1)
        else:
            story.fire(job, nominal, back, skip=2)
    story.advance(job, every, (count + 1) * every, back)


@breaks("I12")
def latest_runs_two(story: Story, bad: bool) -> None:
    outage(story, {4, 5} if bad else {5})


@breaks("I12")
def latest_runs_none(story: Story, bad: bool) -> None:
    outage(story, set() if bad else {5})


@breaks("I12")
def none_runs_what_is_too_old(story: Story, bad: bool) -> None:
    # Forty-five seconds late for the fifth; the grace is a minute.
    outage(story, {4, 5} if bad else {5}, catchUp="none")


@breaks("I12")
def none_skips_what_is_within_its_grace(story: Story, bad: bool) -> None:
    outage(story, {5}, catchUp={"policy": "none", "graceSec": 105 if bad else 104})


@breaks("I12")
def all_runs_more_than_its_count(story: Story, bad: bool) -> None:
    outage(story, {3, 4, 5}, catchUp={"policy": "all", "maxCount": 2 if bad else 3})


@breaks("I12")
def all_runs_what_lies_outside_its_window(story: Story, bad: bool) -> None:
    outage(story, {3, 4, 5}, catchUp={"policy": "all", "windowSec": 134 if bad else 135})


@breaks("I12")
def a_busy_moment_is_no_outage(story: Story, bad: bool) -> None:
    # The first is forty-five seconds late.
    outage(story, {5}, every=10, late=5, catchUp={"policy": "latest", "graceSec": 45 if bad else 44})


@breaks("I12")
def a_misfire_that_no_schedule_moved_past(story: Story, bad: bool) -> None:
    outage(story, {5})
    if bad:
        story.events.pop()


@breaks("I12")
def what_a_pause_moved_past_is_caught_up_when_it_is_taken_back(story: Story, bad: bool) -> None:
    outage(story, {5}, before=((60, 240),) if bad else ((60, 240), (240, 60)))
