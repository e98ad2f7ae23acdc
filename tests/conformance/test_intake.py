"""Where executions come in: idempotent by id, ready or later, under a key."""

from __future__ import annotations

import asyncio
import json

import pytest

from duly.domain.errors import Conflict
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.domain.job import Priority
from duly.domain.lifecycle import State, Trigger
from tests.conformance.world import START, World


class TestEnqueue:
    async def test_what_is_due_is_ready_at_once(self, world: World) -> None:
        job = await world.job()

        (run_id,) = await world.enqueue(job, payload='{"n": 1}')

        execution = await world.execution(run_id)
        assert (execution.state, execution.attempt, execution.trigger, execution.payload) == (State.PENDING, 1, Trigger.ENQUEUE, '{"n": 1}')
        assert (execution.due_at, execution.created_at, execution.job_name) == (START, START, job.version.spec.name)

    async def test_what_is_due_later_waits(self, world: World) -> None:
        job = await world.job()

        (run_id,) = await world.enqueue(job, due_in=MINUTE)

        execution = await world.execution(run_id)
        assert (execution.state, execution.next_attempt_at) == (State.SCHEDULED, START + MINUTE)
        assert await world.claim(await world.worker(), of=[job]) is None

    async def test_repeating_a_call_adds_nothing(self, world: World) -> None:
        job = await world.job()
        batch = world.new_executions(job, 3) + world.new_executions(job, 2, due_in=HOUR)
        assert (await world.store.intake.enqueue(batch, world.now)).new == 5

        assert (await world.store.intake.enqueue(batch, world.now)).new == 0

        assert len(await world.of_job(job)) == 5

    @pytest.mark.parametrize("known", [[0], [1], [3], [0, 2], [1, 3], [0, 1, 2, 3]], ids=str)
    async def test_of_a_call_that_is_known_in_part_the_rest_is_added(self, world: World, known: list[int]) -> None:
        job = await world.job()
        batch = world.new_executions(job, 2) + world.new_executions(job, 2, due_in=HOUR)
        assert (await world.store.intake.enqueue([batch[n] for n in known], world.now)).new == len(known)

        assert (await world.store.intake.enqueue(batch, world.now)).new == 4 - len(known)

        assert await world.states(execution.id for execution in batch) == [State.PENDING] * 2 + [State.SCHEDULED] * 2

    async def test_an_id_that_comes_twice_in_one_call_is_added_once(self, world: World) -> None:
        job = await world.job()
        (execution,) = world.new_executions(job, 1)

        assert (await world.store.intake.enqueue([execution, execution], world.now)).new == 1

        assert await world.state(execution.id) is State.PENDING

    async def test_a_call_repeated_after_the_execution_ran_changes_nothing(self, world: World) -> None:
        job = await world.job()
        batch = world.new_executions(job, 2)
        await world.store.intake.enqueue(batch, world.now)
        await world.run()

        assert (await world.store.intake.enqueue(batch, world.now)).new == 0

        assert await world.states(execution.id for execution in batch) == [State.SUCCEEDED] * 2

    @pytest.mark.parametrize(
        "payloads",
        [
            ['{"n": 0}', '{"n": 1}', '{"n": 2}', '{"n": 3}'],
            [None, None, None, None],
            ['{"n": 0}', None, "null", '{"n": 3}'],
            ["null", "[]", '"a,b],["', '[1, 2.50, "\\u00fc\\ud83d\\ude00"]'],
            [json.dumps("x" * 499), json.dumps("ü" * 250), json.dumps("y" * 5000), "1e308"],
        ],
        ids=["all", "none", "some", "odd", "around the size that is carried"],
    )
    async def test_each_keeps_its_payload_to_the_letter(self, world: World, payloads: list[str | None]) -> None:
        job = await world.job(payload='"of the job"')
        batch = [world.new_executions(job, 1, payload=payload)[0] for payload in payloads]

        assert (await world.store.intake.enqueue(batch, world.now)).new == 4

        stored = [(await world.execution(execution.id)).payload for execution in batch]
        assert stored == [payload if payload is not None else '"of the job"' for payload in payloads]
        claimed = await world.claimed(await world.worker())
        found = dict(zip(claimed.ids, claimed.payloads, strict=True))
        assert [found[execution.id] for execution in batch] == [None if payload is None else json.loads(payload) for payload in payloads]

    @pytest.mark.parametrize("odd", ["job", "due_at", "rank", "tenant"])
    async def test_one_that_is_unlike_the_others_keeps_what_is_its_own(self, world: World, odd: str) -> None:
        job, other = await world.jobs(2)
        await world.add_tenant(7)
        batch = world.new_executions(job, 3, payload="1")
        if odd == "job":
            batch[1] = world.new_executions(other, 1, payload="1")[0]
        else:
            batch[1] = batch[1]._replace(**{odd: {"due_at": START - SECOND, "rank": START - HOUR, "tenant": 7}[odd]})

        await world.store.intake.enqueue(batch, world.now)

        stored = [await world.execution(execution.id, tenant=execution.tenant) for execution in batch]
        assert [(at.job_id, at.due_at) for at in stored] == [(execution.job_id, execution.due_at) for execution in batch]
        worker = await world.worker()
        first = await world.claimed(worker, 1)
        assert (first.ids == [batch[1].id]) is (odd == "rank")

    async def test_nothing_is_nothing(self, world: World) -> None:
        assert (await world.store.intake.enqueue([], world.now)).new == 0

    async def test_concurrent_repeats_add_each_once(self, world: World) -> None:
        job = await world.job()
        batch = world.new_executions(job, 20)

        added = [report.new for report in await asyncio.gather(*(world.store.intake.enqueue(batch, world.now) for _ in range(4)))]

        assert sum(added) == 20

    async def test_priority_is_a_head_start(self, world: World) -> None:
        ids = {}
        for priority in (Priority.LOW, Priority.NORMAL, Priority.HIGH, Priority.CRITICAL):
            (ids[priority],) = await world.enqueue(await world.job(priority=priority))

        worker = await world.worker()
        claimed = [(await world.claimed(worker, 1)).ids[0] for _ in range(4)]

        assert claimed == [ids[Priority.CRITICAL], ids[Priority.HIGH], ids[Priority.NORMAL], ids[Priority.LOW]]


class TestEnqueueOnce:
    async def test_the_same_key_and_body_give_the_ids_of_then(self, world: World) -> None:
        job = await world.job()
        first, again = world.new_executions(job, 2), world.new_executions(job, 2)

        ids = await world.store.intake.enqueue_once(1, first, world.key("k"), world.now)

        assert ids == [execution.id for execution in first]
        assert await world.store.intake.enqueue_once(1, again, world.key("k"), world.now) == ids
        assert len(await world.of_job(job)) == 2

    async def test_another_body_is_a_conflict_and_adds_nothing(self, world: World) -> None:
        job = await world.job()
        await world.store.intake.enqueue_once(1, world.new_executions(job, 1), world.key("k"), world.now)

        with pytest.raises(Conflict) as refused:
            await world.store.intake.enqueue_once(1, world.new_executions(job, 1), world.key("k", b"other"), world.now)

        assert refused.value.code == "DULY-E207"
        assert len(await world.of_job(job)) == 1

    async def test_after_its_time_a_key_enqueues_anew(self, world: World) -> None:
        job = await world.job()
        await world.store.intake.enqueue_once(1, world.new_executions(job, 1), world.key("k", lasts=SECOND), world.now)
        world.turn(SECOND)

        await world.store.intake.enqueue_once(1, world.new_executions(job, 1), world.key("k", b"other"), world.now)

        assert len(await world.of_job(job)) == 2

    async def test_ids_stay_idempotent_when_the_key_is_gone(self, world: World) -> None:
        job = await world.job()
        batch = world.new_executions(job, 2)
        await world.store.intake.enqueue_once(1, batch, world.key("k", lasts=SECOND), world.now)
        world.turn(DAY)

        assert await world.store.intake.enqueue_once(1, batch, world.key("k"), world.now) == [execution.id for execution in batch]

        assert len(await world.of_job(job)) == 2

    async def test_of_concurrent_calls_with_one_key_one_enqueues(self, world: World) -> None:
        job = await world.job()

        answers = await asyncio.gather(
            *(world.store.intake.enqueue_once(1, world.new_executions(job, 3), world.key("k"), world.now) for _ in range(5))
        )

        assert len({tuple(ids) for ids in answers}) == 1
        assert [execution.id for execution in await world.of_job(job)] == answers[0]
