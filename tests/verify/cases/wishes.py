"""I13, I14, I16 and I17: what clients asked for, workflows, tenants, keys."""

from __future__ import annotations

from duly.verify.history import Call
from tests.verify.cases.told import MICRO, asked, breaks, every_ten, on_demand
from tests.verify.histories import Story, Told, text


@breaks("I13")
def it_is_granted_after_its_cancel(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5)
    if not bad:
        told.grant(6.01).start(6.01)
    story.call("run.cancel", 6, job=job, runs=["run_x"])
    told.cancel(6)
    if bad:
        told.grant(6.01 + MICRO).start(6.1)
    told.end(7).fails(7, outcome=5).ends(7, "CANCELLED")


@breaks("I13")
def what_waited_succeeds_after_its_cancel(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5)
    story.call("run.cancel", 6, job=job, runs=["run_x"])
    told.cancel(6)
    if bad:
        told.grant(8).start(8).end(9).ends(9)
    else:
        told.ends(6, "CANCELLED")


@breaks("I13")
def a_cancel_is_forgotten(story: Story, bad: bool) -> None:
    job = on_demand(story)
    story.seconds = 200
    told = asked(story, job, 5).ready(5).grant(5.1).start(5.1)
    story.call("run.cancel", 6, job=job, runs=["run_x"])
    told.cancel(6)
    if not bad:
        told.end(20).fails(20, outcome=5).ends(20, "CANCELLED")


@breaks("I13")
def the_answer_of_a_cancel_is_taken_back(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5).grant(5.1).start(5.1)
    story.call("run.cancel", 6, job=job, runs=["run_x"], answer={"state": "CANCELLED" if bad else "RUNNING"})
    told.cancel(6).end(7).ends(7)


@breaks("I13")
def it_fires_while_it_is_paused(story: Story, bad: bool) -> None:
    job = every_ten(story, until=30)
    # A pause that is under way at forty may still see that fire.
    story.call("job.pause", 39 if bad else 39.995, job=job, took=0.01)
    story.good(job, 40)


@breaks("I13")
def it_fires_before_its_pause_is_over(story: Story, bad: bool) -> None:
    job = every_ten(story, until=20)
    story.call("job.pause", 25, job=job, body={"until": text(50 + MICRO if bad else 50)})
    story.good(job, 50)


@breaks("I13")
def it_fires_after_it_was_deleted(story: Story, bad: bool) -> None:
    job = every_ten(story, until=40)
    story.deleted.add(job)
    # A delete that is under way at fifty may still see that fire.
    story.call("job.delete", 45 if bad else 49.995, job=job)
    story.good(job, 50)


@breaks("I2")
def it_is_resumed_and_does_not_fire(story: Story, bad: bool) -> None:
    job = every_ten(story, until=20)
    story.call("job.pause", 22, job=job)
    story.call("job.resume", 35, job=job)
    story.good(job, 40)
    if not bad:
        story.good(job, 50)


@breaks("I2")
def a_pause_overtakes_only_what_is_not_late(story: Story, bad: bool) -> None:
    job = every_ten(story, until=20)
    # The fire of thirty is late at thirty-four.
    story.call("job.pause", 34.1 if bad else 33.9, job=job)


def family(story: Story) -> tuple[str, Told, Told]:
    """Two parents, both running."""
    job = on_demand(story)
    story.call("run.enqueue", 5, job=job, runs=["run_p", "run_q", "run_c", "run_d"])
    parents = [story.fire(job, 5, 5, run=run, trigger=1).ready(5).grant(5.1).start(5.1) for run in ("run_p", "run_q")]
    return job, parents[0], parents[1]


def child(story: Story, job: str, when: float, run: str = "run_c", rule: str = "all_succeeded") -> Told:
    return story.fire(job, when, when, run=run, trigger=1, parents=["run_p", "run_q"], rule=rule)


@breaks("I14")
def a_child_does_not_wait(story: Story, bad: bool) -> None:
    job, one, two = family(story)
    one.end(6).ends(6)
    if not bad:
        two.end(7).ends(7)
    child(story, job, 7).ready(7).runs(7.1, 8)
    if bad:
        two.end(9).ends(9)
    story.good(job, 9, run="run_d", trigger=1)


@breaks("I14")
def a_child_is_made_twice(story: Story, bad: bool) -> None:
    job, one, two = family(story)
    for parent in (one, two):
        parent.end(6).ends(6)
    child(story, job, 7).ready(7).runs(7.1, 8)
    if bad:
        child(story, job, 7, "run_d").ready(7).runs(7.1, 8)
    else:
        story.good(job, 7, run="run_d", trigger=1)


@breaks("I14")
def a_child_of_a_failure_runs(story: Story, bad: bool) -> None:
    job, one, two = family(story)
    one.end(6).ends(6)
    two.end(6).fails(6, outcome=5).ends(6, "CANCELLED")
    child(story, job, 7, rule="all_succeeded" if bad else "all_done").ready(7).runs(7.1, 8)
    story.good(job, 7, run="run_d", trigger=1)


@breaks("I14")
def a_run_is_its_own_ancestor(story: Story, bad: bool) -> None:
    job, one, two = family(story)
    for parent in (one, two):
        parent.end(6).ends(6)
    child(story, job, 7, rule="any").ready(7).runs(7.1, 8)
    story.good(job, 8, run="run_d", trigger=1, parents=["run_c"], rule="all_done")
    if bad:
        next(event for event in story.events if event.run == "run_p").data |= {"parents": ["run_d"], "rule": "any"}


@breaks("I16")
def a_run_belongs_to_another_tenant(story: Story, bad: bool) -> None:
    job = every_ten(story, but=(30,))
    story.good(job, 30, tenant=2 if bad else 1)


@breaks("I16")
def another_tenant_reads_it(story: Story, bad: bool) -> None:
    job = every_ten(story)
    story.call("job.read", 12, "ok" if bad else "fail", job=job, tenant="other", answer={} if bad else {"status": 404})


@breaks("I16")
def an_enqueue_lands_with_another_job(story: Story, bad: bool) -> None:
    first, second = story.job("a"), story.job("b")
    story.call("run.enqueue", 5, job=first, runs=["run_x"])
    story.good(second if bad else first, 5, run="run_x", trigger=1)


def keyed(story: Story, job: str, when: float, **fields: object) -> Call:
    return story.call("job.create", when, job=job, **{"key": "k", "body": {"name": "a"}, **fields})


@breaks("I17")
def a_key_makes_two_jobs(story: Story, bad: bool) -> None:
    on_demand(story)
    story.calls.clear()
    keyed(story, "job_a", 0)
    if bad:
        story.event("job.created", 1, tenant=1, job="job_b", data={"name": "a", "state": 0, "version": 1})
    keyed(story, "job_b" if bad else "job_a", 1)


@breaks("I17")
def a_key_is_taken_for_another_body(story: Story, bad: bool) -> None:
    on_demand(story)
    story.calls.clear()
    keyed(story, "job_a", 0)
    keyed(story, "job_a", 1, body={"name": "a", "priority": "HIGH"} if bad else {"name": "a"})


@breaks("I17")
def a_repeated_create_makes_a_job_that_nobody_was_told_of(story: Story, bad: bool) -> None:
    on_demand(story)
    story.calls.clear()
    keyed(story, "job_a", 1)
    keyed(story, "job_a", 0, status="info").job = None
    if bad:
        story.event("job.created", 1, tenant=1, job="job_b", data={"name": "a", "state": 0, "version": 1})


@breaks("I17")
def a_repeated_enqueue_makes_other_runs(story: Story, bad: bool) -> None:
    job = on_demand(story)
    for when, run in ((5, "run_x"), (6, "run_y" if bad else "run_x")):
        story.call("run.enqueue", when, job=job, runs=[run], key="k", body={"delaySec": 0})
    for run in {"run_x", "run_y" if bad else "run_x"}:
        story.good(job, 6, run=run, trigger=1)


@breaks("I17")
def two_tenants_share_a_run(story: Story, bad: bool) -> None:
    job = on_demand(story, unique={})
    for when, key in ((5, "k"), (6, "l")):
        story.call("run.enqueue", when, job=job, runs=["run_x"], key=key)
    story.calls[-1].tenant = "other" if bad else "default"
    story.good(job, 5, run="run_x", trigger=1)
