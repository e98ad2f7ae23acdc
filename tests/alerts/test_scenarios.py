"""What goes wrong, and what is told of it: the right alert, once, in the right words, and that it is over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from duly.domain.alerts.evaluate import Event, Phase
from duly.domain.alerts.rule import GroupBy, Kind, Recovery
from duly.domain.calendars import Calendar, WeeklyWindow, Window
from duly.domain.calendars import Weekday as Day
from duly.domain.errors import Unavailable
from duly.domain.instants import HOUR, MINUTE, SECOND
from duly.domain.lifecycle import State
from duly.ports.endings import Failure
from duly.ports.store import WorkerAbout
from tests.alerts.conftest import Town, events
from tests.roles.conftest import ACTOR

ONCE = {"maxAttempts": 1}


@pytest.fixture
def moods(town: Town) -> dict[str, Any]:
    """What the handlers of this test do: `town` runs `work`, which fails with the error that is set here."""
    state: dict[str, Any] = {"error": None}

    async def work(attempt: object) -> None:
        if state["error"] is not None:
            raise state["error"]

    town.handle("work", work)
    return state


async def run(town: Town, job: Any, moods: dict[str, Any], error: Exception | None = None) -> None:
    moods["error"] = error
    town.clock.turn(10)
    await town.enqueue(job)
    await work_off(town)


async def work_off(town: Town) -> None:
    """By a worker of its own, which retires: nobody renews its life while the clock is turned."""
    worker = await town.worker()
    await town.run_all(worker)
    await town.store.liveness.retire(worker.heartbeat.worker, town.clock.now())


async def test_a_final_failure_is_told_once_and_that_it_is_over(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.FINAL_FAILURE, owner="ada", note="https://runbook.example/jobs")
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter = town.alerter()
    assert await town.look(alerter) == []

    await run(town, job, moods, ValueError("no such table: orders"))
    assert await town.look(alerter) == ["job failed for good"]
    (_, notice) = town.pager.told[0]
    assert "ValueError: no such table: orders" in notice.text
    assert "ada" in notice.text
    assert "https://runbook.example/jobs" in notice.text
    await run(town, job, moods, ValueError("again"))
    assert await town.look(alerter) == []

    await run(town, job, moods)
    town.clock.turn(20)
    assert await town.look(alerter) == ["Recovered: job failed for good, after 40s"]
    assert await town.look(alerter) == []
    assert [incident.phase for incident in await town.incidents()] == [Phase.RESOLVED]
    assert events(town.pager.told) == [Event.OPENED, Event.RESOLVED]
    assert town.pager.told[0][1].dedup_key == town.pager.told[1][1].dedup_key


async def test_a_failure_that_was_over_before_anybody_looked_is_told_all_the_same(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.FINAL_FAILURE)
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter = town.alerter()
    await run(town, job, moods, ValueError("x"))
    await run(town, job, moods)

    assert await town.look(alerter) == ["job failed for good"]
    assert len(await town.look(alerter)) == 1
    for _ in range(3):
        town.clock.turn(60)
        assert await town.look(alerter) == []


async def test_an_attempt_that_a_retry_saved_is_no_failure(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.FINAL_FAILURE)
    job = await town.create(type="ON_DEMAND", retryPolicy={"maxAttempts": 3, "initialDelayMs": 1000})
    alerter, dispatcher = town.alerter(), town.dispatcher()
    await run(town, job, moods, ValueError("x"))
    assert await town.look(alerter) == []

    moods["error"] = None
    town.clock.turn(30)
    await dispatcher.step(town.clock.now())
    await work_off(town)

    assert await town.ended(State.SUCCEEDED)
    assert await town.look(alerter) == []


async def test_three_failures_in_a_row_are_told_and_two_are_not(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.FAILURES, condition={"count": 3}, recovery=Recovery(runs=2))
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter = town.alerter()
    said: list[list[str]] = []
    for error in (ValueError("a"), ValueError("b"), None, ValueError("c"), ValueError("d"), ValueError("e"), None, None):
        await run(town, job, moods, error)
        said.append(await town.look(alerter))

    assert said[:5] == [[]] * 5
    assert said[5] == ["job failed 3 times in a row"]
    assert said[6] == []
    assert said[7][0].startswith("Recovered: job failed 3 times in a row, after")


async def test_a_failure_rate_has_two_thresholds(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.FAILURE_RATE, condition={"percent": 50, "least": 4, "window": HOUR}, recovery=Recovery(percent=30), jobs=("job",))
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter = town.alerter()
    said = []
    for error in (None, ValueError("a"), ValueError("b"), None, None, None, None, None):
        await run(town, job, moods, error)
        said.append(await town.look(alerter))

    assert [len(told) for told in said] == [0, 0, 0, 1, 0, 0, 1, 0]
    assert said[3] == ["job fails: 50 % of its runs in the last 1h"]
    assert said[6][0].startswith("Recovered")


async def test_what_waits_is_late_and_then_missed(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.LATE, "late", condition={"after": 5 * MINUTE})
    await town.rule(Kind.MISSED, "missed", condition={"after": 15 * MINUTE})
    await town.create(name="nightly", schedule="0 13 * * *")
    dispatcher, alerter = town.dispatcher(), town.alerter()
    town.clock.turn(3600)
    await dispatcher.step(town.clock.now())
    assert await town.look(alerter) == []

    town.clock.turn(301)
    assert await town.look(alerter) == ["nightly is late by 5m1s"]
    town.clock.turn(600)
    assert await town.look(alerter) == ["nightly was missed: the run of 2026-03-01T13:00:00Z"]
    assert await town.look(alerter) == []

    await work_off(town)
    # It has run at last; that it was late stays so until one is on time.
    assert [title[:37] for title in await town.look(alerter)] == ["Recovered: nightly was missed: the run"[:37]]


@pytest.mark.parametrize("has_ended", [True, False])
async def test_what_began_late_after_an_outage_is_late_also_to_a_rule_about_all_jobs(
    town: Town, moods: dict[str, Any], has_ended: bool
) -> None:
    await town.rule(Kind.LATE, condition={"after": 5 * MINUTE})
    await town.create(name="nightly", schedule="0 13 * * *", catchUp="latest")
    await town.create(name="other", schedule="0 14 * * *")
    alerter = town.alerter()
    assert await town.look(alerter) == []

    # Nobody has dispatched for a while; then it is caught up with at once, and nobody sees it wait.
    town.clock.turn(3600 + 600)
    await town.dispatcher().step(town.clock.now())
    if has_ended:
        await work_off(town)
    else:
        await (await town.worker())._claim(town.clock.now())

    assert await town.look(alerter) == ["nightly is late by 10m"]
    assert await town.look(alerter) == []


async def test_a_dispatcher_that_stands_still_makes_jobs_missed_until_it_is_back(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.MISSED, condition={"after": 2 * MINUTE})
    await town.create(name="nightly", schedule="0 13 * * *")
    auditor, alerter = town.auditor(), town.alerter()
    await auditor.step(town.clock.now())
    town.clock.turn(3600 + 90)
    await auditor.step(town.clock.now())
    assert await town.look(alerter) == []
    town.clock.turn(40)
    assert await town.look(alerter) == ["nightly was missed: the run of 2026-03-01T13:00:00Z"]
    assert "nothing is recorded" in town.pager.told[0][1].text

    await town.dispatcher().step(town.clock.now())
    await work_off(town)
    town.clock.turn(15)
    await auditor.step(town.clock.now())
    assert [title.split(":")[0] for title in await town.look(alerter)] == ["Recovered"]


async def test_a_run_that_takes_longer_than_it_mostly_does_overruns(town: Town) -> None:
    takes = [10.0]

    async def work(attempt: object) -> None:
        town.clock.turn(takes[0])

    town.handle("work", work)
    await town.rule(Kind.OVERRUN)
    job = await town.create(type="ON_DEMAND")
    surveyor, alerter = town.surveyor(), town.alerter()
    for _ in range(6):
        await town.enqueue(job)
        await work_off(town)
        town.clock.turn(5)
    town.clock.turn(180)
    await surveyor.step(town.clock.now())
    started = await town.enqueue(job)
    lazy = await town.store.liveness.register("lazy", WorkerAbout("default"), town.clock.now(), 10 * HOUR)
    claimed = await claim(town, lazy)
    assert claimed == started

    town.clock.turn(19)
    assert await town.look(alerter) == []
    town.clock.turn(3)
    (title,) = await town.look(alerter)
    assert title == "job overruns: it has run for 22s"
    assert "mostly takes no more than" in town.pager.told[0][1].text

    await town.store.liveness.retire(lazy, town.clock.now())
    await town.sweeper().step(town.clock.now())
    assert [title.split(":")[0] for title in await town.look(alerter)] == ["Recovered"]


async def claim(town: Town, worker: int) -> list[Any]:
    from duly.domain.fairness import Ask

    routes = await town.store.ready.routes()
    found = await town.store.ready.claim(worker, [Ask(route.number, 1, 10) for route in routes], town.clock.now())
    assert found is not None
    return list(found.ids)


async def test_no_success_for_too_long_is_told_of_a_named_job(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.NO_SUCCESS, condition={"after": HOUR}, jobs=("job",))
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter = town.alerter()
    await run(town, job, moods)
    town.clock.turn(3500)
    assert await town.look(alerter) == []
    town.clock.turn(200)
    assert await town.look(alerter) == ["job has not succeeded for 1h1m"]
    # Its last run was a success: nothing is said of how that ended.
    assert "ended with" not in town.pager.told[0][1].text
    await run(town, job, moods)
    assert (await town.look(alerter))[0].startswith("Recovered: job has not succeeded")


async def test_an_open_incident_counts_what_has_come_since_and_tells_nobody_again(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.MISSED, condition={"after": MINUTE})
    await town.create(name="often", schedule="* * * * *", overlap="allow")
    dispatcher, alerter = town.dispatcher(), town.alerter()
    for _ in range(3):
        town.clock.turn(60)
        await dispatcher.step(town.clock.now())
    town.clock.turn(1)
    assert len(await town.look(alerter)) == 1
    before = (await town.incidents())[0].about.title

    for _ in range(20):
        town.clock.turn(60)
        await dispatcher.step(town.clock.now())
    assert await town.look(alerter) == []

    assert before == "often was missed: 2 runs since 2026-03-01T12:01:00Z"
    assert (await town.incidents())[0].about.title == "often was missed: 22 runs since 2026-03-01T12:01:00Z"


async def test_a_job_that_is_paused_misses_nothing(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.NO_SUCCESS, condition={"after": HOUR}, jobs=("job",))
    job = await town.create(schedule="*/10 * * * *")
    await town.jobs.pause(ACTOR, job.id, None)
    town.clock.turn(10_000)
    assert await town.look(town.alerter()) == []


async def test_dead_letters_that_grow_are_told(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.DEAD_LETTERS, condition={"count": 3, "window": HOUR})
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter = town.alerter()
    for _ in range(2):
        await run(town, job, moods, ValueError("x"))
    assert await town.look(alerter) == []
    await run(town, job, moods, ValueError("x"))
    assert await town.look(alerter) == ["dead letters grow: 3 in the last 1h"]
    town.clock.turn(3700)
    assert (await town.look(alerter))[0].startswith("Recovered: dead letters grow")


async def test_a_pool_that_nobody_serves_is_saturated(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.POOL_SATURATED, condition={"after": 10 * MINUTE})
    job = await town.create(type="ON_DEMAND")
    await town.enqueue(job, 3)
    alerter = town.alerter()
    town.clock.turn(300)
    assert await town.look(alerter) == []
    town.clock.turn(301)
    assert await town.look(alerter) == ["pool default is saturated: 3 wait, the oldest for 10m1s"]
    assert "no live worker serves it" in town.pager.told[0][1].text
    await work_off(town)
    assert (await town.look(alerter))[0].startswith("Recovered: pool default is saturated")


async def test_a_worker_that_falls_silent_is_told_and_its_successor_is_the_recovery(town: Town) -> None:
    await town.rule(Kind.WORKER_GONE)
    alerter, sweeper = town.alerter(), town.sweeper()
    await town.store.liveness.register("web-1", WorkerAbout("default"), town.clock.now(), 15 * SECOND)
    polite = await town.store.liveness.register("web-2", WorkerAbout("default"), town.clock.now(), 15 * SECOND)
    await town.store.liveness.retire(polite, town.clock.now())
    assert await town.look(alerter) == []

    town.clock.turn(16)
    await sweeper.step(town.clock.now())
    assert await town.look(alerter) == ["a worker of pool default is gone: web-1"]
    town.clock.turn(5)
    assert await town.look(alerter) == []

    await town.store.liveness.register("web-3", WorkerAbout("default"), town.clock.now(), 15 * SECOND)
    assert await town.look(alerter) == ["Recovered: a worker of pool default is gone: web-1, after 5s"]


class Away:
    """A store that does not answer for a while."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.is_away = False

    def __getattr__(self, name: str) -> Any:
        found: Callable[..., Awaitable[Any]] = getattr(self._inner, name)

        async def asked(*given: Any, **named: Any) -> Any:
            if self.is_away:
                raise Unavailable("DULY-E501", "away")
            return await found(*given, **named)

        return asked


async def test_a_store_that_does_not_answer_is_told_by_who_judged_last_and_by_nobody_else(town: Town) -> None:
    await town.rule(Kind.STORE_UNHEALTHY)
    one, other = town.alerter("one"), town.alerter("two")
    store = Away(town.store.alerts)
    one._store = other._store = store  # type: ignore[assignment]
    await one.step(town.clock.now())
    await other.step(town.clock.now())

    store.is_away = True
    for _ in range(10):
        town.clock.turn(5)
        await one.step(town.clock.now())
        await other.step(town.clock.now())
    assert town.pager.titles == ["the store does not answer since 2026-03-01T12:00:05Z"]

    store.is_away = False
    town.clock.turn(10)
    assert await town.look(one) == ["Recovered: the store does not answer since 2026-03-01T12:00:05Z, after 55s"]
    (incident,) = await town.incidents()
    assert incident.phase is Phase.RESOLVED


async def test_workers_that_could_not_be_heard_of_while_the_store_was_away_are_given_the_time_to_come_back(town: Town) -> None:
    await town.rule(Kind.WORKER_GONE)
    alerter, sweeper = town.alerter(), town.sweeper()
    store = Away(town.store.alerts)
    alerter._store = store  # type: ignore[assignment]
    for name in ("web-1", "web-2"):
        await town.store.liveness.register(name, WorkerAbout("default"), town.clock.now(), 15 * SECOND)
    assert await town.look(alerter) == []

    store.is_away = True
    for _ in range(7):
        town.clock.turn(5)
        await alerter.step(town.clock.now())
    store.is_away = False
    town.clock.turn(5)
    await sweeper.step(town.clock.now())
    assert await town.look(alerter) == []
    town.clock.turn(5)
    await town.store.liveness.register("web-1", WorkerAbout("default"), town.clock.now(), HOUR)
    assert await town.look(alerter) == []

    # One has come back, and one has not.
    town.clock.turn(30)
    assert [title.partition(":")[0] for title in await town.look(alerter)] == ["a worker of pool default is gone"]


async def test_two_who_judge_at_once_open_one_incident_and_two_who_send_tell_once(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.FINAL_FAILURE)
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    one, other = town.alerter("one"), town.alerter("one")
    await run(town, job, moods, ValueError("x"))

    # Both believe to be the one.
    await one.step(town.clock.now())
    await other.step(town.clock.now())
    first, second = town.messenger("m1"), town.messenger("m2")
    claimed = await town.store.alerts.claim("m1", town.clock.now(), MINUTE, 10, 10)
    assert (await second.step(town.clock.now())).did == {"sent": 0, "not_sent": 0}
    assert len(claimed) == 1

    # The first is gone with it: the second sends it when the claim has run out.
    town.clock.turn(61)
    await second.step(town.clock.now())
    await first.step(town.clock.now())
    assert town.pager.titles == ["job failed for good"]
    assert len(await town.incidents()) == 1


async def test_a_channel_that_does_not_take_it_is_told_again_ever_more_slowly(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.FINAL_FAILURE)
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter, messenger = town.alerter(), town.messenger()
    await run(town, job, moods, ValueError("x"))
    await alerter.step(town.clock.now())
    town.pager.refuses = Failure("ops answered 503.")

    tries = 0
    for _ in range(120):
        tries += (await messenger.step(town.clock.now())).did["not_sent"]
        town.clock.turn(1)
    assert tries == 5
    (incident,) = await town.incidents()
    found = await town.store.alerts.incident(1, incident.id)
    assert found is not None
    assert (found[1][0].tries, found[1][0].error, found[1][0].sent_at) == (5, "ops answered 503.", None)

    town.pager.refuses = None
    town.clock.turn(80)
    assert (await messenger.step(town.clock.now())).did["sent"] == 1
    await run(town, job, moods)
    town.pager.refuses = Failure("no such hook", retry=False)
    await alerter.step(town.clock.now())
    await messenger.step(town.clock.now())
    town.clock.turn(10_000)
    assert (await messenger.step(town.clock.now())).did == {"sent": 0, "not_sent": 0}


async def test_trouble_that_is_over_within_the_grace_is_never_told(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.POOL_SATURATED, condition={"after": MINUTE}, grace=5 * MINUTE, recovery=Recovery(after=2 * MINUTE))
    job = await town.create(type="ON_DEMAND")
    alerter = town.alerter()
    await town.enqueue(job)
    town.clock.turn(120)
    assert await town.look(alerter) == []
    await work_off(town)
    assert await town.look(alerter) == []
    assert await town.incidents() == []

    await town.enqueue(job)
    town.clock.turn(361)
    assert len(await town.look(alerter)) == 1
    await work_off(town)
    assert await town.look(alerter) == []
    town.clock.turn(121)
    assert (await town.look(alerter))[0].startswith("Recovered")


async def test_jobs_that_fail_for_one_cause_are_one_incident(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.FINAL_FAILURE, group_by=GroupBy.CAUSE)
    jobs = [await town.create(name=f"job-{nth}", type="ON_DEMAND", retryPolicy=ONCE) for nth in range(3)]
    alerter = town.alerter()
    for nth, job in enumerate(jobs):
        await run(town, job, moods, ConnectionError(f"no connection to 10.0.0.{nth}"))
    await run(town, jobs[0], moods, ValueError("something else"))

    told = sorted(await town.look(alerter))

    assert len(told) == 2
    assert any("and 2 more jobs" in title for title in told)


async def test_nobody_is_told_in_quiet_hours_but_afterwards_if_it_still_is(town: Town, moods: dict[str, Any]) -> None:
    week = tuple(Day)
    quiet = Calendar(name="quiet", zone="UTC", weekly=(WeeklyWindow(days=week, start=12 * 60, end=13 * 60),))
    await town.rule(Kind.FINAL_FAILURE, "rule", quiet=quiet)
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter = town.alerter()
    await run(town, job, moods, ValueError("x"))
    assert await town.look(alerter) == []
    (incident,) = await town.incidents()
    assert (incident.phase, incident.about.hushed) == (Phase.OPEN, "quiet hours")

    town.clock.turn(3600)
    assert await town.look(alerter) == ["job failed for good"]


async def test_a_maintenance_window_and_a_snooze_keep_it_quiet_for_good_if_it_ends_in_them(town: Town, moods: dict[str, Any]) -> None:
    now = town.clock.now()
    await town.calendars.put(ACTOR, Calendar(name="move", windows=(Window(start=now, end=now + HOUR),)))
    await town.rule(Kind.FINAL_FAILURE, "planned", calendars=("move",))
    await town.rule(Kind.FINAL_FAILURE, "snoozed")
    await town.store.alerts.snooze_rule(1, "snoozed", now + 2 * HOUR)
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter = town.alerter()
    await run(town, job, moods, ValueError("x"))
    assert await town.look(alerter) == []
    assert {incident.about.hushed for incident in await town.incidents()} == {"maintenance (move)", "snoozed"}
    await run(town, job, moods)
    assert await town.look(alerter) == []
    town.clock.turn(timedelta(hours=3).total_seconds())
    assert await town.look(alerter) == []


async def test_an_incident_whose_rule_is_gone_ends_without_a_word(town: Town, moods: dict[str, Any]) -> None:
    await town.rule(Kind.FINAL_FAILURE)
    job = await town.create(type="ON_DEMAND", retryPolicy=ONCE)
    alerter = town.alerter()
    await run(town, job, moods, ValueError("x"))
    assert len(await town.look(alerter)) == 1

    await town.store.alerts.delete_rule(1, "rule", 1)

    assert await town.look(alerter) == []
    assert [incident.phase for incident in await town.incidents()] == [Phase.RESOLVED]


async def test_the_outside_is_pinged_while_the_work_goes_on_and_not_when_it_stands_still(town: Town) -> None:
    await town.create(schedule="*/10 * * * *")
    dispatcher, alerter = town.dispatcher(), town.alerter(deadman="https://watch.example.com/x")
    await alerter.step(town.clock.now())
    assert town.pager.pings == []  # nobody dispatches

    for _ in range(3):
        town.clock.turn(300)
        await dispatcher.step(town.clock.now())
        await alerter.step(town.clock.now())
        await alerter.step(town.clock.now())
    assert len(town.pager.pings) == 3

    town.clock.turn(900)
    await alerter.step(town.clock.now())
    assert len(town.pager.pings) == 3
