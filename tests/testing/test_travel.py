"""Time travel: what comes due on the way is done at its instant, as in production."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import duly.testing
from duly import App, Forbidden, Invalid, NotFound, Unavailable
from duly.testing import TestApp
from tests.testing.shop import (
    after_the_report,
    app,
    did,
    endless,
    etl,
    hourly,
    impatient,
    mails,
    nightly_report,
    one_at_a_time,
    order,
    order_in_a_thread,
    owed,
    reindex,
    render,
    send_welcome,
)


def test_a_schedule_fires_by_the_clocks_of_its_zone_over_both_changes() -> None:
    with TestApp(app, at="2026-10-24 12:00 Europe/Berlin") as t:
        t.travel("3 days")

        assert t.fires(nightly_report) == ["2026-10-25 02:30+02:00", "2026-10-26 02:30+01:00", "2026-10-27 02:30+01:00"]
        assert {run.state for run in t.runs(nightly_report)} == {"succeeded"}
    with TestApp(app, at="2027-03-27 12:00 Europe/Berlin") as t:
        t.travel(to="2027-03-29 12:00")

        assert t.fires(nightly_report) == ["2027-03-28 03:00+02:00", "2027-03-29 02:30+02:00"]
        assert t.next_fire(nightly_report) == "2027-03-30 02:30+02:00"


def test_attempts_that_the_test_lets_fail_are_tried_again_after_the_waits_of_the_policy() -> None:
    with TestApp(app, at="2026-10-24 12:00 Europe/Berlin") as t:
        run = t.enqueue(send_welcome, user_id=7, fail=[TimeoutError, ConnectionError("gone")])
        t.travel("1 hour")

        assert (run.state, run.attempts, run.result) == ("succeeded", 3, 7)
        assert [run.attempt(n).outcome for n in (1, 2, 3)] == ["failed", "failed", "succeeded"]
        assert run.attempt(2).error["message"] == "gone"
        first = run.attempt(1)
        assert first.finished_at is not None
        assert first.retry_at is not None
        assert timedelta(seconds=9) <= first.retry_at - first.finished_at <= timedelta(seconds=11)


def test_a_fire_to_come_can_be_made_to_fail_until_it_is_dead() -> None:
    with TestApp(app, at="2026-03-01 12:00 Europe/Berlin") as t:
        t.inject(nightly_report, fail=[OSError] * 5, on="2026-03-03 02:30")
        t.travel("4 days")

        assert [run.state for run in t.runs(nightly_report)] == ["succeeded", "dead", "succeeded", "succeeded"]
        dead = t.runs(nightly_report)[1]
        waits = [dead.attempt(n).retry_at - dead.attempt(n).finished_at for n in range(1, 5)]  # type: ignore[operator]
        assert waits == [timedelta(minutes=minutes) for minutes in (10, 20, 40, 60)]


def test_a_killed_worker_loses_its_run_to_another_which_goes_on_from_the_checkpoint() -> None:
    with TestApp(app, at="2026-10-24 12:00 Europe/Berlin") as t:
        run = t.enqueue(reindex, index="docs", kill_worker_after="22m")
        t.travel("1 day")

        assert (run.state, run.attempts, run.result) == ("succeeded", 2, 80)
        assert run.attempt(1).outcome == "worker_lost"
        assert run.attempt(2).resumed_from == {"done": 20}
        assert run.attempt(2).started_at is not None
        assert run.attempt(2).started_at - t.runs(reindex)[0].due_at >= timedelta(minutes=22, seconds=15)  # type: ignore[operator]
        assert run.checkpoint == {"done": 100}


def test_a_kill_that_never_came_is_said_when_somebody_asks_for_the_next_attempt() -> None:
    with TestApp(app) as t:
        run = t.enqueue(send_welcome, user_id=1, kill_worker_after="20m")
        t.travel("1 hour")

        with pytest.raises(LookupError, match=r"no attempt 2; there are: 1 \(succeeded\)\. Its worker was not killed: .* 20m"):
            run.attempt(2)


def test_all_workers_can_be_killed_at_once() -> None:
    with TestApp(app, workers=2) as t:
        runs = [t.enqueue(one_at_a_time, nth) for nth in range(2)]
        t.travel("5m")
        t.kill_workers()
        t.travel("1h")

        assert [run.state for run in runs] == ["succeeded", "succeeded"]
        assert sorted(run.attempts for run in runs) == [1, 2]


def test_a_timeout_strikes_at_its_instant() -> None:
    with TestApp(app) as t:
        run = t.enqueue(endless)
        t.travel("1h")

        assert (run.state, run.attempt(1).outcome) == ("dead", "timed_out")
        assert run.attempt(1).ran_for == timedelta(minutes=10)


def test_a_fire_that_overlaps_is_skipped_and_says_so() -> None:
    with TestApp(app, at="2026-06-01 11:30 UTC") as t:
        t.travel("3h")

        assert t.fires(hourly) == ["2026-06-01 12:00+00:00", "2026-06-01 14:00+00:00"]
        assert t.skips(hourly) == [("2026-06-01 13:00+00:00", "overlap")]


def test_an_outage_is_caught_up_as_the_job_says() -> None:
    with TestApp(app, at="2026-06-01 12:30 UTC") as t:
        t.outage("20h")

        assert t.fires(owed) == ["2026-06-01 18:00+00:00", "2026-06-02 00:00+00:00", "2026-06-02 06:00+00:00"]
        assert t.runs(owed)[0].started_at == datetime(2026, 6, 2, 8, 30, tzinfo=UTC)
        t.outage("3 days")
        assert t.fires(nightly_report) == ["2026-06-02 02:30+02:00", "2026-06-05 02:30+02:00"]
        assert t.skips(nightly_report) == [("2026-06-03 02:30+02:00", "misfire"), ("2026-06-04 02:30+02:00", "misfire")]


def test_a_handler_enqueues_and_what_it_enqueued_runs_when_it_is_due() -> None:
    did.clear()
    with TestApp(app) as t:
        t.enqueue(order, 7)
        t.travel("1 day")
        assert did == [("welcome", 7)]
        t.travel("1 day")
        assert did == [("welcome", 7), ("welcome", 8)]

        run = t.enqueue(order_in_a_thread, 9)
        t.travel("1s")
        assert t.run(run.result).state == "succeeded"


def test_every_pool_and_label_has_a_worker_and_limits_hold() -> None:
    with TestApp(app) as t:
        picture = t.enqueue(render, "cat")
        runs = [t.enqueue(one_at_a_time, nth) for nth in range(3)]
        t.travel("25m")

        assert picture.result == "cat.png"
        assert sorted(run.state for run in runs) == ["running", "succeeded", "succeeded"]


def test_a_job_waits_for_another_and_no_longer_than_it_says() -> None:
    with TestApp(app, at="2026-06-01 12:00 Europe/Berlin") as t:
        t.travel("20h")
        assert [run.state for run in t.runs(after_the_report)] == ["succeeded"]

        t.inject(nightly_report, fail=[OSError] * 5)
        t.travel("2 days")
        assert [run.state for run in t.runs(after_the_report)] == ["succeeded", "skipped", "succeeded"]


def test_a_snooze_and_a_batch_are_as_ever() -> None:
    with TestApp(app) as t:
        run = t.enqueue(impatient)
        batch = [t.enqueue(mails, f"{nth}@example.com") for nth in range(4)]
        t.travel("2h 1m")

        assert (run.state, run.result) == ("succeeded", 3)
        assert [one.result for one in batch] == [4, 4, 4, 4]


def test_a_workflow_runs_its_steps_and_waits_for_its_approval() -> None:
    with TestApp(app) as t:
        run = t.enqueue(etl, day="mon")
        t.travel("2 days")
        assert t.steps(run) == {"extract": "succeeded", "load": "succeeded", "publish": "blocked"}

        with pytest.raises(Forbidden, match="waits for finance"):
            t.approve(run, "publish", by="intern")
        t.approve(run, "publish", by="finance")
        t.travel("1m")

        assert (run.state, run.result) == ("succeeded", {"publish": 15})


def test_a_run_can_be_cancelled() -> None:
    with TestApp(app) as t:
        waiting, running = t.enqueue(send_welcome, user_id=1, delay="1h"), t.enqueue(endless)
        t.travel("1m")
        waiting.cancel()
        running.cancel()
        t.travel("1m")

        assert (waiting.state, running.state) == ("cancelled", "cancelled")


def test_a_slow_database_takes_virtual_time_and_one_that_is_away_is_tried_again() -> None:
    with TestApp(app) as t:
        with t.slow_database("500ms"):
            run = t.enqueue(send_welcome, user_id=1)
            t.travel("1m")
        assert run.state == "succeeded"
        assert run.started_at is not None
        assert run.started_at - run.due_at >= timedelta(milliseconds=500)

        late = t.enqueue(send_welcome, user_id=2, delay="10s")
        with t.database_away():
            with pytest.raises(Unavailable):
                t.enqueue(send_welcome, user_id=3)
            t.travel("1m")
            assert late.state == "scheduled"
        t.travel("10s")
        assert late.state == "succeeded"


def test_a_clock_that_is_set_ahead_brings_what_is_due_forward_once_it_is_noticed() -> None:
    with TestApp(app) as t:
        run = t.enqueue(send_welcome, user_id=1, delay="10m")
        t.skew_clock("+9m")
        t.travel("15s")
        assert run.state == "scheduled"
        t.travel(to=t.now + timedelta(minutes=9, seconds=10))
        assert run.state == "scheduled"
        t.travel("1m")
        assert run.state == "succeeded"


def test_the_time_of_the_test_is_there_for_everybody_and_nothing_is_left_of_it() -> None:
    with TestApp(app, at="2026-10-24T10:00Z") as t:
        t.travel("90m")
        assert duly.testing.now() == t.now == datetime(2026, 10, 24, 11, 30, tzinfo=UTC)
        assert time.sleep.__module__ == "duly.testing.strands"
    assert time.sleep.__module__ == "time"
    with pytest.raises(RuntimeError, match="while a TestApp is open"):
        duly.testing.now()
    with pytest.raises(RuntimeError, match="not open"):
        t.travel("1s")


def test_two_tests_have_nothing_in_common_and_a_seed_is_the_same_again() -> None:
    def story(seed: int) -> list[str]:
        with TestApp(app, seed=seed) as t:
            run = t.enqueue(send_welcome, user_id=7, fail=[OSError, OSError, OSError])
            t.travel("1h")
            assert len(t.runs(send_welcome)) == 1
            return [run.id, *[str(run.attempt(nth).retry_at) for nth in (1, 2, 3)]]

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_one_test_app_stands_inside_another() -> None:
    with TestApp(app) as outer:
        run = outer.enqueue(send_welcome, user_id=1)
        with TestApp(app) as inner:
            assert inner.runs() == []
            inner.enqueue(send_welcome, user_id=2)
            inner.travel("1s")
        outer.travel("1s")

        assert [run.payload for run in outer.runs(send_welcome)] == [{"user_id": 1}]
        assert run.state == "succeeded"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: TestApp(app, at="2026-10-24 12:00"), "names no instant"),
        (lambda: TestApp(app, at="tomorrow"), "names no instant"),
        (lambda: TestApp(app, at="2027-03-28 02:30 Europe/Berlin"), "does not exist"),
        (lambda: TestApp(app, at="2026-10-24 12:00 Europe/Berln"), "Europe/Berlin"),
        (lambda: TestApp(app, mode="sometimes"), "travel, manual, inline"),  # type: ignore[arg-type]
        (lambda: TestApp("shop"), "no application"),  # type: ignore[arg-type]
    ],
)
def test_a_beginning_that_makes_no_sense_is_refused_with_what_to_write(call: object, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        call()  # type: ignore[operator]


def test_a_wrong_word_is_refused_with_what_to_write_instead() -> None:
    with TestApp(app) as t:
        for call, error, told in (
            (lambda: t.travel("3 fortnights"), Invalid, "not a duration"),
            (lambda: t.travel(), Invalid, "how far, or to when"),
            (lambda: t.travel(to="2020-01-01"), Invalid, "forward only"),
            (lambda: t.enqueue("send_welcom"), NotFound, "It declares .*send_welcome"),
            (lambda: t.enqueue(send_welcome), Invalid, "user_id"),
            (lambda: t.enqueue(send_welcome, user_id=1, fail=["no"]), Invalid, "is no exception"),  # type: ignore[list-item]
            (lambda: t.inject(send_welcome), Invalid, "what befalls it"),
        ):
            with pytest.raises(error, match=told):
                call()
        assert t.runs() == []


def test_code_in_another_thread_enqueues_into_the_test() -> None:
    with TestApp(app) as t:
        thread = threading.Thread(target=lambda: app.sync.send_welcome.enqueue(5))
        thread.start()
        thread.join()
        t.travel("1s")

        assert [run.state for run in t.runs(send_welcome)] == ["succeeded"]


def test_a_handler_that_polls_without_a_pause_does_not_keep_the_roles_from_their_work() -> None:
    shop = App("polling")
    ran: list[int] = []

    @shop.job
    async def child() -> None:
        ran.append(1)

    @shop.job
    async def parent() -> int:
        await child.enqueue()
        while not ran:
            await asyncio.sleep(0)
        return len(ran)

    with TestApp(shop) as t:
        run = t.enqueue(parent)
        t.travel("1m")

        assert (run.state, run.result) == ("succeeded", 1)


def test_what_is_injected_where_nothing_fires_is_told_at_once() -> None:
    told = r"does not fire at 2026-03-03 02:31\+01:00.* fires at 2026-03-04 02:30\+01:00 and"
    with TestApp(app, at="2026-03-01 12:00 Europe/Berlin") as t, pytest.raises(Invalid, match=told) as refused:
        t.inject(nightly_report, fail=[OSError], on="2026-03-03 02:31")
    assert (refused.value.code, refused.value.field) == ("DULY-E105", "on")


@pytest.mark.parametrize(
    ("job", "on", "told"),
    [
        (nightly_report, "2026-06-03 02:30", r"nightly_report, on=\"2026-06-03 02:30\+02:00\"\) .* next fire is 2026-06-02"),
        (hourly, "2026-06-01 13:00", "hourly, on=.*13:00.*It was skipped: overlap"),
        (send_welcome, None, r"inject\(send_welcome, …\) has befallen nobody"),
    ],
)
def test_what_is_injected_and_befalls_nobody_is_told_when_the_test_ends(job: Any, on: str | None, told: str) -> None:
    test = contextlib.ExitStack()
    t = test.enter_context(TestApp(app, at="2026-06-01 11:30 UTC"))
    t.inject(job, fail=[OSError], on=on)
    t.travel("3h")

    with pytest.raises(AssertionError, match=told):
        test.close()
    with pytest.raises(RuntimeError, match="not open"):
        t.travel("1h")


def test_a_test_that_has_failed_is_told_nothing_else() -> None:
    def failing() -> None:
        with TestApp(app) as t:
            t.inject(send_welcome, fail=[OSError])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()


def test_an_enqueue_that_is_refused_leaves_its_script_to_nobody() -> None:
    with TestApp(app) as t:
        with t.database_away(), pytest.raises(Unavailable):
            t.enqueue(send_welcome, 1, fail=[OSError])
        run = t.enqueue(send_welcome, 2)
        t.travel("1s")
        assert (run.state, run.attempts) == ("succeeded", 1)


def test_a_test_that_does_not_say_when_it_begins_begins_at_a_fixed_time() -> None:
    with TestApp(app, at=None) as t, TestApp(app) as other:
        assert t.now == other.now == datetime(2026, 1, 15, 12, tzinfo=UTC)
    with pytest.raises(Invalid, match="names no instant"):
        TestApp(app, at=5)  # type: ignore[arg-type]
