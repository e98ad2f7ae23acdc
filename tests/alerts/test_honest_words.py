"""What an alert must not say: that something is over when it is not, or wrong when it is not, however rarely or often a job runs."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from duly.domain.alerts.channel import Channel
from duly.domain.alerts.evaluate import Phase
from duly.domain.alerts.message import Notice
from duly.domain.alerts.rule import Kind
from duly.domain.errors import Unavailable
from duly.domain.homes import Standing
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.ports.store import WorkerAbout
from duly.roles.messenger import Messenger
from tests.alerts.conftest import Pager, Town
from tests.alerts.test_scenarios import ONCE, run, work_off
from tests.conformance.ledger import raw
from tests.roles.conftest import ACTOR

A_DAY = DAY / SECOND


@pytest.fixture
def moods(town: Town) -> dict[str, Any]:
    """What `work` does: it fails with the error that is set here, or where the payload says so."""
    state: dict[str, Any] = {"error": None}

    async def work(attempt: Any) -> None:
        if state["error"] is not None:
            raise state["error"]
        if state.get("fails") and state["fails"](attempt):
            raise ValueError("this one")

    town.handle("work", work)
    return state


async def test_a_job_that_runs_once_a_day_fails_three_times_in_a_row(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.FAILURES, "all")
    await town.rule(Kind.FAILURES, "named", jobs=("job",))
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter = town.alerter()
    said: list[list[str]] = []
    for _ in range(3):
        await run(town, job, moods, ValueError("x"))
        said.append(await town.look(alerter))
        town.clock.turn(A_DAY)
        said.append(await town.look(alerter))

    assert said == [[], [], [], [], ["job failed 3 times in a row"] * 2, []]
    await run(town, job, moods)
    assert [title[:32] for title in await town.look(alerter)] == ["Recovered: job failed 3 times in"] * 2


@pytest.mark.parametrize("jobs", [(), ("job",)])
async def test_a_failure_is_over_when_a_run_succeeds_and_not_when_it_is_old(
    town: Town, moods: dict[str, Any], jobs: tuple[str, ...]
) -> None:
    await town.rule(Kind.FINAL_FAILURE, jobs=jobs)
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter = town.alerter()
    await run(town, job, moods, ValueError("x"))
    assert await town.look(alerter) == ["job failed for good"]

    for _ in range(6):
        town.clock.turn(A_DAY)
        assert await town.look(alerter) == []
    await run(town, job, moods)
    assert await town.look(alerter) == ["Recovered: job failed for good, after 6d"]


@pytest.mark.parametrize("kind", [Kind.FINAL_FAILURE, Kind.MISSED])
async def test_a_rule_that_is_changed_while_something_is_wrong_says_nothing_of_a_recovery(
    town: Town, moods: dict[str, Any], kind: Kind
) -> None:
    await town.rule(kind)
    job = await town.create(schedule="1 12 * * *", retryPolicy=ONCE)
    alerter, dispatcher = town.alerter(), town.dispatcher()
    moods["error"] = ValueError("x")
    town.clock.turn(90)
    await dispatcher.step(town.clock.now())
    if kind is Kind.FINAL_FAILURE:
        await work_off(town)
    town.clock.turn(1000)
    assert len(await town.look(alerter)) == 1

    town.clock.turn(60)
    await town.rule(kind, note="call Ada")
    town.clock.turn(5)
    assert await town.look(alerter) == []
    assert [incident.phase for incident in await town.incidents()] == [Phase.OPEN]

    moods["error"] = None
    if kind is Kind.FINAL_FAILURE:
        await town.enqueue(job)
    await work_off(town)
    assert (await town.look(alerter))[0].startswith("Recovered: ")


async def test_failures_with_successes_between_them_are_not_in_a_row_however_many_wait_behind(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.FAILURES, "all")
    await town.rule(Kind.FAILURES, "named", jobs=("job",))
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    ids = await town.enqueue(job, 60)
    ill = set(ids[5:60:10])
    moods["fails"] = lambda attempt: attempt.id in ill
    await work_off(town)
    town.clock.turn(5)
    await town.enqueue(job, 450)

    assert await town.look(town.alerter()) == []


async def test_failures_in_a_row_are_told_however_many_wait_behind(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.FAILURES, jobs=("job",))
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    ids = await town.enqueue(job, 60)
    ill = set(ids[50:])
    moods["fails"] = lambda attempt: attempt.id in ill
    await work_off(town)
    town.clock.turn(5)
    await town.enqueue(job, 450)

    assert await town.look(town.alerter()) == ["job failed 10 times in a row"]


async def test_a_rate_is_of_runs_that_were_all_looked_at(town: Town, moods: dict[str, Any]) -> None:
    """Of many, the newest: what failed long before them does not count twice because failures are found more easily."""
    await town.rule(Kind.FAILURE_RATE, condition={"percent": 40, "window": HOUR})
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter = town.alerter()
    ids = await town.enqueue(job, 700)
    ill = set(ids[:400:2])
    moods["fails"] = lambda attempt: attempt.id in ill
    await work_off(town)

    assert await town.look(alerter) == []


async def test_what_succeeded_within_the_time_is_known_however_often_it_has_failed_since(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.NO_SUCCESS, condition={"after": DAY}, jobs=("job",))
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter = town.alerter()
    town.clock.turn(30 * A_DAY)
    await run(town, job, moods)
    moods["fails"] = lambda attempt: True
    town.clock.turn(3600)
    await town.enqueue(job, 1100)
    await work_off(town)

    assert await town.look(alerter) == []
    town.clock.turn(A_DAY)
    assert await town.look(alerter) == ["job has not succeeded for 1d1h"]


async def test_a_job_that_succeeded_long_ago_is_not_said_to_have_never_succeeded(town: Town, moods: dict[str, Any]) -> None:
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    await run(town, job, moods)
    town.clock.turn(9 * A_DAY)
    await town.rule(Kind.NO_SUCCESS, condition={"after": HOUR}, jobs=("job",))

    assert await town.look(town.alerter()) == ["job has not succeeded for 9d"]
    assert "never" not in town.pager.told[0][1].text


async def test_a_job_that_is_resumed_has_as_long_to_succeed_as_a_new_one(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.NO_SUCCESS, condition={"after": HOUR}, jobs=("job",))
    job = await town.create(schedule="*/10 * * * *", retryPolicy=ONCE)
    alerter = town.alerter()
    await town.jobs.pause(ACTOR, job.id, None)
    town.clock.turn(3 * A_DAY)
    assert await town.look(alerter) == []
    await town.jobs.resume(ACTOR, job.id)

    town.clock.turn(60)
    assert await town.look(alerter) == []
    town.clock.turn(3600)
    assert await town.look(alerter) == ["job has not succeeded for 3d1h1m"]


async def test_a_worker_that_falls_silent_again_and_again_is_back_when_its_successor_is(town: Town) -> None:
    await town.rule(Kind.WORKER_GONE)
    alerter, sweeper = town.alerter(), town.sweeper()
    for nth in range(3):
        await town.store.liveness.register(f"web-{nth}", WorkerAbout("default"), town.clock.now(), 15 * SECOND)
        recovered = await town.look(alerter)
        assert len(recovered) == min(nth, 1), recovered
        town.clock.turn(16)
        await sweeper.step(town.clock.now())
        assert await town.look(alerter) == [f"a worker of pool default is gone: web-{nth}"]
        town.clock.turn(30)


async def test_a_successor_that_retires_leaves_nobody_missing(town: Town) -> None:
    await town.rule(Kind.WORKER_GONE)
    alerter, sweeper = town.alerter(), town.sweeper()
    await town.store.liveness.register("web-1", WorkerAbout("default"), town.clock.now(), 15 * SECOND)
    town.clock.turn(16)
    await sweeper.step(town.clock.now())
    assert len(await town.look(alerter)) == 1
    second = await town.store.liveness.register("web-2", WorkerAbout("default"), town.clock.now(), HOUR)
    assert len(await town.look(alerter)) == 1

    town.clock.turn(60)
    await town.store.liveness.retire(second, town.clock.now())
    assert await town.look(alerter) == []


async def test_an_incident_of_a_tenant_that_moves_to_another_store_is_not_over(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.FINAL_FAILURE)
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter = town.alerter()
    await run(town, job, moods, ValueError("x"))
    assert len(await town.look(alerter)) == 1

    await raw(town.engine, f"UPDATE tenants SET standing = {Standing.LEAVING.value} WHERE tenant = 1")
    assert await town.look(alerter) == []
    assert [incident.phase for incident in await town.incidents()] == [Phase.OPEN]


async def test_however_many_runs_were_missed_the_alert_can_be_read(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.MISSED, condition={"after": MINUTE})
    await town.create(schedule="* * * * *", overlap="allow")
    dispatcher, alerter = town.dispatcher(), town.alerter()
    for _ in range(30):
        town.clock.turn(60)
        await dispatcher.step(town.clock.now())
    await town.look(alerter)

    text = town.pager.told[0][1].text
    assert "28 runs since" in text
    assert text.count("has not started") == 10
    assert "and 18 more" in text


class Stuck(Pager):
    """Some channels never answer."""

    def __init__(self, *stuck: str) -> None:
        super().__init__()
        self.stuck = stuck
        self.let_go = asyncio.Event()

    async def send(self, channel: Channel, notice: Notice) -> None:
        if channel.name in self.stuck:
            await self.let_go.wait()
        await super().send(channel, notice)


async def test_a_channel_that_does_not_answer_holds_up_no_other(town: Town, moods: dict[str, Any]) -> None:
    pager = town.pager = Stuck("ops")
    for nth in range(30):
        await town.rule(Kind.FINAL_FAILURE, f"rule-{nth:02}")
    await town.channel("mine")
    await town.rule(Kind.FINAL_FAILURE, "zz", channels=("mine",))
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    await run(town, job, moods, ValueError("x"))
    await town.alerter().step(town.clock.now())
    messenger = town.messenger(patience=0.01)

    await step_until(messenger, town, 1)
    assert [name for name, _ in pager.told] == ["mine"]
    # And while they still hang there, what is new is told as well.
    await town.rule(Kind.FINAL_FAILURE, "zzz", channels=("mine",))
    await run(town, job, moods, ValueError("x"))
    await town.alerter().step(town.clock.now())
    await step_until(messenger, town, 2)

    pager.let_go.set()
    await step_until(messenger, town, 32)
    assert [name for name, _ in pager.told].count("ops") == 30


class Away:
    """The store, which is gone when it is told what has arrived."""

    def __init__(self, incidents: Any) -> None:
        self._incidents = incidents

    def __getattr__(self, name: str) -> Any:
        return getattr(self._incidents, name)

    async def sent(self, *about: Any) -> None:
        raise Unavailable("DULY-E501", "The store is away.")


async def test_a_store_that_is_away_for_several_channels_is_told_of_once(town: Town, moods: dict[str, Any]) -> None:
    forgotten: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: forgotten.append(about))
    await town.channel("mine")
    await town.rule(Kind.FINAL_FAILURE, "one")
    await town.rule(Kind.FINAL_FAILURE, "two", channels=("mine",))
    await run(town, await town.create(type="ON_DEMAND", retryPolicy=ONCE), moods, ValueError("x"))
    await town.alerter().step(town.clock.now())
    messenger = town.messenger()
    messenger._incidents = Away(messenger._incidents)

    with pytest.raises(Unavailable):
        await messenger.step(town.clock.now())

    gc.collect()
    assert len(town.pager.told) == 2
    assert forgotten == []


async def step_until(messenger: Messenger, town: Town, told: int) -> None:
    while len(town.pager.told) < told:
        await messenger.step(town.clock.now())
