"""I19 to I24: hints, drains, counts, clocks, secrets, resources."""

from __future__ import annotations

from duly.verify.history import SECOND
from tests.verify.cases.told import MICRO, asked, breaks, every_ten, on_demand
from tests.verify.histories import Story, at, text


@breaks("I19")
def a_lost_hint_loses_a_target(story: Story, bad: bool) -> None:
    story.about["hints"] = {"index emptied": 3}
    every_ten(story, but=(30,) if bad else ())


@breaks("I19")
def the_index_stays_wrong(story: Story, bad: bool) -> None:
    story.about |= {"hints": 1, "indexDiffers": ["job_a"] if bad else []}
    every_ten(story)


def drained(story: Story, until: float = 40, **about: object) -> str:
    story.event("worker.registered", 1, worker=1, data={"expires": at(16), "name": "node-1-w"})
    story.fault("drain", 20, until, "node-1", **about)
    return on_demand(story)


@breaks("I20")
def a_draining_worker_takes_more(story: Story, bad: bool) -> None:
    job = drained(story)
    when = 21 + (MICRO if bad else 0)
    asked(story, job, 20).ready(20).runs(when, when + 1)


@breaks("I20")
def a_claim_that_was_under_way_when_the_drain_began_is_none_after_it(story: Story, bad: bool) -> None:
    job = drained(story)
    asked(story, job, 20).ready(20).runs(25, 26, asked=21 + (MICRO if bad else 0))


@breaks("I20")
def a_drained_worker_is_not_the_next_one_by_a_clock_that_was_set_back(story: Story, bad: bool) -> None:
    story.fault("clock step", 21, 60, "store", by=-SECOND // 2)
    story.event("worker.registered", 1, worker=2, data={"expires": at(16), "name": "node-1-v"})
    story.event("worker.registered", 19.5 - (MICRO if bad else -MICRO), worker=1, data={"expires": at(36), "name": "node-1-w"})
    story.fault("drain", 20, 40, "node-1")
    asked(story, on_demand(story), 22).ready(22).runs(22, 23)


@breaks("I20")
def a_draining_worker_keeps_what_it_has(story: Story, bad: bool) -> None:
    job = drained(story, grace=10 * SECOND)
    told = asked(story, job, 19).ready(19).grant(19.1).start(19.1)
    over = 31 + (MICRO if bad else 0)
    told.fails(over, retry=over, outcome=6).ready(over).runs(over + 0.1, over + 1, worker=2)


@breaks("I21")
def a_counter_is_wrong(story: Story, bad: bool) -> None:
    every_ten(story)
    story.counts = {"SUCCEEDED": 4 if bad else 5, "DEAD": 0}


@breaks("I21")
def an_execution_is_not_shown(story: Story, bad: bool) -> None:
    every_ten(story)
    if bad:
        story.told.pop(2)


@breaks("I22")
def a_repeated_hour_fires_again(story: Story, bad: bool) -> None:
    # New York repeats 01:00 to 02:00 on 1 November 2026: 01:30 is 05:30 and 06:30 UTC.
    first = ((31 - 5 + 28 + 31 + 30 + 31 + 30 + 31 + 31 + 30 + 31 + 1) * 24 + 5.5 - 12) * 3600
    story.seconds = first + 2 * 3600
    both = {} if bad else {"dstOverlap": "both"}
    job = story.job(schedule="30 1 * * *", timezone="America/New_York", startAt=text(first - 60), **both)
    story.good(job, first)
    story.good(job, first + 3600)
    if not bad:
        lawful = story.job("b", schedule="30 1 * * *", timezone="America/New_York", startAt=text(first - 60))
        story.good(lawful, first)


@breaks("I23")
def a_change_has_no_actor(story: Story, bad: bool) -> None:
    story.actor = "node-1"
    every_ten(story)
    if bad:
        story.events[4].actor = None


@breaks("I23")
def a_secret_is_answered(story: Story, bad: bool) -> None:
    story.about["canaries"] = ["hunter2"]
    job = every_ten(story)
    story.call("job.read", 12, job=job, answer={"payload": "hunter2" if bad else "env:PASSWORD"})


@breaks("I24")
def memory_grows(story: Story, bad: bool) -> None:
    every_ten(story)
    story.about["slopes"] = {"rss": 1_000_000}
    grows = 300 if bad else 200
    story.about["samples"] = [{"at": at(second), "rss": 50_000_000 + second * grows} for second in range(0, 60, 10)]
