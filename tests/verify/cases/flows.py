"""Runs that consist of steps: what their parents are stands in what the client asked for."""

from __future__ import annotations

from tests.verify.cases.told import asked, breaks, on_demand
from tests.verify.histories import Story, Told

STEPS = [{"name": "a"}, {"name": "b"}, {"name": "join", "dependsOn": ["a", "b"]}]


def begun(story: Story, steps: list[dict[str, object]] | None = None) -> tuple[str, Told]:
    """A run that is under way since five seconds."""
    job = on_demand(story, steps=steps or STEPS)
    run = asked(story, job, 5).ready(5)
    story.event("flow.begun", 5.1, run=run.run, data={"width": None})
    run.state = "RUNNING"
    return job, run


def step(story: Story, job: str, place: int, when: float, *, run: str | None = None, flow: str = "run_x", **data: object) -> Told:
    told = story.fire(
        job, when, when, run=run or f"run_{place}_{data.get('nth')}", trigger=5, flow=flow, step=place, **{"nth": None} | data
    )
    return told.ready(when)


def over(run: Told, when: float, state: str = "SUCCEEDED") -> None:
    run.fence = 0
    run.ends(when, state)


@breaks("I14")
def a_join_fires_when_the_first_of_its_parents_ends(story: Story, bad: bool) -> None:
    job, run = begun(story)
    step(story, job, 0, 5.2).runs(5.3, 6)
    step(story, job, 1, 5.2).runs(5.3, 8 if bad else 6.5)
    step(story, job, 2, 7).runs(7.1, 9)
    over(run, 10)


@breaks("I14")
def a_step_of_a_run_is_made_twice(story: Story, bad: bool) -> None:
    job, run = begun(story)
    for place in (0, 1):
        step(story, job, place, 5.2).runs(5.3, 6)
    step(story, job, 2, 7).runs(7.1, 8)
    if bad:
        step(story, job, 2, 7, run="run_again").runs(7.1, 8)
    over(run, 10)


@breaks("I14")
def a_join_runs_though_a_parent_failed(story: Story, bad: bool) -> None:
    job, run = begun(story, [*STEPS[:2], STEPS[2] | {"trigger": "all_succeeded" if bad else "all_done"}])
    step(story, job, 0, 5.2).runs(5.3, 6)
    step(story, job, 1, 5.2).grant(5.3).start(5.3).end(6).fails(6, outcome=5).ends(6, "CANCELLED")
    step(story, job, 2, 7).runs(7.1, 8)
    over(run, 10, "DEAD" if bad else "SUCCEEDED")


@breaks("I14")
def a_run_succeeds_before_its_last_step(story: Story, bad: bool) -> None:
    job, run = begun(story)
    for place in (0, 1):
        step(story, job, place, 5.2).runs(5.3, 6)
    step(story, job, 2, 7).runs(7.1, 9)
    if not bad:
        over(run, 9.5)
    else:
        over(run, 6.5)


@breaks("I14")
def a_mapped_step_ends_before_its_items(story: Story, bad: bool) -> None:
    job, run = begun(story, [{"name": "list"}, {"name": "each", "map": "list"}])
    step(story, job, 0, 5.2).runs(5.3, 6)
    group = story.fire(job, 6.1, 6.1, run="run_group", trigger=5, flow="run_x", step=1, nth=None)
    story.event("flow.begun", 6.1, run=group.run, data={"width": 2})
    group.state = "RUNNING"
    for nth in range(2):
        step(story, job, 1, 6.2, flow="run_group", nth=nth).runs(6.3, 8 + nth)
    over(group, 8.5 if bad else 9.5)
    over(run, 10)
