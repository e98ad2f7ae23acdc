"""I7 to I9: everything in time, and leaders that take over and step down."""

from __future__ import annotations

from tests.verify.cases.told import MICRO, asked, breaks, every_ten, on_demand
from tests.verify.histories import Story, text


@breaks("I7")
def a_start_is_late(story: Story, bad: bool) -> None:
    # A calm start: a poll, two seconds, and one that is forgiven.
    job = story.job(runAt=text(10))
    begin = 14 + (MICRO if bad else 0)
    story.fire(job, 10).ready(10.1).grant(12).start(begin).end(15).ends(15)


@breaks("I7")
def a_start_is_late_after_a_fault(story: Story, bad: bool) -> None:
    story.seconds = 200
    job = story.job(runAt=text(10))
    story.fault("kill", 8, 20, "node-1")
    begin = 20 + 30 + 1 + (MICRO if bad else 0)
    story.fire(job, 10, 20).ready(20).grant(begin).start(begin).end(60).ends(60)


@breaks("I7")
def a_fault_long_past_excuses_nothing(story: Story, bad: bool) -> None:
    story.seconds = 200
    job = story.job(runAt=text(60))
    story.fault("kill", 8, 30 - MICRO if bad else 30, "node-1")
    story.fire(job, 60, 60).ready(60).grant(64).start(64 + MICRO if bad else 61).end(66).ends(66)


@breaks("I7")
def an_enqueue_never_begins(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5)
    if not bad:
        told.runs(5.1, 6)


@breaks("I7")
def a_handler_began_late_and_the_store_hides_it(story: Story, bad: bool) -> None:
    job = every_ten(story, but=(30,))
    begin = 36 if bad else 32
    story.fire(job, 30).ready(30.1).grant(30.2).start(begin).end(38).ends(38)


@breaks("I7")
def a_busy_worker_excuses_only_as_long_as_it_is_busy(story: Story, bad: bool) -> None:
    story.about["slots"] = 1
    job = on_demand(story)
    asked(story, job, 5).ready(5).runs(5.1, 20)
    # Free at twenty; three seconds and one that is forgiven later it is late.
    begin = 24 + (MICRO if bad else 0)
    asked(story, job, 6, "run_y").ready(6).runs(begin, 25)


def owned(story: Story) -> str:
    """One shard, owned by a dispatcher of node-1."""
    story.event("shard.taken", 0, shard=1, epoch=1, data={"owner": "node-1-abc", "before": None})
    story.about["owners"] = {"node-1-abc": "node-1", "node-2-def": "node-2"}
    return story.job(intervalSec=10, anchorAt=text(0))


@breaks("I8")
def nobody_takes_over(story: Story, bad: bool) -> None:
    story.seconds = 100
    owned(story)
    story.fault("kill", 5, 95, "node-1")
    # The lease, five seconds, and one that is forgiven.
    story.event(
        "shard.taken", 5 + 6 + 5 + 1 + (MICRO if bad else 0), shard=1, epoch=2, data={"owner": "node-2-def", "before": "node-1-abc"}
    )


@breaks("I8")
def nobody_is_there_to_take_over(story: Story, bad: bool) -> None:
    story.seconds = 100
    owned(story)
    story.about["dispatchers"] = ["node-1", "node-2"] if bad else ["node-1"]
    story.fault("kill", 5, 95, "node-1")
    story.call("run.read", 2, runs=["run_a"], answer={"state": "SUCCEEDED"})
    story.call("run.read", 3, runs=["run_a"], answer={"state": "SUCCEEDED"})


@breaks("I8")
def a_client_reads_what_is_older_than_its_write(story: Story, bad: bool) -> None:
    job = every_ten(story)
    story.change(job, 32, 2, intervalSec=10, anchorAt=text(0))
    story.calls[-1].client = "c"
    story.call("job.read", 33, job=job, client="c" if bad else "d", answer={"version": 1})


@breaks("I8")
def a_client_is_told_that_there_is_no_such_job(story: Story, bad: bool) -> None:
    job = every_ten(story)
    story.call("job.read", 33, "fail", job=job, answer={"status": 404 if bad else 503})


@breaks("I8")
def a_final_state_is_read_and_then_another(story: Story, bad: bool) -> None:
    every_ten(story)
    story.call("run.read", 13, runs=["run_a_10"], answer={"state": "SUCCEEDED"})
    story.call("run.read", 14, runs=["run_a_10"], answer={"state": "RUNNING" if bad else "SUCCEEDED"})


@breaks("I9")
def an_epoch_goes_back(story: Story, bad: bool) -> None:
    every_ten(story)
    for epoch, when in ((1, 1), (3, 2), (2 if bad else 4, 3)):
        story.event("shard.taken", when, shard=1, epoch=epoch, data={"owner": f"o{epoch}", "before": None})


@breaks("I9")
def a_shard_changes_hands_within_an_epoch(story: Story, bad: bool) -> None:
    every_ten(story)
    story.event("shard.taken", 1, shard=1, epoch=1, data={"owner": "o1", "before": None})
    story.event("shard.taken", 2, shard=1, epoch=1 if bad else 2, data={"owner": "o2", "before": "o1"})


@breaks("I9")
def an_old_leader_fires(story: Story, bad: bool) -> None:
    job = owned(story)
    for event in story.events:
        event.actor = "node-1"
    story.actor = "node-2" if bad else "node-1"
    story.advance(job, 10, 20, owner="node-1-abc")
    for nominal in (10, 20, 30, 40, 50):
        story.good(job, nominal)


@breaks("I9")
def a_fire_is_written_in_an_old_epoch(story: Story, bad: bool) -> None:
    job = owned(story)
    story.event("shard.taken", 5, shard=1, epoch=2, data={"owner": "node-2-def", "before": "node-1-abc"})
    story.advance(job, 10, 20, epoch=1 if bad else 2)
    for nominal in (10, 20, 30, 40, 50):
        story.good(job, nominal)


@breaks("I9")
def whoever_pauses_a_job_need_not_lead(story: Story, bad: bool) -> None:
    job = owned(story)
    for event in story.events:
        event.actor = "node-1"
    story.actor = "node-2"
    # Pausing moves nothing on; firing does.
    story.advance(job, 50, 60 if bad else 50, paused=not bad, owner="node-1-abc")
    for nominal in (10, 20, 30, 40, 50):
        story.good(job, nominal)


@breaks("I9")
def whoever_changes_a_job_settles_what_it_owes(story: Story, bad: bool) -> None:
    job = owned(story)
    for event in story.events:
        event.actor = "node-1"
    if not bad:
        story.call("job.pause", 10, "info", took=1, job=job)
    story.actor = "node-2"
    story.advance(job, 10, 20, owner="node-1-abc")
    for nominal in (10, 20, 30, 40, 50):
        story.good(job, nominal)
