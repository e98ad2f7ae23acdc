"""Six things that go wrong: each is told once, in the right words, within the time that docs/how-to/alerts.md says, and so is its end.

Whoever watches goes at its own pace here, second by second on a clock that is turned.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from duly.domain.alerts.evaluate import Event
from duly.domain.alerts.rule import Kind
from duly.domain.fairness import Ask
from duly.domain.instants import HOUR, SECOND
from duly.ports.store import WorkerAbout
from duly.roles.alerter import Alerter
from tests.alerts.conftest import Town
from tests.alerts.test_scenarios import Away
from tests.roles.conftest import ACTOR

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "alerts.md"
TTL = 15.0


def promised(kind: Kind) -> float:
    """Seconds after the trouble is one, as the page has it in the row of this kind."""
    row = next(line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `{kind.value}`"))
    told = row.split("|")[4].strip()
    found = re.match(r"(?:`DULY_WORKER_TTL` \+ )?(\d+) s( after that)?", told)
    assert found is not None, told
    return float(found[1]) + (TTL if "DULY_WORKER_TTL" in told else 0)


class Watch:
    """The roles that watch, stepped when each of them wants to be."""

    def __init__(self, town: Town, **settings: Any) -> None:
        self.town = town
        self.alerter: Alerter = town.alerter(**settings)
        self.roles: dict[str, Any] = {
            role.name: role for role in (town.dispatcher(), town.sweeper(), town.auditor(), self.alerter, town.messenger())
        }
        self._due: dict[str, int] = {}

    async def pass_by(self, seconds: float) -> None:
        """So much time goes by."""
        for _ in range(round(seconds)):
            self.town.clock.turn(1)
            for name, role in self.roles.items():
                while self._due.get(name, 0) <= (now := self.town.clock.now()):
                    # A step that has more to do at once is followed by another, as in the loop.
                    step = await role.step(now)
                    self._due[name] = now + round(step.wait * SECOND)
                    if step.wait >= 0.5:
                        break

    async def told(self, within: float) -> str:
        """What is told next, if it is told in time; and nothing else is for a while."""
        town = self.town
        for _ in range(round(within)):
            await self.pass_by(1)
            if town.pager.told:
                break
        else:
            pytest.fail(f"nothing was told within {within:g} s")
        await self.pass_by(30)
        assert len(town.pager.told) == 1, town.pager.titles
        (_, notice), town.pager.told = town.pager.told[0], []
        assert (notice.event is Event.RESOLVED) is notice.title.startswith("Recovered: ")
        return notice.title

    async def nothing(self, seconds: float) -> None:
        await self.pass_by(seconds)
        assert self.town.pager.titles == []


# Of very many rules only those are judged for whose jobs something speaks: that alone must do. And a round may take several steps.
AMONG_MANY = {"at_ease": 0, "batch": 1}


@pytest.fixture(params=[{}, AMONG_MANY], ids=["few", "many"])
async def watch(town: Town, request: pytest.FixtureRequest) -> Watch:
    found = Watch(town, **request.param)
    await town.channel()
    return found


@asynccontextmanager
async def serving(town: Town) -> AsyncIterator[None]:
    """A worker does what there is to do, and retires."""
    worker = await town.worker()
    yield
    await town.run_all(worker)
    await town.store.liveness.retire(worker.heartbeat.worker, town.clock.now())


async def test_a_worker_that_is_killed(town: Town, watch: Watch) -> None:
    await town.rule(Kind.WORKER_GONE)
    await town.store.liveness.register("web-1", WorkerAbout("default"), town.clock.now(), round(TTL * SECOND))

    assert await watch.told(promised(Kind.WORKER_GONE)) == "a worker of pool default is gone: web-1"

    await town.store.liveness.register("web-2", WorkerAbout("default"), town.clock.now(), HOUR)
    assert (await watch.told(10)).startswith("Recovered: a worker of pool default is gone: web-1, after ")


async def test_a_dispatcher_that_is_stopped(town: Town, watch: Watch) -> None:
    town.handle("work", done)
    await town.create(name="nightly", schedule="5 12 * * *", alert={"missedAfterSec": 120, "to": ["ops"]})
    await watch.nothing(30)
    stopped = watch.roles.pop("dispatcher")
    await watch.nothing(270 + 119)

    assert await watch.told(1 + promised(Kind.MISSED)) == "nightly was missed: the run of 2026-03-01T12:05:00Z"

    watch.roles["dispatcher"] = stopped
    await watch.pass_by(5)
    async with serving(town):
        pass
    assert (await watch.told(25)).startswith("Recovered: nightly was missed: the run of 2026-03-01T12:05:00Z, after ")


async def test_a_database_that_stands_still(town: Town, watch: Watch) -> None:
    await town.rule(Kind.STORE_UNHEALTHY)
    await watch.nothing(10)
    store = watch.alerter._store = Away(town.store.alerts)  # type: ignore[assignment]
    # Nobody else has a store either.
    others = {name: watch.roles.pop(name) for name in list(watch.roles) if name != "alerter"}
    store.is_away = True

    assert (await watch.told(30 + promised(Kind.STORE_UNHEALTHY))).startswith("the store does not answer since 2026-03-01T12:00:1")

    store.is_away = False
    watch.roles |= others
    assert (await watch.told(10)).startswith("Recovered: the store does not answer since")


async def test_a_job_that_fails_three_times(town: Town, watch: Watch) -> None:
    moods: list[Exception | None] = [ValueError("no such table")]

    async def work(attempt: object) -> None:
        if moods[0] is not None:
            raise moods[0]

    town.handle("work", work)
    job = await town.create(retryPolicy={"maxAttempts": 1}, alert={"failures": 3, "to": ["ops"]})
    for _ in range(2):
        async with serving(town):
            await town.enqueue(job)
        await watch.nothing(20)
    async with serving(town):
        await town.enqueue(job)

    assert await watch.told(promised(Kind.FAILURES)) == "job failed 3 times in a row"

    moods[0] = None
    async with serving(town):
        await town.enqueue(job)
    assert (await watch.told(10)).startswith("Recovered: job failed 3 times in a row, after ")


async def test_a_run_that_takes_too_long(town: Town, watch: Watch) -> None:
    job = await town.create(alert={"overrunAfterSec": 60, "to": ["ops"]})
    (id,) = await town.enqueue(job)
    slow = await town.store.liveness.register("slow", WorkerAbout("default"), town.clock.now(), HOUR)
    (route,) = await town.store.ready.routes()
    claimed = await town.store.ready.claim(slow, [Ask(route.number, 1, 10)], town.clock.now())
    assert claimed is not None
    assert list(claimed.ids) == [id]
    await watch.nothing(59)

    assert (await watch.told(1 + promised(Kind.OVERRUN))).startswith("job overruns: it has run for 1m")

    await town.store.liveness.retire(slow, town.clock.now())
    assert (await watch.told(15)).startswith("Recovered: job overruns")


async def test_a_run_that_nobody_starts(town: Town, watch: Watch) -> None:
    town.handle("work", done)
    await town.create(name="nightly", schedule="1 12 * * *", alert={"missedAfterSec": 120, "to": ["ops"]})
    await watch.nothing(60 + 119)

    assert await watch.told(1 + promised(Kind.MISSED)) == "nightly was missed: the run of 2026-03-01T12:01:00Z"

    async with serving(town):
        pass
    assert (await watch.told(10)).startswith("Recovered: nightly was missed")


async def test_what_is_over_by_itself_and_what_is_as_it_should_be_is_never_told(town: Town, watch: Watch) -> None:
    """The same jobs and rules on a good day: a retry that saves the run, a pause, a worker that retires."""
    tries: list[int] = []

    async def work(attempt: Any) -> None:
        tries.append(attempt.attempt)
        if attempt.attempt == 1:
            raise ValueError("not yet")

    town.handle("work", work)
    alert = {"failed": True, "failures": 1, "lateAfterSec": 60, "missedAfterSec": 60, "overrunAfterSec": 60, "to": ["ops"]}
    await town.create(name="nightly", schedule="1 12 * * *", retryPolicy={"maxAttempts": 2, "initialDelayMs": 1000}, alert=alert)
    paused = await town.create(name="paused", schedule="*/2 * * * *", alert=alert)
    await town.jobs.pause(ACTOR, paused.id, "for the test")
    await town.rule(Kind.WORKER_GONE)
    await watch.nothing(61)
    for _ in range(2):
        async with serving(town):
            pass
        await watch.nothing(10)

    await watch.nothing(120)
    assert tries == [1, 2]


async def done(attempt: object) -> None:
    return None
