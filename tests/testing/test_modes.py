"""Modes and assertions: who runs what is enqueued, and what a test can say about it."""

from __future__ import annotations

import asyncio

import pytest

from duly import App
from duly.testing import AsyncTestApp, TestApp
from tests.testing.shop import app, did, nightly_report, order, send_welcome


def test_in_manual_mode_nothing_runs_that_the_test_does_not_run() -> None:
    with TestApp(app, at="2026-06-01 12:00 UTC", mode="manual") as t:
        first, second = t.enqueue(send_welcome, user_id=1), t.enqueue(send_welcome, user_id=2, delay="1m")
        t.travel("1 day")
        assert (first.state, second.state) == ("pending", "pending")
        assert [run.state for run in t.runs(nightly_report)] == ["pending"]

        assert t.run_one(send_welcome) == first
        assert (first.state, second.state) == ("succeeded", "pending")
        assert t.run_one(nightly_report).state == "succeeded"
        assert second in t.drain()
        with pytest.raises(AssertionError, match=r"nothing is ready of send_welcome. There are: .*succeeded"):
            t.run_one(send_welcome)


def test_run_one_runs_one_attempt_and_a_drain_that_waits_the_rest() -> None:
    with TestApp(app) as t:
        run = t.enqueue(send_welcome, user_id=1, fail=[OSError, OSError])
        assert t.run_one() == run
        assert (run.state, run.attempts) == ("scheduled", 1)
        began = t.now

        t.drain()
        assert (run.state, t.now) == ("scheduled", began)
        assert run in t.drain(wait=True)
        assert (run.state, run.attempts) == ("succeeded", 3)
        assert t.now > began


def test_in_inline_mode_whatever_is_enqueued_has_run_with_all_that_follows() -> None:
    did.clear()
    with TestApp(app, mode="inline") as t:
        run = t.enqueue(order, 7, fail=[OSError])
        assert (run.state, run.attempts) == ("succeeded", 2)
        assert did == [("welcome", 7), ("welcome", 8)]

        asyncio.run(send_welcome.enqueue(3))
        app.sync.send_welcome.enqueue(4)
        assert did[2:] == [("welcome", 3), ("welcome", 4)]
        assert {run.state for run in t.runs(send_welcome)} == {"succeeded"}


def test_what_code_under_test_enqueues_can_be_asserted() -> None:
    with TestApp(app, at="2026-06-01 12:00 UTC") as t:
        asyncio.run(send_welcome.enqueue(7))
        asyncio.run(send_welcome.enqueue_in("5m", 7))

        assert len(t.assert_enqueued(send_welcome, user_id=7)) == 2
        t.assert_enqueued(send_welcome, user_id=7, count=2)
        t.assert_enqueued(send_welcome, at="2026-06-01 12:05", count=1)
        t.refute_enqueued(send_welcome, user_id=8)
        with pytest.raises(AssertionError) as caught:
            t.assert_enqueued(send_welcome, user_id=8)
        assert str(caught.value).splitlines() == [
            "send_welcome(user_id=8) was expected at least once, and was enqueued 0 times.",
            "Others of this job:",
            '  {"user_id":7}  due 2026-06-01 12:00+00:00, pending',
            '  {"user_id":7}  due 2026-06-01 12:05+00:00, scheduled',
        ]
        with pytest.raises(AssertionError, match="expected never, and was enqueued 2 times"):
            t.refute_enqueued(send_welcome, user_id=7)
        t.travel("1 day")
        with pytest.raises(AssertionError, match="Nobody has enqueued this job at all"):
            t.assert_enqueued(nightly_report)


async def test_an_async_test_awaits_what_moves_time_and_its_own_loop_enqueues() -> None:
    async with AsyncTestApp(app, at="2026-10-24 12:00 Europe/Berlin") as t:
        id = await send_welcome.enqueue(7)
        await t.travel("1 day")

        assert t.run(id).result == 7
        assert t.fires(nightly_report) == ["2026-10-25 02:30+02:00"]
        run = await t.enqueue(send_welcome, user_id=8, fail=[OSError])
        await t.drain(wait=True)
        assert run.attempts == 2


async def test_a_plain_test_app_works_inside_a_running_loop_too() -> None:
    with TestApp(app) as t:
        run = t.enqueue(send_welcome, user_id=1)
        t.travel("1s")

        assert run.state == "succeeded"
    await asyncio.sleep(0)


async def test_an_async_handler_may_talk_to_a_server_and_use_threads() -> None:
    talkative = App("talkative")

    @talkative.job(timeout="1h")
    async def ask() -> str:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.readline()).upper())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello\n")
        said = (await reader.readline()).decode().strip()
        writer.close()
        server.close()
        await asyncio.sleep(600)
        return await asyncio.to_thread(lambda: said * 2)

    with TestApp(talkative) as t:
        run = t.enqueue(ask)
        t.travel("11m")

        assert run.result == "HELLOHELLO"


def test_a_handler_that_waits_for_what_never_comes_is_stopped_by_its_timeout() -> None:
    stuck = App("stuck")

    @stuck.job(timeout="1m", retry=1)
    async def wait() -> None:
        await asyncio.Event().wait()

    with TestApp(stuck) as t:
        run = t.enqueue(wait)
        t.travel("5m")

        assert run.attempt(1).outcome == "timed_out"
