"""Runs of workflows on every engine: each step once, after its parents, whoever dies in between."""

from __future__ import annotations

import asyncio
import random
from json import loads
from typing import Any
from unittest.mock import patch

import pytest

from duly.adapters.sql.engine import Engine
from duly.domain.ids import ExecutionId
from duly.domain.instants import HOUR, SECOND
from duly.domain.lifecycle import Outcome, State
from duly.domain.limits import Limits
from duly.domain.overlap import OverlapPolicy
from duly.domain.workflow.ids import item_id, step_id
from duly.domain.workflow.step import Approval, Awaited, OnTimeout, Rule
from duly.ports.flows import Added, Signal
from duly.usecases.conduct import maker
from tests.conformance.workflows import Works, step
from tests.conformance.world import World

S, D, C, K, R = State.SUCCEEDED, State.DEAD, State.CANCELLED, State.SKIPPED, State.RUNNING


@pytest.fixture
def works(world: World) -> Works:
    return Works(world)


async def test_a_chain_hands_over_step_by_step_and_the_run_ends_with_its_last_result(works: Works) -> None:
    job = await works.workflow(step("a"), step("b", "a", inputs={"got": "a"}), step("c", "b"))

    run = await works.begin(job)
    assert await works.world.state(run) is R
    assert await works.states(run, job) == {"a": R, "b": None, "c": None}
    await works.run_ready(result="7")
    assert loads((await works.world.execution(step_id(run, 1))).payload) == {"got": 7}
    assert await works.drain(result='"done"') == 2

    ended = await works.world.execution(run)
    assert ended.state is S
    assert loads(ended.result) == {"c": "done"}
    assert await works.plain.flows.flow(run) is None


async def test_a_diamond_joins_once_though_both_sides_end_side_by_side(works: Works) -> None:
    job = await works.workflow(step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c"))
    run = await works.begin(job)
    await works.run_ready()
    (one, first), (other, second) = await works.take(1), await works.take(1)
    assert first is not None
    assert second is not None

    await asyncio.gather(
        works.world.store.outcomes.finish(one, await works.reports(first, Outcome.SUCCEEDED, None), [first.lease], works.world.now),
        works.world.store.outcomes.finish(other, await works.reports(second, Outcome.SUCCEEDED, None), [second.lease], works.world.now),
    )

    assert await works.run_ready() == [step_id(run, 3)]
    assert await works.run_ready() == []
    assert await works.world.state(run) is S


async def test_a_join_waits_for_the_last_of_its_parents(works: Works) -> None:
    job = await works.workflow(step("b"), step("c"), step("d", "b", "c"))
    run = await works.begin(job)
    worker, claimed = await works.take()
    assert claimed is not None

    for place in (0, 1):
        assert await works.state(run, job, "d") is None
        ended = await works.reports(claimed, Outcome.SUCCEEDED, None, [step_id(run, place)])
        await works.world.store.outcomes.finish(worker, ended, [claimed.lease] if place else [], works.world.now)

    assert await works.state(run, job, "d") is R


async def test_a_wide_join_fires_once_in_any_order(works: Works) -> None:
    wide = [step(f"p{nth}", "a") for nth in range(20)]
    job = await works.workflow(step("a"), *wide, step("j", *(one.name for one in wide)))
    run = await works.begin(job)
    await works.run_ready()
    taken = [await works.take(5) for _ in range(4)]
    reports = []
    for worker, claimed in taken:
        assert claimed is not None
        ids = list(claimed.ids)
        random.Random(3).shuffle(ids)
        for id in ids:
            reports.append((worker, claimed, await works.reports(claimed, Outcome.SUCCEEDED, None, [id])))

    await asyncio.gather(*(works.world.store.outcomes.finish(worker, ended, [], works.world.now) for worker, _, ended in reports))

    assert await works.run_ready() == [step_id(run, 21)]
    assert await works.run_ready() == []
    assert await works.world.state(run) is S


async def test_a_map_runs_once_for_each_item_and_joins_their_results_in_order(works: Works) -> None:
    job = await works.workflow(
        step("list"), step("load", map="list", inputs={"path": "item"}), step("sum", "load", inputs={"counts": "load"})
    )
    run = await works.begin(job)
    await works.run_ready(result='["x", "y", "z"]')

    payloads = [loads((await works.world.execution(item_id(run, 1, nth))).payload) for nth in range(3)]
    assert payloads == [{"path": "x"}, {"path": "y"}, {"path": "z"}]
    assert len(await works.run_ready(result="5")) == 3
    assert loads((await works.world.execution(step_id(run, 2))).payload) == {"counts": [5, 5, 5]}
    await works.drain()
    assert await works.world.state(run) is S


@pytest.mark.parametrize("bound", [("ITEMS_AT_ONCE", 3), ("LONGEST_ITEMS", 20)], ids=["many", "long"])
async def test_a_map_is_made_in_parts_that_are_not_too_large(works: Works, bound: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maker, *bound)
    job = await works.workflow(step("list"), step("load", map="list"), step("sum", "load", inputs={"items": "load"}))
    run = await works.begin(job)

    await works.run_ready(result='["one", "two", "three", "four", "five", "six", "seven"]')

    assert len(await works.run_ready(result="5")) == 7
    assert loads((await works.world.execution(step_id(run, 2))).payload) == {"items": [5] * 7}


async def test_a_map_over_nothing_goes_on_at_once(works: Works) -> None:
    job = await works.workflow(step("list"), step("load", map="list"), step("sum", "load"))
    run = await works.begin(job)

    await works.run_ready(result="[]")

    assert await works.run_ready() == [step_id(run, 2)]
    assert await works.world.state(run) is S


async def test_a_map_over_no_list_fails_its_step(works: Works) -> None:
    job = await works.workflow(step("list"), step("load", map="list"), step("sum", "load"))
    run = await works.begin(job)

    await works.run_ready(result='{"not": "a list"}')

    assert await works.states(run, job) == {"list": S, "load": D, "sum": K}
    assert await works.world.state(run) is D


async def test_a_map_runs_no_more_at_a_time_than_it_may(works: Works) -> None:
    job = await works.workflow(step("list"), step("load", map="list", max_parallel=2))
    run = await works.begin(job)
    await works.run_ready(result="[1, 2, 3, 4, 5]")

    sizes = [len(ids) for ids in [await works.run_ready() for _ in range(4)]]

    assert sizes == [2, 2, 1, 0]
    assert await works.world.state(run) is S


async def test_a_map_joins_after_the_last_item_whichever_that_is(works: Works) -> None:
    job = await works.workflow(step("list"), step("load", map="list"), step("sum", "load"))
    run = await works.begin(job)
    await works.run_ready(result="[1, 2, 3]")
    worker, claimed = await works.take()
    assert claimed is not None

    for nth in (2, 0, 1):
        assert await works.state(run, job, "sum") is None
        ended = await works.reports(claimed, Outcome.SUCCEEDED, str(nth), [item_id(run, 1, nth)])
        await works.world.store.outcomes.finish(worker, ended, [], works.world.now)

    assert loads((await works.plain.flows.results([step_id(run, 1)]))[step_id(run, 1)] or "") == [0, 1, 2]
    assert await works.state(run, job, "sum") is R
    await works.world.store.outcomes.finish(worker, [], [claimed.lease], works.world.now)


async def test_a_failed_item_fails_the_map_and_what_comes_after_is_skipped(works: Works) -> None:
    job = await works.workflow(step("list"), step("load", map="list"), step("sum", "load"), step("clean", "load", rule=Rule.ALL_DONE))
    run = await works.begin(job)
    await works.run_ready(result="[1, 2]")
    worker, claimed = await works.take()
    assert claimed is not None
    bad = await works.reports(claimed, Outcome.FAILED, None, [item_id(run, 1, 0)])
    good = await works.reports(claimed, Outcome.SUCCEEDED, "2", [item_id(run, 1, 1)])

    await works.world.store.outcomes.finish(worker, [*bad, *good], [claimed.lease], works.world.now)

    assert await works.states(run, job) == {"list": S, "load": D, "sum": K, "clean": R}
    assert loads((await works.world.execution(step_id(run, 2))).error) == {"reason": "upstream"}
    await works.drain()
    assert await works.world.state(run) is S  # somebody took care of it


async def test_a_failure_skips_the_whole_path_and_the_run_is_dead(works: Works) -> None:
    job = await works.workflow(step("a"), step("b", "a"), step("c", "b"), step("side"))
    run = await works.begin(job)
    worker, claimed = await works.take()
    assert claimed is not None
    bad = await works.reports(claimed, Outcome.FAILED, None, [step_id(run, 0)])
    await works.world.store.outcomes.finish(worker, bad, [], works.world.now)
    assert await works.states(run, job) == {"a": D, "b": K, "c": K, "side": R}

    good = await works.reports(claimed, Outcome.SUCCEEDED, None, [step_id(run, 3)])
    await works.world.store.outcomes.finish(worker, good, [claimed.lease], works.world.now)

    ended = await works.world.execution(run)
    assert ended.state is D
    assert loads(ended.error)["steps"] == ["a"]


async def test_a_condition_chooses_the_branch(works: Works) -> None:
    job = await works.workflow(
        step("a"), step("big", "a", when="a.result.rows > 10"), step("small", "a", when="a.result.rows <= 10 and payload.mode == 'x'")
    )
    run = await works.begin(job, payload='{"mode": "x"}')

    await works.run_ready(result='{"rows": 3}')
    await works.drain()

    assert await works.states(run, job) == {"a": S, "big": K, "small": S}
    assert await works.world.state(run) is S


@pytest.mark.parametrize("where", ["root", "middle", "last", "items"])
async def test_a_hand_over_that_was_lost_is_made_up_for_by_the_rounds(works: Works, where: str) -> None:
    job = await works.workflow(step("a"), step("m", map="a"), step("z", "m"))
    run = await works.begin(job)
    await works.run_ready(result="[1, 2, 3]", lost=where == "root")
    if where == "root":
        assert await works.state(run, job, "m") is None
        await works.look()
    await works.run_ready(lost=where == "items")
    if where == "items":
        await works.look()
    await works.run_ready(lost=where in ("middle", "last"))
    if where in ("middle", "last"):
        assert await works.world.state(run) is R
        await works.look()

    assert await works.world.state(run) is S
    assert await works.run_ready() == []


async def test_looking_again_and_again_makes_nothing_twice(works: Works) -> None:
    job = await works.workflow(step("a"), step("b", "a"), step("m", map="a"))
    run = await works.begin(job)
    for _ in range(3):
        await works.conductor.look_at(run)
    await works.run_ready(result="[1]")

    await asyncio.gather(*(works.conductor.look_at(run) for _ in range(4)))

    assert len(await works.run_ready()) == 2
    assert await works.world.state(run) is S
    await works.conductor.look_at(run)


async def test_cancelling_a_run_cancels_all_of_it(works: Works) -> None:
    job = await works.workflow(
        step("a"), step("m", map="a", max_parallel=1), step("ask", approval=Approval(), target=None), step("z", "m", "ask")
    )
    run = await works.begin(job)
    await works.run_ready(result="[1, 2, 3]")

    stands = await works.world.cancel(run)

    assert stands == {run: C}
    assert await works.states(run, job) == {"a": S, "m": C, "ask": C, "z": None}
    assert await works.run_ready() == []
    assert await works.world.state(run) is C


async def test_a_run_whose_step_runs_is_cancelled_when_that_has_stopped(works: Works) -> None:
    job = await works.workflow(step("a"), step("b", "a"))
    run = await works.begin(job)
    worker, claimed = await works.take()
    assert claimed is not None

    assert await works.world.cancel(run) == {run: R}
    await works.world.store.outcomes.finish(
        worker, await works.world.ended(claimed, Outcome.CANCELLED, is_step=True), [claimed.lease], works.world.now
    )

    assert await works.states(run, job) == {"a": C, "b": None}
    assert await works.world.state(run) is C


async def test_a_run_holds_its_place_until_its_last_step_has_ended(works: Works) -> None:
    job = await works.workflow(step("a"), step("b", "a"), every=HOUR, overlap=OverlapPolicy.QUEUE_ONE)
    world = works.world
    await world.fire()
    await works.conduct()
    world.turn(HOUR)
    await world.fire()

    runs = [execution.id for execution in await world.of_job(job)]
    assert await world.states(runs) == [R, State.BLOCKED]
    await works.drain()
    assert await world.state(runs[0]) is S
    await works.conduct()
    await works.drain()
    assert await world.states(runs) == [S, S]


async def test_a_job_runs_no_more_runs_at_a_time_than_it_may(works: Works) -> None:
    job = await works.workflow(step("a"), limits=Limits(max_concurrent=1))
    runs = await works.world.enqueue(job, 2)
    await works.conduct()

    assert await works.world.states(runs) == [R, State.BLOCKED]
    await works.drain()
    await works.conduct()
    await works.drain()
    assert await works.world.states(runs) == [S, S]


async def test_a_step_whose_worker_is_lost_runs_again_and_a_poisonous_one_fails_the_run(works: Works) -> None:
    job = await works.workflow(step("a"), step("b", "a"))
    run = await works.begin(job)
    for _ in range(3):
        await works.take()
        works.world.turn(HOUR)
        await works.world.lose()
        works.world.turn(10 * SECOND)
        await works.world.promote()

    assert await works.states(run, job) == {"a": D, "b": K}
    assert await works.world.state(run) is D


async def test_an_approval_lets_a_step_run_and_a_refusal_breaks_the_path(works: Works) -> None:
    job = await works.workflow(step("a"), step("publish", "a", approval=Approval(by=("finance",))), step("told", "publish"))
    yes, no = await works.begin(job), await works.begin(job)
    await works.run_ready()
    assert await works.world.state(step_id(yes, 1)) is State.BLOCKED
    assert await works.run_ready() == []

    assert await works.conductor.release(step_id(yes, 1), job.version.spec.steps[1], None)
    assert not await works.conductor.release(step_id(yes, 1), job.version.spec.steps[1], None)
    assert await works.conductor.refuse(step_id(no, 1), {"reason": "rejected"})

    assert await works.drain() == 2
    assert await works.world.states([yes, no]) == [S, D]


async def test_an_approval_that_nobody_gives_in_time_fails_or_goes_on(works: Works) -> None:
    job = await works.workflow(
        step("fails", approval=Approval(timeout=HOUR), target=None),
        step("goes_on", approval=Approval(timeout=HOUR, on_timeout=OnTimeout.CONTINUE), target=None),
    )
    run = await works.begin(job)

    works.world.turn(2 * HOUR)
    await works.conductor.look(works.world.now, 100)

    assert await works.states(run, job) == {"fails": D, "goes_on": S}
    assert await works.world.state(run) is D


async def test_a_signal_counts_whether_it_comes_before_or_after_the_step(works: Works) -> None:
    job = await works.workflow(
        step("a"), step("paid", "a", signal=Awaited(name="payment"), target=None), step("ship", "paid", inputs={"amount": "paid.amount"})
    )
    early, late = await works.begin(job), await works.begin(job)
    signal = Signal("payment", '{"amount": 5}', works.world.now, "shop")

    assert await works.plain.flows.add_signal(1, early, signal)
    await works.conductor.hear(early)
    await works.run_ready()
    assert await works.plain.flows.add_signal(1, late, signal)
    assert not await works.plain.flows.add_signal(1, late, signal._replace(payload="0"))
    await works.conductor.hear(late)

    assert [loads((await works.world.execution(step_id(run, 2))).payload) for run in (early, late)] == [{"amount": 5}] * 2
    await works.drain()
    assert await works.world.states([early, late]) == [S, S]


async def test_a_step_waits_for_its_time(works: Works) -> None:
    job = await works.workflow(step("pause", delay=HOUR, target=None), step("a", "pause"), step("later", delay=HOUR))
    run = await works.begin(job)
    assert await works.run_ready() == []

    works.world.turn(HOUR + SECOND)
    await works.world.promote()
    await works.conduct()

    assert await works.drain() == 2
    assert await works.world.state(run) is S


async def test_a_run_within_a_run_is_waited_for(works: Works) -> None:
    await works.workflow(step("x"), step("y", "x"), name="inner")
    job = await works.workflow(step("a"), step("sub", "a", workflow="inner", target=None), step("z", "sub", inputs={"of": "sub.y"}))
    run = await works.begin(job)
    await works.run_ready()
    await works.conduct()
    assert await works.world.state(step_id(run, 1)) is R

    assert await works.drain(result="3") == 3

    assert loads((await works.world.execution(step_id(run, 2))).payload) == {"of": 3}
    assert await works.world.state(run) is S


async def test_a_workflow_that_runs_itself_comes_to_an_end(works: Works) -> None:
    job = await works.workflow(step("sub", workflow="me", target=None), name="me")
    run = await works.begin(job)

    for _ in range(12):
        await works.conduct()

    assert await works.world.state(run) is D


async def test_a_step_that_names_no_workflow_fails(works: Works) -> None:
    job = await works.workflow(step("sub", workflow="nobody", target=None))

    run = await works.begin(job)

    assert await works.world.state(run) is D


async def test_what_failed_is_done_again_in_a_new_run_and_the_rest_taken_over(works: Works) -> None:
    job = await works.workflow(step("a"), step("b", "a"), step("c", "b", "a", inputs={"of": "a"}))
    run = await works.begin(job)
    await works.run_ready(result="1")
    await works.run_ready(Outcome.FAILED)
    assert await works.world.state(run) is D

    made = works.world.new_executions(job, 1)
    await works.plain.flows.seed(1, made[0].id, run, ["b", "c"])
    await works.world.store.intake.enqueue(made, works.world.now)
    await works.conduct()

    again = made[0].id
    assert await works.states(again, job) == {"a": S, "b": R, "c": None}
    assert await works.drain() == 2
    assert await works.world.state(again) is S
    assert loads((await works.world.execution(step_id(again, 2))).payload) == {"of": 1}


async def test_what_succeeded_is_undone_when_the_run_fails(works: Works) -> None:
    job = await works.workflow(
        step("charge"),
        step("ship", "charge"),
        step("refund", compensates="charge", inputs={"of": "charge"}),
        step("recall", compensates="ship"),
    )
    run = await works.begin(job)
    await works.run_ready(result='"receipt"')
    await works.run_ready(Outcome.FAILED)

    assert await works.states(run, job) == {"charge": S, "ship": D, "refund": R, "recall": K}
    assert loads((await works.world.execution(step_id(run, 2))).payload) == {"of": "receipt"}
    await works.drain()
    assert await works.world.state(run) is D


async def test_a_paused_run_begins_nothing_until_it_goes_on(works: Works) -> None:
    job = await works.workflow(step("a"), step("b", "a"))
    run = await works.begin(job)
    assert await works.plain.flows.pause(run, "somebody", works.world.now)
    assert not await works.plain.flows.pause(run, "somebody", works.world.now)
    await works.run_ready()
    assert await works.run_ready() == []

    assert await works.plain.flows.pause(run, None, works.world.now)
    await works.conductor.look_at(run)

    assert await works.drain() == 1
    assert await works.world.state(run) is S


async def test_a_new_version_does_not_touch_a_run_that_is_under_way(works: Works) -> None:
    job = await works.workflow(step("a"), step("b", "a"))
    run = await works.begin(job)

    assert await works.world.change(job, steps=(step("a"), step("other", "a"), step("b", "other")))

    assert await works.drain() == 2
    assert await works.states(run, job) == {"a": S, "b": S}


async def test_steps_are_kept_as_long_as_their_run_is_under_way(works: Works) -> None:
    job = await works.workflow(step("a"), step("m", map="a"), step("ask", "m", approval=Approval(), target=None))
    run = await works.begin(job)
    await works.run_ready(result="[1]")
    await works.drain()
    world = works.world

    world.turn(90 * 24 * HOUR)
    for _ in range(5):
        await world.store.retention.prune(world.now - 30 * 24 * HOUR, world.now, 1000)
    assert await works.states(run, job) == {"a": S, "m": S, "ask": R}
    assert await works.conductor.release(step_id(run, 2), job.version.spec.steps[2], None)

    assert await world.state(run) is S


async def test_steps_are_in_nobodys_way_when_executions_of_the_job_are_listed(works: Works) -> None:
    job = await works.workflow(step("a"), step("m", map="a"))
    run = await works.begin(job)
    await works.run_ready(result="[1, 2]")
    await works.drain()

    assert [execution.id for execution in await works.world.of_job(job)] == [run]
    steps = await works.plain.flows.steps(1, run, None, 100)
    assert [(one.job_id, one.job_name, one.step_name) for one in sorted(steps, key=lambda one: one.step or 0)] == [
        (job.id, job.version.spec.name, "a"),
        (job.id, job.version.spec.name, "m"),
    ]
    items = await works.plain.flows.steps(1, step_id(run, 1), None, 100)
    assert [one.nth for one in items] == [0, 1]


def ids_of(run: ExecutionId, count: int) -> list[ExecutionId]:
    return [step_id(run, place) for place in range(count)]


async def test_of_many_who_hand_over_at_once_each_step_is_made_by_one(works: Works, engine: Engine) -> None:
    wide = [step(f"p{nth}") for nth in range(8)]
    job = await works.workflow(*wide, step("j", *(one.name for one in wide), rule=Rule.ALL_DONE), step("k", "j"))
    run = await works.begin(job)
    await works.run_ready(lost=True)

    await asyncio.gather(*(works.conductor.hand_over(ids_of(run, 8)) for _ in range(6)))

    assert await works.run_ready() == [step_id(run, 8)]
    assert await works.run_ready() == [step_id(run, 9)]
    assert await works.run_ready() == []
    assert await works.world.state(run) is S


async def test_a_step_that_is_made_while_its_run_is_cancelled_does_not_run(works: Works) -> None:
    job = await works.workflow(step("a"), step("b", "a"))
    run = await works.begin(job)
    flows = works.plain.flows
    make = flows.add

    async def cancelled_first(*given: Any) -> Added:
        assert await works.world.cancel(run) == {run: C}
        return await make(*given)

    with patch.object(flows, "add", cancelled_first):
        await works.run_ready()

    assert await works.run_ready() == []
    assert await works.states(run, job) == {"a": S, "b": C}


async def test_with_the_version_of_a_step_come_those_of_the_next_and_with_several_nothing_else(works: Works) -> None:
    job = await works.workflow(step("a"), step("b", "a"), step("c", "b"))
    other = await works.workflow(step("a"), step("b", "a"))
    numbers = [version.number for _, version in sorted((await works.plain.flows.step_versions(job.version.number)).items())]
    definitions = works.plain.definitions

    assert (await definitions.versions(numbers[:1])).keys() == set(numbers)
    assert (await definitions.versions(numbers[1:2])).keys() == set(numbers[1:])
    assert (await definitions.versions(numbers[:2])).keys() == set(numbers[:2])
    assert (await definitions.versions([other.version.number])).keys() == {other.version.number}
