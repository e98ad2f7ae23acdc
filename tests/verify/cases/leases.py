"""I3 to I6: one outcome, one lease, no stale write, nothing early."""

from __future__ import annotations

from tests.verify.cases.told import MICRO, asked, breaks, on_demand
from tests.verify.histories import Story, Told, at, text


@breaks("I3")
def a_run_ends_twice(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5).runs(5.1, 6)
    if bad:
        story.event("run.ended", 7, run=told.run, attempt=1, fence=told.fence, worker=1, data={"state": 5})


@breaks("I3")
def the_sink_takes_two_writes_of_one_attempt(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5).grant(5.1).start(5.1)
    told.sink(5.5).sink(5.6, accepted=bad).end(6).ends(6)


@breaks("I4")
def two_leases_are_live(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5).grant(5.1).start(5.1)
    if bad:
        told.grant(20, worker=2)
    else:
        told.lost(19, retry=20).ready(20).grant(20, worker=2)
    told.start(20).end(21).ends(21)


@breaks("I4")
def an_attempt_is_begun_twice(story: Story, bad: bool) -> None:
    told = asked(story, on_demand(story), 5).ready(5).grant(5.1).start(5.1)
    if bad:
        told.start(5.2)
    told.sink(6).end(6).ends(6)


@breaks("I4")
def a_fence_comes_back(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5).grant(5.1, fence=50).start(5.1).lost(19, retry=20).ready(20)
    told.grant(20, fence=50 if bad else 51, worker=2).start(20).end(21).ends(21)


def replaced(story: Story) -> tuple[Told, int]:
    """A run whose first worker was lost; a second one has it. Answers it with the old fence."""
    job = on_demand(story)
    told = asked(story, job, 5).ready(5).grant(5.1).start(5.1)
    old = told.fence
    told.lost(19, retry=20).ready(20).grant(20, worker=2).start(20)
    return told, old


@breaks("I5")
def a_stale_worker_ends_it(story: Story, bad: bool) -> None:
    told, old = replaced(story)
    told.end(22).ends(22, fence=old if bad else None, worker=1 if bad else None)


@breaks("I5")
def a_stale_worker_ends_the_attempt(story: Story, bad: bool) -> None:
    told, old = replaced(story)
    told.end(22)
    told.fails(22, outcome=5, fence=old if bad else None).ends(22, "CANCELLED")


@breaks("I5")
def a_stale_worker_saves_a_checkpoint(story: Story, bad: bool) -> None:
    told, _ = replaced(story)
    told.checkpoint(21, 1, attempt=1 if bad else 2).end(22).ends(22)


@breaks("I5")
def the_sink_takes_a_stale_write(story: Story, bad: bool) -> None:
    told, old = replaced(story)
    told.sink(21).sink(21.5, fence=old, accepted=bad).end(22).ends(22)


@breaks("I5")
def another_worker_ends_it(story: Story, bad: bool) -> None:
    told, _ = replaced(story)
    told.end(22).ends(22, worker=1 if bad else 2)


@breaks("I5")
def nobody_ends_what_is_leased(story: Story, bad: bool) -> None:
    told, _ = replaced(story)
    told.end(22).ends(22, "CANCELLED")
    if bad:
        story.events[-1].fence = None


@breaks("I6")
def a_grant_is_early(story: Story, bad: bool) -> None:
    job = story.job(runAt=text(10))
    when = 10 - MICRO if bad else 10
    story.fire(job, 10, when).ready(when).grant(when).start(10).end(11).ends(11)


@breaks("I6")
def a_handler_begins_early(story: Story, bad: bool) -> None:
    job = story.job(runAt=text(10))
    story.fire(job, 10, 10).ready(10).grant(10).start(10 - MICRO if bad else 10).end(11).ends(11)


@breaks("I6")
def a_retry_is_early(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5).grant(5.1).start(5.1).end(6).fails(6, retry=16)
    told.ready(16 - MICRO if bad else 16).grant(16 - MICRO if bad else 16).start(16).end(17).ends(17)


@breaks("I6")
def a_hastened_retry_is_early(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5).grant(5.1).start(5.1).end(6).fails(6, retry=16)
    if not bad:
        story.event("timer.changed", 9, run=told.run, attempt=2, data={"due": at(9)})
    told.ready(10).runs(10, 11)


@breaks("I6")
def a_fire_is_recorded_early(story: Story, bad: bool) -> None:
    job = story.job(runAt=text(10), catchUp="none")
    story.fire(job, 10, 10 - MICRO if bad else 10).ready(10).runs(10.1, 11)


@breaks("I6")
def a_jittered_fire_begins_at_its_nominal_time(story: Story, bad: bool) -> None:
    job = story.job(runAt=text(10), jitterSec=5)
    told = story.fire(job, 10, due=12).scheduled(10.1, 12).ready(12 - MICRO if bad else 12)
    told.grant(12 - MICRO if bad else 12).start(12).end(13).ends(13)
