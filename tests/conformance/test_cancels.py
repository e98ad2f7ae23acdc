"""Stopping what was asked for, wherever it stands."""

from __future__ import annotations

import pytest

from duly.domain.execution import Stop
from duly.domain.instants import MINUTE, SECOND
from duly.domain.lifecycle import Outcome, State
from tests.conformance.ledger import raw
from tests.conformance.world import World


async def put(world: World, state: State) -> object:
    """An execution that stands in this state."""
    job = await world.job()
    (run_id,) = await world.enqueue(job, due_in=MINUTE if state is State.SCHEDULED else 0)
    if state is State.RUNNING:
        await world.claimed(await world.worker(ttl=10 * MINUTE), of=[job])
    elif state is State.SUCCEEDED:
        await world.run(of=[job])
    elif state is State.CANCELLED:
        await world.cancel(run_id)
    return run_id


class TestCancel:
    @pytest.mark.parametrize("state", [State.SCHEDULED, State.PENDING], ids=lambda state: state.name)
    async def test_what_waits_is_final_at_once(self, world: World, state: State) -> None:
        run_id = await put(world, state)

        assert await world.cancel(run_id) == {run_id: State.CANCELLED}

        execution = await world.execution(run_id)
        assert (execution.state, execution.attempt, execution.finished_at) == (State.CANCELLED, 0, world.now)
        assert "cancelled" in execution.error

    async def test_what_waits_for_a_retry_keeps_its_attempts(self, world: World) -> None:
        (run_id,) = await world.enqueue(await world.job())
        await world.run(Outcome.FAILED)

        assert await world.cancel(run_id) == {run_id: State.CANCELLED}

        assert (await world.execution(run_id)).attempt == 1
        assert await world.outcomes_of(run_id) == [Outcome.FAILED]

    async def test_a_promoted_retry_is_found_at_its_new_rank(self, world: World) -> None:
        (run_id,) = await world.enqueue(await world.job())
        await world.run(Outcome.FAILED)
        world.turn(MINUTE)
        await world.promote()

        assert await world.cancel(run_id) == {run_id: State.CANCELLED}

    async def test_a_second_retry_is_found_at_its_latest_rank(self, world: World) -> None:
        (run_id,) = await world.enqueue(await world.job())
        for _ in range(2):
            await world.run(Outcome.FAILED)
            world.turn(MINUTE)
            await world.promote()

        assert await world.cancel(run_id) == {run_id: State.CANCELLED}

    async def test_a_promoted_release_is_found_at_its_old_rank(self, world: World) -> None:
        (run_id,) = await world.enqueue(await world.job())
        world.turn(MINUTE)
        await world.run(Outcome.RELEASED)
        await world.promote()

        assert await world.cancel(run_id) == {run_id: State.CANCELLED}

    async def test_what_runs_is_asked_to_stop(self, world: World) -> None:
        run_id = await put(world, State.RUNNING)

        assert await world.cancel(run_id) == {run_id: State.RUNNING}

        execution = await world.execution(run_id)
        assert (execution.state, execution.cancel_asked_at) == (State.RUNNING, world.now)

    async def test_the_worker_learns_when_asking_ends(self, world: World) -> None:
        await world.enqueue(await world.job(), 2)
        worker = await world.worker()
        asked, killed = (await world.claimed(worker)).ids
        await world.cancel(asked)
        await world.cancel(killed, kill_after=10 * SECOND)

        assert sorted(await world.store.liveness.renew(worker, world.now, MINUTE) or []) == sorted(
            [Stop(asked, None), Stop(killed, world.now + 10 * SECOND)]
        )

    async def test_one_who_kills_follows_one_who_asks_and_nobody_follows_him(self, world: World) -> None:
        await world.enqueue(await world.job())
        worker = await world.worker()
        (run_id,) = (await world.claimed(worker)).ids
        kill_at = world.now + SECOND + 10 * SECOND
        await world.cancel(run_id)
        world.turn(SECOND)

        await world.cancel(run_id, kill_after=10 * SECOND)
        for later in (None, SECOND, MINUTE):
            world.turn(1)
            await world.cancel(run_id, kill_after=later)

        assert await world.store.liveness.renew(worker, world.now, MINUTE) == [Stop(run_id, kill_at)]

    async def test_what_is_final_stays_as_it_ended(self, world: World) -> None:
        run_id = await put(world, State.SUCCEEDED)

        assert await world.cancel(run_id) == {run_id: State.SUCCEEDED}

        assert (await world.execution(run_id)).cancel_asked_at is None

    @pytest.mark.parametrize("state", [State.SCHEDULED, State.PENDING, State.RUNNING, State.CANCELLED], ids=lambda state: state.name)
    async def test_cancelling_twice_changes_nothing(self, world: World, state: State) -> None:
        run_id = await put(world, state)
        first = await world.cancel(run_id)
        before = await world.execution(run_id)
        world.turn(MINUTE)

        assert await world.cancel(run_id) == first

        assert await world.execution(run_id) == before

    async def test_a_cancelled_execution_is_never_claimed(self, world: World) -> None:
        job = await world.job()
        ids = await world.enqueue(job, 3) + await world.enqueue(job, due_in=MINUTE)
        await world.cancel(*ids[1:])
        world.turn(2 * MINUTE)
        await world.promote()

        assert await world.run() == ids[:1]

    async def test_one_call_answers_for_many(self, world: World) -> None:
        ids = [await put(world, state) for state in (State.RUNNING, State.SUCCEEDED, State.SCHEDULED, State.PENDING)]

        answer = await world.cancel(*ids, ids[0])

        assert answer == dict(zip(ids, (State.RUNNING, State.SUCCEEDED, State.CANCELLED, State.CANCELLED), strict=True))

    async def test_unknown_ids_and_other_tenants_are_left_out(self, world: World) -> None:
        await world.add_tenant(2)
        run_id = await put(world, State.PENDING)

        assert await world.cancel(*world.ids(1)) == {}
        assert await world.cancel(run_id, tenant=2) == {}
        assert await world.cancel() == {}

        assert await world.state(run_id) is State.PENDING

    async def test_wishes_that_were_granted_are_forgotten_in_time(self, world: World) -> None:
        running = await put(world, State.RUNNING)
        waiting = await put(world, State.PENDING)
        await world.cancel(running, waiting)

        await world.store.losses.reconcile(world.now)

        assert [row["id"] for row in await raw(world.engine, "SELECT id FROM cancels")] == [running]

    async def test_a_wish_half_done_is_carried_out_though_others_of_its_lease_still_run(self, world: World) -> None:
        ids = await world.enqueue(await world.job(), 2)
        worker = await world.worker(ttl=10 * MINUTE)
        claimed = await world.claimed(worker)
        await world.finish(worker, claimed, Outcome.FAILED, only=ids[:1])
        await world.wish(ids[0])
        await world.wish(ids[1])

        await world.store.losses.unstick(world.now + MINUTE, 10)

        assert [await world.state(run_id) for run_id in ids] == [State.CANCELLED, State.RUNNING]
