"""What an execution keeps over its attempts: numbered, fenced, and there for the next attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from duly.adapters.sql.engine import Engine
from duly.domain.execution import Claimed, Saved
from duly.domain.instants import DAY, MINUTE, SECOND
from duly.domain.lifecycle import Outcome, State
from tests.conformance.world import TTL, World


async def save(world: World, worker: int, claimed: Claimed, number: int, data: str = "{}", nth: int = 0) -> bool:
    return await world.store.checkpoints.save(worker, claimed.lease, claimed.ids[nth], number, data, world.now)


async def started(world: World) -> tuple[int, Claimed]:
    await world.enqueue(await world.job())
    worker = await world.worker(ttl=10 * MINUTE)
    return worker, await world.claimed(worker)


class TestCheckpoints:
    async def test_the_last_one_is_kept(self, world: World) -> None:
        worker, claimed = await started(world)

        assert await save(world, worker, claimed, 1, '{"row":10}')
        world.turn(SECOND)
        assert await save(world, worker, claimed, 2, '{"row":20}')

        assert await world.store.checkpoints.saved(claimed.ids) == {claimed.ids[0]: Saved(2, '{"row":20}', None, world.now)}
        assert (await world.execution(claimed.ids[0])).saved == Saved(2, None, None, world.now)

    async def test_a_number_that_does_not_grow_is_refused(self, world: World) -> None:
        worker, claimed = await started(world)
        await save(world, worker, claimed, 5, '"five"')

        assert not await save(world, worker, claimed, 4, '"four"')

        assert (await world.store.checkpoints.saved(claimed.ids))[claimed.ids[0]].checkpoint == '"five"'

    async def test_a_repeat_after_a_lost_answer_is_accepted(self, world: World) -> None:
        worker, claimed = await started(world)
        await save(world, worker, claimed, 1, '"one"')

        assert await save(world, worker, claimed, 1, '"one"')

    async def test_its_number_with_other_data_is_refused(self, world: World) -> None:
        worker, claimed = await started(world)
        await save(world, worker, claimed, 1, '"one"')

        assert not await save(world, worker, claimed, 1, '"other"')

        assert (await world.store.checkpoints.saved(claimed.ids))[claimed.ids[0]].checkpoint == '"one"'

    async def test_the_next_attempt_goes_on_from_it_and_cannot_repeat_its_number(self, world: World) -> None:
        worker, claimed = await started(world)
        await save(world, worker, claimed, 3, '"three"')
        await world.finish(worker, claimed, Outcome.FAILED)
        world.turn(MINUTE)
        await world.promote()
        second = await world.claimed(worker)

        assert (await world.store.checkpoints.saved(second.ids))[second.ids[0]].checkpoint == '"three"'
        assert not await save(world, worker, second, 3, '"other"')
        assert await save(world, worker, second, 4, '"four"')

    async def test_another_workers_lease_is_refused(self, world: World) -> None:
        _, claimed = await started(world)
        stranger = await world.worker("stranger")

        assert not await save(world, stranger, claimed, 1)
        assert not await world.store.checkpoints.save(stranger, claimed.lease + 1_000, claimed.ids[0], 1, "{}", world.now)

        assert await world.store.checkpoints.saved(claimed.ids) == {}

    async def test_a_lease_that_does_not_hold_the_execution_is_refused(self, world: World) -> None:
        worker, claimed = await started(world)
        (waiting,) = await world.enqueue(await world.job())

        assert not await world.store.checkpoints.save(worker, claimed.lease, waiting, 1, "{}", world.now)

    async def test_an_attempt_that_has_ended_is_refused_though_its_lease_lives_on(self, world: World) -> None:
        job = await world.job()
        await world.enqueue(job, 2)
        worker = await world.worker()
        claimed = await world.claimed(worker)
        reports = await world.ended(claimed, Outcome.SUCCEEDED, only=claimed.ids[:1])
        assert await world.store.outcomes.finish(worker, reports, [], world.now) == set()

        assert not await save(world, worker, claimed, 1)
        assert await save(world, worker, claimed, 1, nth=1)

    async def test_a_checkpoint_after_the_lease_is_lost_is_refused(self, world: World) -> None:
        worker, claimed = await started(world)
        await save(world, worker, claimed, 1, '"kept"')
        world.turn(11 * MINUTE)
        assert (await world.lose()).lost == 1

        assert not await save(world, worker, claimed, 2, '"late"')

        assert (await world.store.checkpoints.saved(claimed.ids))[claimed.ids[0]].checkpoint == '"kept"'

    async def test_checkpoints_go_with_their_execution(self, world: World) -> None:
        worker, claimed = await started(world)
        await save(world, worker, claimed, 1)
        await world.finish(worker, claimed)
        world.turn(40 * DAY)

        while await world.store.retention.prune(world.now - 30 * DAY, world.now, 100):
            pass

        assert await world.store.checkpoints.saved(claimed.ids) == {}


class TestProgress:
    async def test_the_latest_is_kept_beside_the_checkpoint(self, world: World) -> None:
        worker, claimed = await started(world)
        report = world.store.checkpoints.report

        assert await report(worker, [(claimed.lease, claimed.ids[0], '{"done":1}')], world.now) == 1
        await save(world, worker, claimed, 1, '"one"')
        assert await report(worker, [(claimed.lease, claimed.ids[0], '{"done":2}')], world.now) == 1

        assert await world.store.checkpoints.saved(claimed.ids) == {claimed.ids[0]: Saved(1, '"one"', '{"done":2}', world.now)}

    async def test_only_what_runs_under_the_workers_lease_is_kept(self, world: World) -> None:
        worker, claimed = await started(world)
        (waiting,) = await world.enqueue(await world.job())
        stranger = await world.worker("stranger")

        reports = [(claimed.lease, claimed.ids[0], "1"), (claimed.lease, waiting, "2"), (claimed.lease + 1_000, claimed.ids[0], "3")]
        assert await world.store.checkpoints.report(stranger, reports, world.now) == 0
        assert await world.store.checkpoints.report(worker, reports, world.now) == 1

        assert await world.store.checkpoints.saved([*claimed.ids, waiting]) == {claimed.ids[0]: Saved(0, None, "1")}


class TestLosses:
    async def test_only_attempts_whose_process_is_gone_are_counted(self, world: World) -> None:
        (run_id,) = await world.enqueue(await world.job())
        await world.run(Outcome.FAILED)
        for _ in range(2):
            world.turn(MINUTE)
            await world.promote()
            await world.claimed(await world.worker())
            world.turn(2 * TTL)
            await world.lose()

        assert await world.store.outcomes.losses(run_id) == 2
        assert await world.store.outcomes.losses(world.ids(1)[0]) == 0


async def test_of_sweeper_and_checkpoint_one_is_first(open_engine: Callable[[], AbstractAsyncContextManager[Engine]]) -> None:
    """Whatever was accepted before the sweep is what the next attempt finds; nothing is accepted after it."""
    async with open_engine() as one, open_engine() as other:
        world = World(one)
        beside = World(other, clock=world.clock)
        for _ in range(20):
            (run_id,) = await world.enqueue(await world.job())
            worker = await world.worker()
            claimed = await world.claimed(worker)
            world.turn(2 * TTL)

            async def keep_saving(worker: int = worker, claimed: Claimed = claimed) -> int:
                number = 0
                while await save(beside, worker, claimed, number + 1, str(number + 1)):
                    number += 1
                return number

            async def sweep() -> None:
                # A lease that a checkpoint holds at this moment is left for the next round.
                while not (await world.lose()).lost:
                    pass

            accepted, _ = await asyncio.gather(keep_saving(), sweep())

            kept = (await world.store.checkpoints.saved([run_id])).get(run_id)
            assert (0 if kept is None else kept.number) == accepted
            assert await world.state(run_id) is State.SCHEDULED
            await world.cancel(run_id)
