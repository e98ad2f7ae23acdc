"""I10, I15 and I18: retries, checkpoints, states."""

from __future__ import annotations

from tests.verify.cases.told import MICRO, asked, breaks, every_ten, on_demand
from tests.verify.histories import Story, Told, at, text


def failing(story: Story, times: int, *, wait: float = 10, first: float = 5, **policy: object) -> Told:
    """A run that fails so many times and is tried again after each."""
    story.seconds = 200
    retry = {"maxAttempts": 3, "backoff": "FIXED", "initialDelayMs": 10_000, "jitter": 0} | policy
    told = asked(story, on_demand(story, retryPolicy=retry), first)
    when = first
    for _ in range(times):
        told.ready(when).grant(when + 0.1).start(when + 0.1).end(when + 1)
        told.fails(when + 1, retry=when + 1 + wait)
        when += 1 + wait
    story.about["next"] = when
    return told


def last_try(told: Told, story: Story, *, outcome: int = 2) -> None:
    """One more attempt, and it is the end."""
    when = story.about["next"]
    told.ready(when).grant(when + 0.1).start(when + 0.1).end(when + 1).fails(when + 1, outcome=outcome).ends(when + 1, "DEAD")


@breaks("I10")
def an_attempt_is_left_out(story: Story, bad: bool) -> None:
    told = failing(story, 1)
    when = story.about["next"]
    told.attempt += bad
    told.ready(when).runs(when + 0.1, when + 1)


@breaks("I10")
def it_fails_more_often_than_it_may(story: Story, bad: bool) -> None:
    last_try(failing(story, 3 if bad else 2), story)


@breaks("I10")
def it_dies_with_tries_left(story: Story, bad: bool) -> None:
    last_try(failing(story, 1 if bad else 2), story)


@breaks("I10")
def a_retry_comes_too_soon(story: Story, bad: bool) -> None:
    # Ten seconds, less the one that is forgiven.
    last_try(failing(story, 2, wait=9 - (MICRO if bad else 0)), story)


@breaks("I10")
def a_backoff_does_not_grow(story: Story, bad: bool) -> None:
    told = failing(story, 2, wait=19 - (MICRO if bad else 0), backoff="EXPONENTIAL")
    last_try(told, story)


@breaks("I10")
def a_release_costs_a_try(story: Story, bad: bool) -> None:
    told = failing(story, 1 if bad else 2)
    when = story.about["next"]
    told.ready(when).grant(when + 0.1).start(when + 0.1).fails(when + 1, retry=when + 1, outcome=6)
    story.about["next"] = when + 1
    last_try(told, story)


@breaks("I10")
def a_poison_pill_is_tried_again(story: Story, bad: bool) -> None:
    told = asked(story, on_demand(story, retryPolicy={"maxLosses": 2 if bad else 3}), 5)
    story.seconds = 200
    for when in (5, 30):
        told.ready(when).grant(when + 0.1).start(when + 0.1).lost(when + 20, retry=when + 21)
    told.ready(51).runs(51.1, 52)


@breaks("I10")
def losses_are_counted_as_failures(story: Story, bad: bool) -> None:
    told = failing(story, 1)
    when = story.about["next"]
    told.ready(when).grant(when + 0.1).start(when + 0.1).lost(when + 20, retry=when + 21)
    story.about["next"] = when + 21
    if not bad:
        when += 21
        told.ready(when).grant(when + 0.1).start(when + 0.1).end(when + 1).fails(when + 1, retry=when + 11)
        story.about["next"] = when + 11
    last_try(told, story)


@breaks("I15")
def a_checkpoint_does_not_grow(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5).grant(5.1).start(5.1)
    told.checkpoint(6, 2).checkpoint(7, 2 if bad else 3).end(8).ends(8)


@breaks("I15")
def an_attempt_begins_at_an_old_checkpoint(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5).grant(5.1).start(5.1, checkpoint=0)
    told.checkpoint(6, 1).checkpoint(7, 2).lost(20, retry=21).ready(21).grant(21.1, worker=2)
    told.start(21.1, checkpoint=1 if bad else 2).end(22).ends(22)


@breaks("I18")
def it_ends_without_having_run(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5)
    story.call("run.cancel", 5.5, job=job, runs=["run_x"])
    told.ends(5.5, "DEAD" if bad else "CANCELLED")


@breaks("I18")
def it_goes_on_after_its_end(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).ready(5).runs(5.1, 6)
    if bad:
        told.attempt += 1
        story.event("run.scheduled", 7, run=told.run, attempt=2, data={"due": at(7)})


@breaks("I18")
def it_is_granted_while_it_waits_for_a_time(story: Story, bad: bool) -> None:
    job = on_demand(story)
    told = asked(story, job, 5).scheduled(5, 5)
    if not bad:
        told.ready(5.1)
    told.runs(5.2, 6)


@breaks("I18")
def a_version_is_left_out(story: Story, bad: bool) -> None:
    job = every_ten(story)
    story.change(job, 12, 3 if bad else 2, intervalSec=10, anchorAt=text(0))
