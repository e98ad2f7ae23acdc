"""What a handler may raise, and what becomes of its execution."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duly import Discard, GiveUp, RetryLater, Snooze
from duly.domain.execution import Execution
from duly.domain.instants import DAY, SECOND
from duly.domain.lifecycle import Outcome, State
from duly.ports.endings import Died
from duly.ports.handlers import Attempt, Handler
from tests.roles.conftest import World, run_until_idle

POLICY = {"maxAttempts": 5, "backoff": "FIXED", "initialDelayMs": 10_000, "jitter": 0}


class RateLimited(Exception):
    pass


class Overloaded(RateLimited):
    pass


async def after(world: World, error: BaseException, **job: Any) -> Execution:
    """How an execution stands whose first attempt raised this."""

    async def raises(attempt: Attempt) -> None:
        raise error

    world.handle("work", raises)
    (id,) = await world.enqueue(await world.create(**{"retryPolicy": POLICY} | job))
    await run_until_idle(await world.worker(), world.clock)
    return await world.show(id)


def told(execution: Execution) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(execution.error or "{}")
    return error


async def test_retry_later_replaces_the_wait_and_costs_an_attempt(world: World) -> None:
    stands = await after(world, RetryLater("90s", "busy"))

    assert (stands.state, stands.next_attempt_at, stands.last_outcome) == (
        State.SCHEDULED,
        world.clock.now() + 90 * SECOND,
        Outcome.FAILED,
    )
    assert told(stands) == {"type": "RetryLater", "message": "busy"}
    assert (await after(world, RetryLater("1s"), name="last", retryPolicy={"maxAttempts": 1})).state is State.DEAD


@pytest.mark.parametrize(("asked", "granted"), [("400d", 30 * DAY), (-5, 0), (1e9, 30 * DAY)])
async def test_a_wait_is_bounded(world: World, asked: Any, granted: int) -> None:
    assert (await after(world, RetryLater(asked))).next_attempt_at == world.clock.now() + granted
    assert (await after(world, Snooze(asked), name="other")).next_attempt_at == world.clock.now() + granted


async def test_a_snooze_is_no_failure_and_costs_nothing(world: World) -> None:
    stands = await after(world, Snooze("5m"), retryPolicy={"maxAttempts": 1})

    assert (stands.state, stands.last_outcome, stands.next_attempt_at) == (
        State.SCHEDULED,
        Outcome.RELEASED,
        world.clock.now() + 300 * SECOND,
    )
    assert stands.error is None


async def test_a_snooze_past_the_time_for_all_attempts_is_the_end(world: World) -> None:
    stands = await after(world, Snooze("5m"), executionTimeoutSec=60)

    assert (stands.state, told(stands)["reason"]) == (State.DEAD, "execution timeout")


async def test_give_up_goes_to_the_dead_letters_at_once(world: World) -> None:
    stands = await after(world, GiveUp("no such customer"))

    assert (stands.state, stands.last_outcome) == (State.DEAD, Outcome.FAILED)
    assert told(stands) == {"type": "GiveUp", "message": "no such customer"}


async def test_discard_is_final_and_says_why(world: World) -> None:
    stands = await after(world, Discard("the order is gone"))

    assert (stands.state, stands.last_outcome) == (State.CANCELLED, Outcome.CANCELLED)
    assert told(stands) == {"reason": "discarded", "message": "the order is gone"}


class TestRules:
    RULES = POLICY | {
        "rules": [
            {"error": "ValueError", "retry": False},
            {"error": f"{__name__}.Overloaded", "delayMs": 600_000},
            {"error": "RateLimited", "delayMs": 60_000, "maxAttempts": 1},
        ]
    }

    @pytest.mark.parametrize(
        ("error", "wait"),
        [
            (KeyError("x"), 10),
            (ValueError("x"), None),
            (UnicodeError("a base class counts"), None),
            (Overloaded("the first rule that fits"), 600),
            (RateLimited("one attempt is all it gets"), None),
        ],
    )
    async def test_the_first_rule_that_names_the_error_holds(self, world: World, error: Exception, wait: int | None) -> None:
        stands = await after(world, error, retryPolicy=self.RULES)

        expected = None if wait is None else world.clock.now() + wait * SECOND
        assert (stands.state, stands.next_attempt_at) == (State.DEAD if wait is None else State.SCHEDULED, expected)

    async def test_what_the_handler_asks_for_is_stronger_than_a_delay(self, world: World) -> None:
        rules = POLICY | {"rules": [{"error": "RetryLater", "delayMs": 60_000}]}

        stands = await after(world, RetryLater("5s"), retryPolicy=rules)

        assert stands.next_attempt_at == world.clock.now() + 5 * SECOND


class TestDeaths:
    async def die(self, world: World, times: int, **job: Any) -> Execution:
        async def dies(attempt: Attempt) -> None:
            raise Died("The child process exited with status 1.", "last words")

        world.registry.add(Handler("work", dies, may_die=True))
        (id,) = await world.enqueue(await world.create(retryPolicy={"maxAttempts": 1}, **job))
        worker, dispatcher = await world.worker(), world.dispatcher()
        for _ in range(times):
            await run_until_idle(worker, world.clock)
            world.clock.turn(2)
            await worker.heartbeat.beat(world.store.liveness)
            await dispatcher.step(world.clock.now())
        return await world.show(id)

    async def test_a_death_is_a_loss_and_has_a_budget_of_its_own(self, world: World) -> None:
        stands = await self.die(world, 2)

        assert stands.state in (State.SCHEDULED, State.PENDING)
        assert [attempt.outcome for attempt in await world.store.insights.attempts(stands.id)] == [Outcome.WORKER_LOST] * 2
        assert "exited with status 1" in told(stands)["detail"]

    async def test_the_third_quarantines_it(self, world: World) -> None:
        stands = await self.die(world, 3)

        assert (stands.state, stands.last_outcome) == (State.DEAD, Outcome.WORKER_LOST)
        error = told(stands)
        assert (error["message"], error["reason"]) == ("killed its worker 3 times", "poison")
        assert error["detail"] == "The child process exited with status 1.\nlast words"
