"""Where workers report: what is accepted, what is refused, and what follows from it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from duly.adapters.sql.postgres.work import WORTH_IT
from duly.domain.execution import Claimed, LogLine
from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.job import Priority
from duly.domain.lifecycle import Outcome, State
from duly.domain.limits import Limits
from duly.domain.overlap import OverlapPolicy
from duly.domain.retry import Backoff, RetryPolicy
from tests.conformance.ledger import raw
from tests.conformance.world import RETRIES, START, World


class Shift:
    """A worker that holds some executions of one job under one lease."""

    def __init__(self, world: World, worker: int, claimed: Claimed) -> None:
        self.world, self.worker, self.claimed = world, worker, claimed
        self.ids = claimed.ids

    async def end(self, outcome: Outcome, *ids: object, close: bool = True, **changes: object) -> set:
        reports = await self.world.ended(self.claimed, outcome, ids or None, **changes)
        return await self.world.store.outcomes.finish(self.worker, reports, [self.claimed.lease] if close else [], self.world.now)


async def shift(world: World, count: int = 1, **job: object) -> Shift:
    made = await world.job(**job)
    await world.enqueue(made, count)
    worker = await world.worker()
    return Shift(world, worker, await world.claimed(worker))


async def leases(world: World) -> int:
    return (await raw(world.engine, "SELECT count(*) AS n FROM leases"))[0]["n"]


class TestAccepted:
    async def test_a_success_is_final_with_its_result(self, world: World) -> None:
        held = await shift(world)
        world.turn(SECOND)

        assert await held.end(Outcome.SUCCEEDED, result='{"sum":3}', started_at=START) == set()

        execution = await world.execution(held.ids[0])
        assert (execution.state, execution.result, execution.error, execution.last_outcome) == (
            State.SUCCEEDED,
            '{"sum":3}',
            None,
            Outcome.SUCCEEDED,
        )
        assert (execution.started_at, execution.finished_at, execution.attempt) == (START, START + SECOND, 1)
        assert (execution.fence, execution.worker) == (held.claimed.lease, held.worker)

    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMED_OUT], ids=lambda outcome: outcome.name)
    async def test_a_failure_waits_and_costs_budget(self, world: World, outcome: Outcome) -> None:
        held = await shift(world)

        assert await held.end(outcome) == set()

        execution = await world.execution(held.ids[0])
        assert (execution.state, execution.attempt, execution.next_attempt_at) == (State.SCHEDULED, 2, START + RETRIES.initial_delay)
        assert (execution.last_outcome, execution.error) == (outcome, f'{{"message":"{outcome.name.lower()}"}}')
        world.turn(RETRIES.initial_delay)
        await world.promote()
        again = await world.claimed(await world.worker())
        assert (again.attempts, again.failures) == ([2], [1])

    async def test_a_retry_ranks_by_its_own_time_with_its_head_start(self, world: World) -> None:
        urgent = await shift(world, priority=Priority.HIGH)
        await urgent.end(Outcome.FAILED)
        normal = await world.job()
        world.turn(RETRIES.initial_delay)
        await world.promote()
        await world.enqueue(normal)

        assert (await world.claimed(await world.worker(), 1)).ids == urgent.ids

    async def test_the_last_failure_is_a_dead_letter(self, world: World) -> None:
        held = await shift(world, retry=RetryPolicy(max_attempts=1))

        await held.end(Outcome.FAILED)

        execution = await world.execution(held.ids[0])
        assert (execution.state, execution.attempt, execution.last_outcome) == (State.DEAD, 1, Outcome.FAILED)
        assert execution.error == '{"message":"failed"}'

    async def test_attempts_are_numbered_until_the_budget_is_used(self, world: World) -> None:
        job = await world.job(retry=RetryPolicy(max_attempts=3, backoff=Backoff.FIXED, initial_delay=SECOND, jitter=0.0))
        (run_id,) = await world.enqueue(job)
        for _ in range(3):
            await world.run(Outcome.FAILED)
            world.turn(SECOND)
            await world.promote()

        attempts = await world.store.insights.attempts(run_id)

        assert [attempt.attempt for attempt in attempts] == [1, 2, 3]
        assert [attempt.retry_at is None for attempt in attempts] == [False, False, True]
        assert await world.state(run_id) is State.DEAD

    async def test_a_release_keeps_rank_and_budget(self, world: World) -> None:
        held = await shift(world)
        world.turn(SECOND)
        younger = await world.enqueue(await world.job())

        assert await held.end(Outcome.RELEASED) == set()
        await world.promote()

        worker = await world.worker()
        again = await world.claimed(worker, 1)
        assert (again.ids, again.attempts, again.failures) == (held.ids, [2], [0])
        assert (await world.claimed(worker, 1)).ids == younger

    async def test_a_handler_that_obeyed_a_cancel_is_cancelled(self, world: World) -> None:
        held = await shift(world)
        assert await world.cancel(*held.ids) == {held.ids[0]: State.RUNNING}

        await held.end(Outcome.CANCELLED)

        assert await world.state(held.ids[0]) is State.CANCELLED
        assert await world.outcomes_of(held.ids[0]) == [Outcome.CANCELLED]

    @pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.RELEASED], ids=lambda outcome: outcome.name)
    async def test_what_was_cancelled_during_its_run_does_not_run_again(self, world: World, outcome: Outcome) -> None:
        held = await shift(world)
        await world.cancel(*held.ids)

        await held.end(outcome)

        assert await world.state(held.ids[0]) is State.CANCELLED
        (attempt,) = await world.store.insights.attempts(held.ids[0])
        assert (attempt.outcome, attempt.retry_at) == (outcome, None)

    async def test_a_success_is_a_success_though_it_was_cancelled(self, world: World) -> None:
        held = await shift(world)
        await world.cancel(*held.ids)

        await held.end(Outcome.SUCCEEDED)

        assert await world.state(held.ids[0]) is State.SUCCEEDED

    async def test_one_call_reports_every_kind_of_end(self, world: World) -> None:
        held = await shift(world, 5)
        kinds = (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RELEASED, Outcome.CANCELLED, Outcome.TIMED_OUT)
        reports = [(await world.ended(held.claimed, outcome, [run_id]))[0] for run_id, outcome in zip(held.ids, kinds, strict=True)]

        assert await world.store.outcomes.finish(held.worker, reports, [held.claimed.lease], world.now) == set()

        assert await world.states(held.ids) == [State.SUCCEEDED, State.SCHEDULED, State.SCHEDULED, State.CANCELLED, State.SCHEDULED]
        assert await leases(world) == 0

    async def test_one_call_reports_under_several_leases(self, world: World) -> None:
        job = await world.job()
        await world.enqueue(job, 4)
        worker = await world.worker()
        first, second = await world.claimed(worker, 2), await world.claimed(worker, 2)
        reports = await world.ended(first, Outcome.SUCCEEDED) + await world.ended(second, Outcome.FAILED)

        assert await world.store.outcomes.finish(worker, reports, [first.lease, second.lease], world.now) == set()

        assert await leases(world) == 0


class TestRefused:
    async def test_a_worker_that_was_replaced_cannot_finish(self, world: World) -> None:
        held = await shift(world, 2)
        world.turn(MINUTE)
        await world.lose()
        world.turn(MINUTE)
        await world.promote()
        heir = await world.worker()
        again = await world.claimed(heir)

        for outcome in (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RELEASED, Outcome.CANCELLED):
            assert await held.end(outcome) == set(held.ids)

        assert await world.states(held.ids) == [State.RUNNING] * 2
        assert await world.finish(heir, again) == set()
        assert await world.outcomes_of(held.ids[0]) == [Outcome.WORKER_LOST, Outcome.SUCCEEDED]

    @pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED], ids=lambda outcome: outcome.name)
    async def test_what_poison_ended_cannot_be_finished_by_its_late_worker(self, world: World, outcome: Outcome) -> None:
        held = await shift(world, retry=RetryPolicy(max_losses=1))
        world.turn(MINUTE)
        await world.lose()

        assert await held.end(outcome) == set(held.ids)

        assert await world.state(held.ids[0]) is State.DEAD

    @pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED], ids=lambda outcome: outcome.name)
    async def test_another_workers_lease_is_no_right(self, world: World, outcome: Outcome) -> None:
        held = await shift(world)
        thief = Shift(world, await world.worker(), held.claimed)

        assert await thief.end(outcome) == set(held.ids)

        assert await world.state(held.ids[0]) is State.RUNNING

    @pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED], ids=lambda outcome: outcome.name)
    async def test_what_a_lease_never_held_is_refused(self, world: World, outcome: Outcome) -> None:
        held, other = await shift(world), await shift(world)
        (stranger,) = world.ids(1)
        reports = [replace((await world.ended(held.claimed, outcome))[0], id=run_id) for run_id in (other.ids[0], stranger)]

        assert await world.store.outcomes.finish(held.worker, reports, [], world.now) == {other.ids[0], stranger}

        assert await world.states([*held.ids, *other.ids]) == [State.RUNNING] * 2

    async def test_of_a_mixed_call_the_rest_is_accepted(self, world: World) -> None:
        held, other = await shift(world, 2), await shift(world)
        reports = await world.ended(held.claimed, Outcome.SUCCEEDED) + await world.ended(other.claimed, Outcome.FAILED)

        refused = await world.store.outcomes.finish(held.worker, reports, [held.claimed.lease], world.now)

        assert refused == set(other.ids)
        assert await world.states([*held.ids, *other.ids]) == [State.SUCCEEDED] * 2 + [State.RUNNING]

    async def test_a_buried_worker_may_report_until_its_lease_is_taken(self, world: World) -> None:
        held = await shift(world)
        world.turn(MINUTE)
        await world.store.losses.bury_workers(world.now)

        assert await held.end(Outcome.SUCCEEDED) == set()

        assert (await world.lose()).lost == 0
        assert await world.state(held.ids[0]) is State.SUCCEEDED


class TestRepeated:
    @pytest.mark.parametrize(
        "outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RELEASED, Outcome.CANCELLED], ids=lambda outcome: outcome.name
    )
    @pytest.mark.parametrize("close", [True, False], ids=["closing", "open"])
    async def test_a_repeated_report_is_accepted_and_changes_nothing(self, world: World, outcome: Outcome, close: bool) -> None:
        held = await shift(world, 3)
        await held.end(outcome, close=close)
        before = [await world.execution(run_id) for run_id in held.ids]

        assert await held.end(outcome, close=close) == set()

        assert [await world.execution(run_id) for run_id in held.ids] == before
        await held.end(outcome)

    async def test_a_repeat_that_brings_more_records_the_rest(self, world: World) -> None:
        held = await shift(world, 3)
        await held.end(Outcome.SUCCEEDED, held.ids[0], close=False)

        assert await held.end(Outcome.SUCCEEDED) == set()

        assert await world.states(held.ids) == [State.SUCCEEDED] * 3

    async def test_a_repeat_after_the_retry_ran_changes_nothing(self, world: World) -> None:
        held = await shift(world)
        await held.end(Outcome.FAILED)
        world.turn(RETRIES.initial_delay)
        await world.promote()
        await world.run()

        assert await held.end(Outcome.FAILED) == set()

        assert await world.outcomes_of(held.ids[0]) == [Outcome.FAILED, Outcome.SUCCEEDED]

    async def test_concurrent_repeats_record_one_end(self, world: World) -> None:
        held = await shift(world, 10)

        refused = await asyncio.gather(*(held.end(outcome) for outcome in [Outcome.FAILED] * 4))

        assert refused == [set()] * 4
        assert [len(await world.outcomes_of(run_id)) for run_id in held.ids] == [1] * 10

    async def test_an_attempt_that_succeeded_cannot_fail_afterwards(self, world: World) -> None:
        held = await shift(world, 2)
        await held.end(Outcome.SUCCEEDED, held.ids[0], close=False)

        await held.end(Outcome.FAILED)

        assert await world.states(held.ids) == [State.SUCCEEDED, State.SCHEDULED]


class TestClosing:
    async def test_a_complete_lease_leaves_nothing_behind(self, world: World) -> None:
        held = await shift(world, 3)
        for run_id, outcome in zip(held.ids, (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.RELEASED), strict=True):
            await held.end(outcome, run_id)

        assert await leases(world) == 0

    async def test_a_lease_that_is_not_complete_stays_though_it_is_named(self, world: World) -> None:
        held = await shift(world, 2)

        await held.end(Outcome.SUCCEEDED, held.ids[0])

        assert await leases(world) == 1
        assert await held.end(Outcome.SUCCEEDED, held.ids[1]) == set()
        assert await leases(world) == 0

    async def test_a_lease_may_be_closed_after_its_last_report(self, world: World) -> None:
        held = await shift(world, 2)
        await held.end(Outcome.SUCCEEDED, close=False)

        await world.store.outcomes.finish(held.worker, [], [held.claimed.lease], world.now)

        assert await leases(world) == 0

    async def test_nobody_closes_anothers_lease(self, world: World) -> None:
        held = await shift(world, 2)

        await world.store.outcomes.finish(await world.worker(), [], [held.claimed.lease], world.now)

        assert await leases(world) == 1


class TestWhole:
    """A lease of some size whose executions have all succeeded is reported at once; however it is reported, the same follows."""

    COUNT = 2 * WORTH_IT

    async def test_every_result_and_time_reaches_its_own_execution(self, world: World) -> None:
        held = await shift(world, self.COUNT)
        said = [None, "0", '{"n":12345678901234567890123}', '"\\u00fc, ü and null"', "[null]", '""']
        reports = [
            replace(item, result=said[nth % len(said)], started_at=START + nth, finished_at=START + 2 * nth)
            for nth, item in enumerate(await world.ended(held.claimed, Outcome.SUCCEEDED))
        ]

        assert await world.store.outcomes.finish(held.worker, reports, [held.claimed.lease], world.now) == set()

        for nth, run_id in enumerate(held.ids):
            found = await world.execution(run_id)
            assert (found.state, found.result, found.started_at, found.finished_at, found.attempt, found.fence, found.worker) == (
                State.SUCCEEDED,
                said[nth % len(said)],
                START + nth,
                START + 2 * nth,
                1,
                held.claimed.lease,
                held.worker,
            )
        assert await leases(world) == 0

    @pytest.mark.parametrize("order", [slice(None), slice(None, None, -1), slice(1, None), slice(WORTH_IT)], ids=str)
    async def test_in_any_order_and_in_part(self, world: World, order: slice) -> None:
        held = await shift(world, self.COUNT)
        reports = await world.ended(held.claimed, Outcome.SUCCEEDED)
        first, rest = reports[order], [item for item in reports if item not in reports[order]]

        assert await world.store.outcomes.finish(held.worker, first, [held.claimed.lease], world.now) == set()
        assert await leases(world) == bool(rest)
        if rest:
            assert await world.store.outcomes.finish(held.worker, rest, [held.claimed.lease], world.now) == set()

        assert set(await world.states(held.ids)) == {State.SUCCEEDED}
        assert await leases(world) == 0

    async def test_a_worker_that_was_replaced_is_refused(self, world: World) -> None:
        held = await shift(world, self.COUNT)
        world.turn(MINUTE)
        await world.lose()

        assert await held.end(Outcome.SUCCEEDED) == set(held.ids)

        assert State.SUCCEEDED not in await world.states(held.ids)

    async def test_another_workers_lease_is_no_right(self, world: World) -> None:
        held = await shift(world, self.COUNT)
        other = Shift(world, await world.worker(), held.claimed)

        assert await other.end(Outcome.SUCCEEDED) == set(held.ids)

        assert await leases(world) == 1

    async def test_a_repeat_changes_nothing(self, world: World) -> None:
        held = await shift(world, self.COUNT)
        assert await held.end(Outcome.SUCCEEDED) == set()

        assert await held.end(Outcome.SUCCEEDED, result='"again"') == set()

        assert {(await world.execution(id)).result for id in held.ids} == {'"done"'}

    async def test_what_was_reported_before_is_not_reported_twice(self, world: World) -> None:
        held = await shift(world, self.COUNT)
        assert await held.end(Outcome.SUCCEEDED, *held.ids[: WORTH_IT // 2], close=False) == set()

        assert await held.end(Outcome.SUCCEEDED, result='"again"') == set()

        assert [(await world.execution(id)).result for id in held.ids[:2] + held.ids[-2:]] == ['"done"'] * 2 + ['"again"'] * 2
        assert await leases(world) == 0

    @pytest.mark.parametrize(
        "limit",
        [{"limits": Limits(max_concurrent=COUNT)}, {"overlap": OverlapPolicy.QUEUE_ONE, "every": HOUR}],
        ids=["slots", "places"],
    )
    async def test_what_they_hold_is_passed_on(self, world: World, limit: dict[str, Any]) -> None:
        jobs = await world.jobs(self.COUNT if "every" in limit else 1, **limit)

        async def come() -> None:
            await (world.fire() if "every" in limit else world.enqueue(jobs[0], self.COUNT))

        await come()
        worker = await world.worker(ttl=2 * HOUR)
        claimed = await world.claimed(worker)
        world.turn(HOUR)
        await come()
        assert (len(claimed.ids), await world.claim(worker)) == (self.COUNT, None)

        assert await world.finish(worker, claimed) == set()

        assert len((await world.claimed(worker)).ids) == self.COUNT

    async def test_each_ends_as_the_attempt_that_it_was(self, world: World) -> None:
        runs = await world.enqueue(await world.job(), self.COUNT)
        await world.run(Outcome.FAILED)
        world.turn(MINUTE)
        await world.promote()

        await world.run()

        assert {(await world.execution(run)).attempt for run in runs} == {2}

    async def test_beside_other_leases_and_other_ends(self, world: World) -> None:
        job = await world.job()
        worker = await world.worker()
        held: list[Claimed] = []
        for _ in range(3):
            await world.enqueue(job, self.COUNT)
            held.append(await world.claimed(worker))
        reports = [report for claimed in held for report in await world.ended(claimed, Outcome.SUCCEEDED)]
        reports[self.COUNT] = (await world.ended(held[1], Outcome.FAILED))[0]

        assert await world.store.outcomes.finish(worker, reports, [claimed.lease for claimed in held], world.now) == set()

        states = [state for claimed in held for state in await world.states(claimed.ids)]
        assert [nth for nth, state in enumerate(states) if state is not State.SUCCEEDED] == [self.COUNT]
        assert await leases(world) == 0


class TestLogs:
    LINES = [LogLine(START + nth, "INFO", f"line {nth} – ü", {"n": nth} if nth % 2 else {}) for nth in range(40)]

    async def keep(self, held: Shift, lines: list[LogLine], worker: int | None = None) -> int:
        lease = held.claimed.lease
        tagged = [(lease, held.ids[nth % len(held.ids)], 1, line) for nth, line in enumerate(lines)]
        return await held.world.store.outcomes.append_logs(worker or held.worker, tagged)

    async def test_lines_are_read_in_the_order_they_were_written(self, world: World) -> None:
        held = await shift(world)

        assert await self.keep(held, self.LINES[:25]) == 25
        assert await self.keep(held, self.LINES[25:]) == 15

        found = await world.store.insights.logs(held.ids[0], None, 0, 100)
        assert [line for _, _, line in found] == self.LINES
        assert [attempt for _, attempt, _ in found] == [1] * 40

    async def test_lines_of_several_executions_keep_their_order_each(self, world: World) -> None:
        held = await shift(world, 3)

        await self.keep(held, self.LINES)

        for nth, run_id in enumerate(held.ids):
            assert [line for _, _, line in await world.store.insights.logs(run_id, None, 0, 100)] == self.LINES[nth::3]

    async def test_reading_goes_on_after_a_sequence_number(self, world: World) -> None:
        held = await shift(world)
        await self.keep(held, self.LINES[:10])

        seen, after = [], 0
        while page := await world.store.insights.logs(held.ids[0], None, after, 3):
            seen += [line for _, _, line in page]
            after = page[-1][0]

        assert seen == self.LINES[:10]

    async def test_lines_are_read_by_attempt(self, world: World) -> None:
        held = await shift(world)
        await self.keep(held, self.LINES[:2])

        assert len(await world.store.insights.logs(held.ids[0], 1, 0, 10)) == 2
        assert await world.store.insights.logs(held.ids[0], 2, 0, 10) == []

    async def test_only_who_holds_the_lease_may_write(self, world: World) -> None:
        held = await shift(world)
        assert await self.keep(held, self.LINES[:2], worker=await world.worker()) == 0
        world.turn(MINUTE)
        await world.lose()

        assert await self.keep(held, self.LINES[:2]) == 0

        assert await world.store.insights.logs(held.ids[0], None, 0, 10) == []

    async def test_lines_of_what_the_lease_never_held_are_left_out(self, world: World) -> None:
        held, other = await shift(world), await shift(world)
        mixed = [(held.claimed.lease, run_id, 1, self.LINES[0]) for run_id in (*held.ids, *other.ids)]

        assert await world.store.outcomes.append_logs(held.worker, mixed) == 1
        assert await world.store.outcomes.append_logs(held.worker, []) == 0
