"""I11: overlap and limits."""

from __future__ import annotations

from tests.verify.cases.told import MICRO, asked, breaks, long_run, on_demand
from tests.verify.histories import Story, text


@breaks("I11")
def two_runs_are_live(story: Story, bad: bool) -> None:
    job, first = long_run(story, overlap="skip")
    if not bad:
        first.end(19).ends(19)
    story.fire(job, 20, place=True).place(20.01).ready(20.02).runs(20.03, 21)
    if bad:
        first.end(30).ends(30)


@breaks("I11")
def it_is_skipped_and_nobody_was_live(story: Story, bad: bool) -> None:
    job, first = long_run(story, overlap="skip")
    first.end(18 if bad else 25)
    if bad:
        first.ends(18)
    story.fire(job, 20, place=True).ends(20.01, "SKIPPED")
    if not bad:
        first.ends(25)


@breaks("I11")
def it_is_skipped_and_any_number_may_run(story: Story, bad: bool) -> None:
    job = story.job(intervalSec=10, anchorAt=text(0), endAt=text(29), overlap="allow", **({} if bad else {"maxRunning": 1}))
    first = story.fire(job, 10, place=not bad)
    if not bad:
        first.place(10.01)
    first.ready(10.02).grant(10.03).start(10.03)
    story.fire(job, 20, place=not bad).ends(20.01, "SKIPPED")
    first.end(30).ends(30)


@breaks("I11")
def too_many_wait(story: Story, bad: bool) -> None:
    job, first = long_run(story, overlap="queue_all", maxQueued=1 if bad else 2, endAt=text(39))
    waiting = [story.fire(job, nominal, place=True).blocked(nominal + 0.02) for nominal in (20, 30)]
    first.end(35).ends(35)
    for told, when in zip(waiting, (35.1, 37), strict=True):
        told.place(when).ready(when).runs(when + 0.1, when + 1)


@breaks("I11")
def it_is_skipped_and_the_queue_has_room(story: Story, bad: bool) -> None:
    job, first = long_run(story, overlap="queue_one", endAt=text(39))
    waiting = story.fire(job, 20, place=True)
    if bad:
        waiting.ends(20.02, "SKIPPED")
    else:
        waiting.blocked(20.02)
    story.fire(job, 30, place=True).ends(30.02, "SKIPPED") if not bad else story.fire(job, 30, place=True).blocked(30.02)
    first.end(35).ends(35)
    (waiting if not bad else story.told[-1]).place(35.1).ready(35.1).runs(35.2, 36)


@breaks("I11")
def nobody_asks_the_previous_to_stop(story: Story, bad: bool) -> None:
    job, first = long_run(story, overlap="cancel_previous")
    second = story.fire(job, 20, place=True).blocked(20.02)
    if not bad:
        first.cancel(20.02, "overlap")
    first.end(23).fails(23, outcome=5).ends(23, "CANCELLED")
    second.place(23.1).ready(23.1).runs(23.2, 24)


@breaks("I11")
def one_more_than_may_run(story: Story, bad: bool) -> None:
    job = story.job(intervalSec=10, anchorAt=text(0), endAt=text(39), overlap="allow", maxRunning=2 if bad else 3)
    told = [
        story.fire(job, nominal, place=True).place(nominal + 0.01).ready(nominal + 0.02).grant(nominal + 0.03).start(nominal + 0.03)
        for nominal in (10, 20, 30)
    ]
    for run in told:
        run.end(35).ends(35)


@breaks("I11")
def it_runs_without_a_place(story: Story, bad: bool) -> None:
    job = story.job(runAt=text(10), overlap="skip")
    told = story.fire(job, 10, place=True)
    if not bad:
        told.place(10.01)
    told.ready(10.02).runs(10.03, 11)


@breaks("I11")
def a_waiter_is_skipped_that_nobody_replaces(story: Story, bad: bool) -> None:
    job, first = long_run(story, overlap="queue_one" if bad else "cancel_previous", endAt=text(39))
    first.cancel(20.02, "overlap")
    story.fire(job, 20, place=True).blocked(20.02).ends(30.01, "SKIPPED")
    third = story.fire(job, 30, place=True).blocked(30.02)
    first.end(35).fails(35, outcome=5).ends(35, "CANCELLED")
    third.place(35.1).ready(35.1).runs(35.2, 36)


@breaks("I11")
def a_gate_is_overfull(story: Story, bad: bool) -> None:
    job = on_demand(story, maxConcurrent=1)
    for run, when in (("run_x", 5.1), ("run_y", 5.9 if bad else 6)):
        told = asked(story, job, 5, run).blocked(5, 1)
        story.event("slot.taken", when, run=run, attempt=1, data={"gate": "g", "until": None})
        told.ready(when).runs(when, when + 0.9)
        story.event("slot.left", when + 0.9, run=run, attempt=1, data={"gate": "g", "until": None})


@breaks("I11")
def a_rate_is_exceeded(story: Story, bad: bool) -> None:
    job = on_demand(story, rateLimit={"count": 2, "perSec": 3})
    for run, when in (("run_x", 5), ("run_y", 6), ("run_z", 8 - (MICRO if bad else 0))):
        asked(story, job, 5, run).blocked(5, 1).ready(when).runs(when, when + 1)


@breaks("I11")
def a_rate_is_exceeded_whenever_a_claim_that_was_held_up_began(story: Story, bad: bool) -> None:
    job = on_demand(story, rateLimit={"count": 1, "perSec": 3})
    asked(story, job, 5, "run_x").blocked(5, 1).ready(5).runs(5.2, 6)
    held_up = asked(story, job, 5, "run_y").blocked(5, 1).ready(6 if bad else 8.5)
    # Asked for before the other, and long on its way.
    when = 7 if bad else 9
    held_up.runs(when, when + 1, asked=5.1)
