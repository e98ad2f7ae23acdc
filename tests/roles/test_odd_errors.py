"""Whatever a handler raises ends its attempt, once, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duly.domain.lifecycle import Outcome, State
from duly.ports.endings import kinds_of
from duly.ports.handlers import Attempt
from duly.roles.endings import LONGEST_MESSAGE
from tests.roles.conftest import World, run_until_idle
from tests.roles.odd_errors import ODD, Interrupting


@pytest.mark.parametrize("which", ODD)
async def test_an_error_that_cannot_be_told_ends_its_attempt_only(world: World, which: str) -> None:
    make, kind, name = ODD[which]

    async def work(attempt: Attempt) -> None:
        if attempt.payload == "odd":
            raise make()

    world.handle("work", work)
    job = await world.create(retryPolicy={"maxAttempts": 1})
    (odd,) = await world.enqueue(job, payload='"odd"')
    (plain,) = await world.enqueue(job)

    await run_until_idle(await world.worker(slots=1), world.clock)

    stands = await world.show(odd)
    assert (stands.state, stands.last_outcome) == (State.DEAD, Outcome.FAILED)
    told: dict[str, Any] = json.loads(stands.error or "{}")
    assert told["type"] == kind
    assert len(told["message"]) <= LONGEST_MESSAGE
    assert name in kinds_of(make())
    assert (await world.show(plain)).state is State.SUCCEEDED


async def test_words_that_interrupt_are_replaced(world: World) -> None:
    async def work(attempt: Attempt) -> None:
        raise Interrupting

    world.handle("work", work)
    (id,) = await world.enqueue(await world.create(retryPolicy={"rules": [{"error": "ValueError", "retry": False}]}))

    await run_until_idle(await world.worker(), world.clock)

    stands = await world.show(id)
    assert stands.state is State.DEAD
    assert json.loads(stands.error or "{}")["message"] == "(a Interrupting that cannot be printed)"
