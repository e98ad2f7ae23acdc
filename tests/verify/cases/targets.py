"""I1 and I2: nothing is lost, and every target fires once."""

from __future__ import annotations

from tests.verify.cases.told import MICRO, asked, breaks, every_ten, long_run, on_demand
from tests.verify.histories import Story, text


@breaks("I1")
def an_acknowledged_job_is_gone(story: Story, bad: bool) -> None:
    job = on_demand(story)
    asked(story, job, 5).ready(5).runs(5.1, 6)
    story.deleted.add(job)
    if not bad:
        story.call("job.delete", 7, "info", job=job)


@breaks("I1")
def an_acknowledged_job_was_never_there(story: Story, bad: bool) -> None:
    every_ten(story)
    status = "ok" if bad else "info"
    story.call("job.create", 3, status, job="job_b" if bad else None, body={"name": "b"})


@breaks("I1")
def an_acknowledged_run_was_never_there(story: Story, bad: bool) -> None:
    job = every_ten(story)
    story.call("run.enqueue", 3, "ok" if bad else "info", job=job, runs=["run_x"] if bad else [])


@breaks("I1")
def a_target_is_lost(story: Story, bad: bool) -> None:
    every_ten(story, but=(30,) if bad else ())


@breaks("I1")
def a_target_is_lost_just_before_the_end(story: Story, bad: bool) -> None:
    # Due at 56, late at 60: at that instant the final read is made.
    story.seconds = 60 if bad else 60 - MICRO
    story.job(runAt=text(56))
    every_ten(story, name="b")


@breaks("I1")
def a_run_waits_for_no_reason(story: Story, bad: bool) -> None:
    # Ready since 56; at sixty it should have begun.
    story.seconds = 60 if bad else 60 - MICRO
    asked(story, on_demand(story), 56).ready(56)


@breaks("I1")
def a_lost_worker_still_has_a_run(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5).grant(5.1).start(5.2)
    story.event("worker.lost", 20, worker=told.worker if bad else 2)


@breaks("I1")
def what_was_said_of_an_unknown_create_counts(story: Story, bad: bool) -> None:
    job = story.job(status="info", runAt=text(10))
    if not bad:
        story.good(job, 10)


@breaks("I1")
def a_retry_is_forgotten(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5).grant(5.1).start(5.1).end(6)
    told.fails(6, retry=16 if bad else 59)


@breaks("I2")
def a_target_fires_twice(story: Story, bad: bool) -> None:
    job = every_ten(story)
    if bad:
        story.good(job, 30, run="run_again")


@breaks("I2")
def a_fire_has_no_target(story: Story, bad: bool) -> None:
    job = every_ten(story, but=(30,))
    story.good(job, 30 + (MICRO if bad else 0))
    if bad:
        story.good(job, 30)


@breaks("I2")
def a_target_does_not_fire(story: Story, bad: bool) -> None:
    every_ten(story, but=(20,) if bad else ())


@breaks("I2")
def the_old_version_still_fires(story: Story, bad: bool) -> None:
    job = every_ten(story, until=30)
    # While the change is under way, the old schedule may still fire.
    story.change(job, 35 if bad else 39.9, 2, took=0.2, intervalSec=10, anchorAt=text(5))
    story.good(job, 40)
    for nominal in (45, 55):
        story.good(job, nominal, version=2)


@breaks("I2")
def an_unknown_change_allows_either_but_no_third(story: Story, bad: bool) -> None:
    job = every_ten(story, until=30)
    story.change(job, 33, 2, "info", intervalSec=10, anchorAt=text(5))
    story.good(job, 45, version=2)
    story.good(job, 47 if bad else 55, version=2)


@breaks("I2")
def nobody_enqueued_it(story: Story, bad: bool) -> None:
    job = on_demand(story)
    asked(story, job, 5).ready(5).runs(5.1, 6)
    if not bad:
        story.call("run.enqueue", 7, "info", job=job)
    story.good(job, 7, run="run_y", trigger=1)


@breaks("I2")
def the_store_says_it_ran(story: Story, bad: bool) -> None:
    job = every_ten(story, but=(30,))
    told = story.fire(job, 30).ready(30.1).grant(30.2)
    if not bad:
        told.start(30.2)
    told.ends(31)


@breaks("I2")
def a_handler_ran_what_was_skipped(story: Story, bad: bool) -> None:
    job, first = long_run(story, overlap="skip")
    second = story.fire(job, 20, place=True).ends(20.02, "SKIPPED")
    second.fence = first.fence
    (second if bad else first).sink(22)
    if bad:
        story.event("lease.granted", 19, run=second.run, attempt=1, fence=second.fence, worker=1)
        second.start(22)
    first.end(25).ends(25)


@breaks("I2")
def jitter_moves_it_too_far(story: Story, bad: bool) -> None:
    job = story.job(runAt=text(10), jitterSec=5)
    due = 15 if bad else 15 - MICRO
    story.fire(job, 10, due=due).scheduled(10.1, due).ready(due).runs(due, due + 1)


@breaks("I2")
def nobody_asked_to_skip(story: Story, bad: bool) -> None:
    job = every_ten(story, but=(30,))
    if not bad:
        story.call("job.skip", 25, job=job, body={"at": text(30)})
    story.fire(job, 30, skip=3)


@breaks("I2")
def a_fire_lies_past_the_end(story: Story, bad: bool) -> None:
    job = story.job(intervalSec=10, anchorAt=text(0), endAt=text(30 - MICRO if bad else 30))
    for nominal in (10, 20, 30):
        story.good(job, nominal)


@breaks("I2")
def a_fire_lies_before_the_start(story: Story, bad: bool) -> None:
    job = story.job(schedule="* * * * *", startAt=text(60 + MICRO if bad else 60))
    story.seconds = 100
    story.good(job, 60)


@breaks("I2")
def a_local_time_in_a_gap_fires_after_it(story: Story, bad: bool) -> None:
    # New York skips from 02:00 to 03:00 on 8 March 2026: 02:30 fires at 03:00, which is 07:00 UTC.
    gap = (62 * 24 + 7 - 12) * 3600.0 - 24 * 3600 * 0
    story.seconds = gap + 4000
    job = story.job(schedule="30 2 * * *", timezone="America/New_York", startAt=text(gap - 3600))
    story.good(job, gap + (1800 if bad else 0))


@breaks("I2")
def a_refused_create_made_a_job(story: Story, bad: bool) -> None:
    every_ten(story)
    story.job("b", 3, "fail" if bad else "info")


@breaks("I2")
def a_schedule_moves_past_a_target(story: Story, bad: bool) -> None:
    # Too early to call it late; but where the schedule has been, a fire must be.
    story.seconds = 31
    job = story.job(intervalSec=10, anchorAt=text(0))
    for nominal in (10, 20, 30):
        story.advance(job, nominal, nominal + 10)
        if nominal < 30 or not bad:
            story.good(job, nominal)


@breaks("I2")
def a_move_without_a_fire(story: Story, bad: bool) -> None:
    story.seconds = 33
    job = story.job(intervalSec=10, anchorAt=text(0))
    for nominal in (10, 20):
        story.advance(job, nominal, nominal + 10)
        story.good(job, nominal)
    if bad:
        story.advance(job, 30, 40)
    else:
        # It was changed, and waits for another fire.
        story.change(job, 30.001, 2, intervalSec=10, anchorAt=text(5))
        story.advance(job, 30, 35, version=2)
