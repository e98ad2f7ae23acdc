from __future__ import annotations

import math
from typing import Any

import pytest

from duly.executors.builtin import builtin_handlers
from duly.ports.endings import Failure
from tests.executors.attempts import python

HANDLERS = {handler.name: handler for handler in builtin_handlers()}


def test_echo_returns_its_payload_at_its_first_step() -> None:
    running = HANDLERS["duly.echo"].run(python("duly.echo", payload={"a": [1]}))

    with pytest.raises(StopIteration) as ended:
        running.send(None)

    assert ended.value.value == {"a": [1]}


async def test_sleep_says_how_long_it_slept() -> None:
    assert await HANDLERS["duly.sleep"].run(python("duly.sleep", payload={"seconds": 0.001})) == {"slept": 0.001}


@pytest.mark.parametrize(
    "payload", [None, {}, 5, {"seconds": "5"}, {"seconds": -1}, {"seconds": 86_401}, {"seconds": True}, {"seconds": math.nan}]
)
async def test_sleep_refuses_what_is_no_number_of_seconds_up_to_a_day(payload: Any) -> None:
    with pytest.raises(Failure) as failed:
        await HANDLERS["duly.sleep"].run(python("duly.sleep", payload=payload))

    assert (failed.value.type, failed.value.retry) == ("InvalidPayload", False)
    assert "duly.sleep" in str(failed.value)


async def test_fail_fails_as_often_as_it_is_asked_to_and_then_succeeds() -> None:
    for attempt in (1, 2):
        with pytest.raises(Failure) as failed:
            await HANDLERS["duly.fail"].run(python("duly.fail", payload={"times": 2}, attempt=attempt))
        assert failed.value.retry

    assert await HANDLERS["duly.fail"].run(python("duly.fail", payload={"times": 2}, attempt=3)) == {"failed": 2}
