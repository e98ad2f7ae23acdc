"""What the sweeper does with the leases of workers that are gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duly.domain.decide import WAIT_AFTER_LOSS
from duly.domain.execution import Lost
from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.job import Priority
from duly.domain.lifecycle import Outcome, State
from duly.domain.retry import RetryPolicy
from duly.ports.store import LossReport
from tests.conformance.ledger import raw
from tests.conformance.world import START, TTL, World


async def abandon(world: World, count: int = 1, **job: object) -> list:
    """Executions whose worker falls silent until it is past its time."""
    await world.enqueue(await world.job(**job), count)
    claimed = await world.claimed(await world.worker())
    world.turn(TTL)
    return claimed.ids


class TestLose:
    async def test_a_silent_worker_is_not_waited_for_when_the_clock_is_set_back(self, world: World) -> None:
        (run_id,) = await abandon(world)
        world.turn(-HOUR)

        assert await world.lose() == LossReport(leases=1, lost=1)

        assert await world.state(run_id) is State.SCHEDULED

    async def test_a_small_step_of_the_clock_costs_nobody_its_life(self, world: World) -> None:
        await world.enqueue(await world.job())
        await world.claimed(await world.worker())
        world.turn(-TTL)

        assert await world.lose() == LossReport(leases=0, lost=0)

    async def test_a_lost_attempt_is_recorded_and_waits_again(self, world: World) -> None:
        ids = await abandon(world, 3)

        assert await world.lose() == LossReport(leases=1, lost=3)

        execution = await world.execution(ids[0])
        assert (execution.state, execution.attempt, execution.next_attempt_at) == (State.SCHEDULED, 2, world.now + WAIT_AFTER_LOSS)
        (attempt,) = await world.store.insights.attempts(ids[0])
        assert (attempt.outcome, attempt.started_at, attempt.finished_at, attempt.retry_at) == (
            Outcome.WORKER_LOST,
            START,
            world.now,
            world.now + WAIT_AFTER_LOSS,
        )

    async def test_a_loss_does_not_cost_the_budget(self, world: World) -> None:
        ids = await abandon(world)
        await world.lose()
        world.turn(WAIT_AFTER_LOSS)
        await world.promote()

        again = await world.claimed(await world.worker())

        assert (again.ids, again.attempts, again.failures) == (ids, [2], [0])

    async def test_a_lost_execution_keeps_its_head_start(self, world: World) -> None:
        urgent = await abandon(world, priority=Priority.CRITICAL)
        await world.lose()
        world.turn(WAIT_AFTER_LOSS)
        await world.promote()
        await world.enqueue(await world.job(priority=Priority.HIGH))

        assert (await world.claimed(await world.worker(), 1)).ids == urgent

    async def test_the_leases_of_the_living_are_left_alone(self, world: World) -> None:
        await world.enqueue(await world.job())
        worker = await world.worker()
        claimed = await world.claimed(worker)

        assert await world.lose() == LossReport()

        assert await world.finish(worker, claimed) == set()

    async def test_a_lease_is_taken_only_after_its_worker_is_buried(self, world: World) -> None:
        ids = await abandon(world)

        assert await world.store.losses.lose(world.after_loss, world.now, 10) == LossReport()

        assert await world.states(ids) == [State.RUNNING]

    async def test_what_a_newer_release_wrote_waits_for_somebody_who_can_read_it(self, world: World) -> None:
        job, newer = await world.jobs(2)
        runs = [*await world.enqueue(job), *await world.enqueue(newer, 2)]
        await world.claimed(await world.worker())
        await raw(world.engine, f"UPDATE job_versions SET definition = '[]' WHERE id = {newer.version.number}")
        await world.wish(runs[2])
        world.turn(TTL)

        report = await world.lose()

        assert (report.lost, report.dead) == (3, 1)
        standings = await world.store.cancels.cancel(1, runs[2:], "somebody", world.now)
        assert standings == {runs[2]: State.CANCELLED}
        world.turn(WAIT_AFTER_LOSS)
        assert (await world.promote()).promoted == 2
        again = await world.claimed(await world.worker())
        assert sorted(again.ids) == sorted(runs[:2])

    async def test_sweeping_again_finds_nothing(self, world: World) -> None:
        await abandon(world, 2)
        await world.lose()

        assert await world.lose() == LossReport()

    async def test_what_a_retiring_worker_held_is_lost_at_once(self, world: World) -> None:
        await world.enqueue(await world.job(), 2)
        worker = await world.worker()
        await world.claimed(worker)
        await world.store.liveness.retire(worker, world.now)

        assert await world.lose() == LossReport(leases=1, lost=2)

    async def test_only_what_has_not_ended_is_lost(self, world: World) -> None:
        await world.enqueue(await world.job(), 5)
        worker = await world.worker()
        claimed = await world.claimed(worker)
        for run_id, outcome in zip(claimed.ids, (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RELEASED, Outcome.CANCELLED), strict=False):
            await world.finish(worker, claimed, outcome, [run_id])
        world.turn(TTL)

        assert await world.lose() == LossReport(leases=1, lost=1)

        assert [len(await world.outcomes_of(run_id)) for run_id in claimed.ids] == [1] * 5
        assert await world.outcomes_of(claimed.ids[4]) == [Outcome.WORKER_LOST]

    async def test_an_attempt_that_failed_and_runs_elsewhere_is_not_lost_with_its_first_lease(self, world: World) -> None:
        await world.enqueue(await world.job(), 2)
        first = await world.worker()
        old = await world.claimed(first)
        await world.finish(first, old, Outcome.FAILED, old.ids[:1])
        world.turn(10 * SECOND)
        await world.promote()
        second = await world.worker(ttl=MINUTE)
        new = await world.claimed(second)
        world.turn(5 * SECOND)

        assert await world.lose() == LossReport(leases=1, lost=1)

        assert new.ids == old.ids[:1]
        assert await world.states(old.ids) == [State.RUNNING, State.SCHEDULED]
        assert await world.finish(second, new) == set()

    async def test_what_kills_its_workers_is_quarantined(self, world: World) -> None:
        ids = await abandon(world, retry=RetryPolicy(max_losses=2))
        await world.lose()
        world.turn(WAIT_AFTER_LOSS)
        await world.promote()
        await world.claimed(await world.worker())
        world.turn(TTL)

        assert await world.lose() == LossReport(leases=1, lost=1, dead=1)

        execution = await world.execution(ids[0])
        assert (execution.state, execution.attempt, execution.last_outcome) == (State.DEAD, 2, Outcome.WORKER_LOST)
        assert "poison" in execution.error
        assert await world.outcomes_of(ids[0]) == [Outcome.WORKER_LOST] * 2

    async def test_what_was_cancelled_is_final_when_its_worker_is_lost(self, world: World) -> None:
        ids = await abandon(world, 2)
        await world.cancel(ids[0])

        assert await world.lose() == LossReport(leases=1, lost=2, dead=1)

        assert await world.states(ids) == [State.CANCELLED, State.SCHEDULED]

    async def test_the_decision_sees_what_the_store_knows(self, world: World) -> None:
        job = await world.job()
        ids = await world.enqueue(job)
        await world.run(Outcome.FAILED)
        world.turn(10 * SECOND)
        await world.promote()
        claimed = await world.claimed(worker := await world.worker())
        granted_at = world.now
        world.turn(TTL)
        seen: list[Lost] = []
        await world.store.losses.bury_workers(world.now)

        await world.store.losses.lose(lambda lost, version: (seen.append(lost), world.after_loss(lost, version))[1], world.now, 10)

        assert seen == [Lost(ids[0], claimed.lease, worker, granted_at, 2, 1, 0, False, job.id, job.version.number, False)]

    async def test_a_round_takes_at_most_its_limit_of_leases(self, world: World) -> None:
        await world.enqueue(await world.job(), 6)
        worker = await world.worker()
        for _ in range(3):
            await world.claimed(worker, 2)
        world.turn(TTL)

        assert await world.lose(limit=2) == LossReport(leases=2, lost=4)
        assert await world.lose(limit=2) == LossReport(leases=1, lost=2)

    async def test_a_decision_that_fails_loses_nothing(self, world: World) -> None:
        ids = await abandon(world, 2)
        await world.store.losses.bury_workers(world.now)

        def decide(lost: Lost, version: object) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await world.store.losses.lose(decide, world.now, 10)

        assert await world.states(ids) == [State.RUNNING] * 2
        assert (await world.lose()).lost == 2

    async def test_a_verdict_of_another_time_is_obeyed(self, world: World) -> None:
        ids = await abandon(world)
        await world.store.losses.bury_workers(world.now)
        later = world.now + MINUTE

        await world.store.losses.lose(lambda lost, version: replace(world.after_loss(lost, version), retry_at=later), world.now, 10)

        assert (await world.execution(ids[0])).next_attempt_at == later
