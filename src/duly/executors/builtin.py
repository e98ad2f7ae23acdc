"""The handlers that every worker offers, for trying things out and for tests."""

from __future__ import annotations

import asyncio
from typing import Any

from duly.ports.endings import Failure
from duly.ports.handlers import Attempt, Handler

LONGEST_SLEEP = 86_400
MOST_FAILURES = 1_000


def builtin_handlers() -> list[Handler]:
    """`duly.echo`, `duly.sleep` and `duly.fail`."""
    return [Handler("duly.echo", echo), Handler("duly.sleep", sleep), Handler("duly.fail", fail)]


async def echo(attempt: Attempt) -> Any:
    """Return the payload. It ends at its first step, so a worker drives it without a task."""
    return attempt.payload


async def sleep(attempt: Attempt) -> dict[str, float]:
    """`{"seconds": n}`: wait n seconds, at most a day."""
    seconds = _number(attempt, "seconds", LONGEST_SLEEP)
    await asyncio.sleep(seconds)
    return {"slept": seconds}


async def fail(attempt: Attempt) -> dict[str, float]:
    """`{"times": n}`: attempts 1 to n fail, the next one succeeds."""
    times = _number(attempt, "times", MOST_FAILURES)
    if attempt.attempt <= times:
        raise Failure(f"attempt {attempt.attempt} fails, as the first {times} are asked to", type="AskedToFail")
    return {"failed": times}


def _number(attempt: Attempt, key: str, most: int) -> float:
    payload = attempt.payload
    value = payload.get(key) if isinstance(payload, dict) else None
    # A bool is an int in Python and not a number in JSON; a NaN fails the comparison.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        name = attempt.version.spec.target.handler
        raise Failure(f'{name} needs a payload such as {{"{key}": 2}}, from 0 to {most}.', type="InvalidPayload", retry=False)
    return value
