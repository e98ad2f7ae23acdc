"""The only loop: it steps a role, waits for what the role says, and backs off when the world is away.

A role returns what it did and how long nothing will be due; it never sleeps. So tests step it by
hand, and every role recovers from a lost store in the same way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from duly.domain.errors import Unavailable
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.metrics.catalogue import FAILURES, ROLE_DID, ROLE_FAILURES, ROLE_SECONDS, ROLE_STEPS
from duly.ports.clock import Clock, Entropy
from duly.ports.telemetry import Telemetry, listener

log = logging.getLogger("duly.roles")

T = TypeVar("T")
S = TypeVar("S")

FIRST_BACKOFF = 0.1
LONGEST_BACKOFF = 5.0
# Whoever waits for himself knows better than the loop when it is time; after so much more he is not waited for any longer.
SLACK = 0.1


@dataclass(slots=True)
class Step:
    """What a step did (names are also the names of metrics), and after how many seconds the next one is due; at least after so many times
    as long as this one took (`rests`), for who works in the background."""

    wait: float
    did: dict[str, int] = field(default_factory=dict)
    rests: float = 0.0


class Role(Protocol):
    """Reads through ports, decides in pure functions, writes through ports."""

    name: str

    async def step(self, now: Instant) -> Step:
        """Do what is due now."""


async def run(
    role: Role, clock: Clock, stop: asyncio.Event, entropy: Entropy, wait: Callable[[float], Awaitable[object]] | None = None
) -> None:
    """Step the role until `stop` is set. `wait(seconds)` returns after so long, or earlier when there is something to do."""
    backoff, telemetry = 0.0, listener()
    for kind in FAILURES:
        telemetry.count(ROLE_FAILURES, (role.name, kind), 0)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        while not stop.is_set():
            asked = clock.boottime()
            try:
                step = await role.step(clock.now())
                took = clock.boottime() - asked
                pause, backoff = max(step.wait, step.rests * took / SECOND), 0.0
                _tell(telemetry, role.name, step, took)
            except Unavailable as error:
                telemetry.count(ROLE_FAILURES, (role.name, "unavailable"))
                backoff = min(max(backoff * 2, FIRST_BACKOFF), LONGEST_BACKOFF)
                log.warning("%s waits %.1f s: %s", role.name, backoff, error)
                pause = _jittered(backoff, entropy)
            except Exception:
                # A fault of ours must not take the other roles of this process down; it is logged, and tried again.
                telemetry.count(ROLE_FAILURES, (role.name, "fault"))
                backoff = min(max(backoff * 2, FIRST_BACKOFF), LONGEST_BACKOFF)
                log.exception("%s failed and starts again in %.1f s", role.name, backoff)
                pause = _jittered(backoff, entropy)
            if pause > 0:
                await _until(stopping, pause, wait if backoff == 0.0 else None)
            else:
                await asyncio.sleep(0)
    finally:
        stopping.cancel()


async def both(one: Coroutine[Any, Any, T], other: Coroutine[Any, Any, S]) -> tuple[T, S]:
    """What two calls come to that go on side by side; each comes to its end, whatever the other does. Raises what the other one raised
    rather than what the one did. Cheaper than `gather`: there is one task, and one of them is run here."""
    task = asyncio.create_task(one)
    try:
        found = await other
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError):
            task.cancel()
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait((task,))
            raise
        if not task.cancelled():
            # Seen: whoever is left with two errors is told of one.
            task.exception()
        raise
    return await task, found


def _tell(telemetry: Telemetry, role: str, step: Step, took: Micros) -> None:
    telemetry.count(ROLE_STEPS, (role,))
    telemetry.observe(ROLE_SECONDS, took / SECOND, (role,))
    for what, count in step.did.items():
        if count:
            telemetry.count(ROLE_DID, (role, what), count)


async def _until(stopping: asyncio.Future[Any], seconds: float, wait: Callable[[float], Awaitable[object]] | None) -> None:
    """Wait for the stop, for `seconds`, or for what `wait` waits for: whichever comes first.

    Every role waits a few times a second, a busy one far more often: so no task is made for it.
    """
    if wait is not None:
        try:
            await _within(stopping, seconds + SLACK, wait(seconds))
            return
        except Exception:
            # Nobody tells us when it is time, so we look again: soon, but not without end at once.
            log.debug("a wait failed", exc_info=True)
            seconds = min(seconds, FIRST_BACKOFF)
    await asyncio.wait((stopping,), timeout=seconds)


async def _within(stopping: asyncio.Future[Any], seconds: float, waited: Awaitable[object]) -> None:
    """Await it for so long; the stop comes as if the time were over."""
    limit, waits = asyncio.timeout(seconds), True

    def hurry(stopped: asyncio.Future[Any]) -> None:
        # The stop may come in the same turn of the loop as what was waited for, or as the end of the time.
        if waits and not limit.expired():
            limit.reschedule(0.0)

    try:
        async with limit:
            stopping.add_done_callback(hurry)
            try:
                await waited
            finally:
                waits = False
                stopping.remove_done_callback(hurry)
    except TimeoutError:
        # One of its own is a failure like any other.
        if not limit.expired():
            raise


def _jittered(seconds: float, entropy: Entropy) -> float:
    """Between half and all of it, so that a fleet does not come back in step."""
    return seconds * (0.5 + entropy(16) / 131_072)
