from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from duly.domain.errors import LeaseLost
from duly.domain.instants import SECOND
from duly.domain.job import JobType, Timing
from duly.domain.lifecycle import Outcome
from duly.domain.logs import MOST_LINES
from duly.executors.processes import ProcessPool
from duly.executors.python import python_handlers
from duly.ports.endings import Died, Discard, Failure, Snooze
from duly.ports.handlers import Attempt, ExecutorKind, Handler, Kept, PythonCall
from tests.executors.attempts import NOW, python
from tests.executors.sample_app import app

REFERENCE = "tests.executors.sample_app"


@pytest.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    made = ProcessPool(REFERENCE, size=1, grace=10)
    yield made
    await made.close()
    assert made.pids() == []


def one_handler(kind: ExecutorKind, call: Any, threads: int = 1) -> Handler:
    [handler] = python_handlers({"it": PythonCall("it", kind, call)}, threads=threads, processes=None)
    return handler


async def failure_of(pool: ProcessPool, name: str, payload: Any = None) -> Failure:
    with pytest.raises(Failure) as failed:
        await pool.run(name, python(name, payload=payload))
    return failed.value


async def test_a_coroutine_function_runs_without_another_around_it() -> None:
    async def call(attempt: Attempt) -> str:
        return "done"

    running = one_handler(ExecutorKind.LOOP, call).run(python("it"))

    assert running.cr_code is call.__code__
    assert await running == "done"


async def test_a_plain_function_runs_in_a_thread_with_the_context_of_its_caller() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    handler = one_handler(ExecutorKind.THREAD, lambda attempt: (variable.get(), threading.current_thread().name, attempt.payload))
    variable.set("carried")

    value, thread, payload = await handler.run(python("it", payload=5))

    assert (value, payload) == ("carried", 5)
    assert thread.startswith("duly-thread")
    assert handler.close is not None
    await handler.close()


async def test_a_failure_in_a_thread_reaches_the_worker() -> None:
    def call(attempt: Attempt) -> None:
        next(iter(()))

    handler = one_handler(ExecutorKind.THREAD, call)

    with pytest.raises(RuntimeError, match="StopIteration"):
        await handler.run(python("it"))

    assert handler.close is not None
    await handler.close()


async def test_a_cancelled_thread_is_told_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.executors.python.SPARE_THREADS", 0)
    started, release = threading.Event(), threading.Event()
    seen: list[bool] = []

    def call(attempt: Attempt) -> None:
        started.set()
        release.wait(10)
        seen.append(attempt.cancelled)

    handler = one_handler(ExecutorKind.THREAD, call)
    first, second = (asyncio.create_task(handler.run(python("it"))) for _ in range(2))
    await asyncio.to_thread(started.wait, 10)

    for task in (first, second):
        task.cancel()
    ended = await asyncio.gather(first, second, return_exceptions=True)
    release.set()
    assert handler.close is not None
    await handler.close()

    assert [type(end) for end in ended] == [asyncio.CancelledError] * 2
    for thread in threading.enumerate():
        if thread.name.startswith("duly-thread"):
            await asyncio.to_thread(thread.join)
    assert seen == [True]  # the one that waited for the thread never started


async def test_stuck_threads_do_not_starve_healthy_jobs() -> None:
    release = threading.Event()
    started: queue.SimpleQueue[None] = queue.SimpleQueue()

    def call(attempt: Attempt) -> str:
        if attempt.payload == "stuck":
            started.put(None)
            release.wait(10)
        return "done"

    handler = one_handler(ExecutorKind.THREAD, call, threads=2)
    stuck = [asyncio.create_task(handler.run(python("it", payload="stuck"))) for _ in range(2)]
    for _ in stuck:
        await asyncio.to_thread(started.get)
    for task in stuck:
        task.cancel()
    await asyncio.wait(stuck)

    async with asyncio.timeout(30):
        healthy = await asyncio.gather(*(handler.run(python("it")) for _ in range(2)))

    assert healthy == ["done", "done"]
    release.set()
    assert handler.close is not None
    await handler.close()


def test_a_process_handler_needs_a_pool() -> None:
    with pytest.raises(ValueError, match="child process"):
        python_handlers(app.calls(), threads=1, processes=None)


async def test_a_child_sees_the_attempt_as_the_worker_does_and_is_used_again(pool: ProcessPool) -> None:
    handlers = {handler.name: handler for handler in python_handlers(app.calls(), threads=1, processes=pool)}

    traced = python("describe", payload={"region": "eu"}, attempt=2)
    traced.extras.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    first = await handlers["describe"].run(traced)
    second = await handlers["describe"].run(python("describe", payload=None))

    assert first == {
        "pid": second["pid"],
        "key": "acme/nightly/2026-01-01T00:00:00Z",
        "attempt": 2,
        "fence": 42,
        "payload": {"region": "eu"},
        "job": "nightly",
        "clock": NOW // 60_000_000,
        "trace": [traced.traceparent, traced.traceparent],
    }
    assert second["trace"] == [None, None]
    assert first["pid"] == pool.pids()[0] != os.getpid()


async def test_what_a_child_prints_is_logged_and_its_result_arrives(pool: ProcessPool) -> None:
    attempt = python("prints")

    assert await pool.run("prints", attempt) is None

    assert sorted(attempt.lines()) == [
        ("error", "to the error"),
        ("info", "structured"),
        ("info", "to the output"),
        ("info", "without a newline"),
    ]
    [structured] = [line for line in attempt.logs or [] if line.message == "structured"]
    assert structured.fields == {"rows": 3, "odd": "<class 'object'>"}


async def test_a_flood_of_a_child_is_bounded(pool: ProcessPool) -> None:
    attempt = python("floods")

    assert await pool.run("floods", attempt) == "done"

    assert len(attempt.lines()) == MOST_LINES + 1


async def test_a_child_awaits_what_a_coroutine_function_returns(pool: ProcessPool) -> None:
    assert await pool.run("concurrent", python("concurrent")) == [0, 1, 2]


async def test_an_exception_of_a_child_arrives_as_text_and_the_child_lives_on(pool: ProcessPool) -> None:
    failure = await failure_of(pool, "raises")

    assert (failure.type, str(failure), failure.retry) == ("KeyError", "'missing'", True)
    assert failure.detail is not None
    assert "in raises" in failure.detail
    assert "executors/child.py" not in failure.detail
    assert (await pool.run("describe", python("describe")))["pid"] == pool.pids()[0]


async def test_a_failure_of_a_child_keeps_what_it_says_about_the_next_try(pool: ProcessPool) -> None:
    failure = await failure_of(pool, "refuses")

    assert (failure.type, str(failure), failure.retry, failure.retry_after, failure.detail) == ("Closed", "not today", False, 5, "holiday")


async def test_sys_exit_in_a_handler_is_its_failure_and_not_the_end_of_the_child(pool: ProcessPool) -> None:
    failure = await failure_of(pool, "leaves")

    assert (failure.type, str(failure)) == ("SystemExit", "by the front door")
    assert len(pool.pids()) == 1


async def test_a_result_that_is_no_json_fails_the_attempt_only(pool: ProcessPool) -> None:
    assert "JSON" in str(await failure_of(pool, "returns_an_object"))
    assert len(pool.pids()) == 1


async def test_a_handler_that_the_child_does_not_know_is_named(pool: ProcessPool) -> None:
    assert (await failure_of(pool, "unheard_of")).type == "HandlerMissing"


async def test_a_child_that_exits_fails_alone(pool: ProcessPool) -> None:
    before = (await pool.run("describe", python("describe")))["pid"]

    with pytest.raises(Died) as died:
        await pool.run("exits", python("exits", payload=7))

    assert (str(died.value), died.value.detail) == ("The child process exited with status 7.", "last words\n")
    assert (await pool.run("describe", python("describe")))["pid"] != before


async def test_a_child_that_crashes_names_the_signal(pool: ProcessPool) -> None:
    with pytest.raises(Died, match=r"The child process was killed by signal 6 \(SIGABRT\)\."):
        await pool.run("aborts", python("aborts"))


async def test_a_child_that_died_while_idle_is_replaced_before_it_costs_an_attempt(pool: ProcessPool) -> None:
    dead = (await pool.run("describe", python("describe")))["pid"]
    pidfd = os.pidfd_open(dead)
    os.kill(dead, signal.SIGKILL)
    select.select([pidfd], [], [], 5)
    os.close(pidfd)

    assert (await pool.run("describe", python("describe")))["pid"] != dead


async def test_cancel_stops_the_child_and_what_it_started(pool: ProcessPool) -> None:
    attempt = python("waits")
    task = asyncio.create_task(pool.run("waits", attempt))
    grandchild = os.pidfd_open(int(await attempt.line("grandchild ")))
    [child] = pool.pids()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ("info", "cleaned up") in attempt.lines()
    assert select.select([grandchild], [], [], 5)[0]
    os.close(grandchild)
    assert not Path(f"/proc/{child}").exists()
    assert (await pool.run("describe", python("describe")))["pid"] != child


async def test_cancel_reaches_a_coroutine_in_a_child_as_a_cancellation(pool: ProcessPool) -> None:
    attempt = python("waits_async")
    task = asyncio.create_task(pool.run("waits_async", attempt))
    await attempt.line("waiting")

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert ("info", "cleaned up, cancelled is True") in attempt.lines()


async def test_a_child_that_does_not_listen_is_killed_after_the_grace() -> None:
    pool = ProcessPool(REFERENCE, size=1, grace=0.05)
    attempt = python("ignores")
    task = asyncio.create_task(pool.run("ignores", attempt))
    await attempt.line("ignoring")

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert pool.pids() == []
    await pool.close()


async def test_a_child_that_is_asked_may_end_on_its_own_and_serves_on(pool: ProcessPool) -> None:
    attempt = python("polls")
    task = asyncio.create_task(pool.run("polls", attempt))
    await attempt.line("polling")
    before = pool.pids()

    attempt.stop = Outcome.CANCELLED
    task.cancel()

    assert await task == "ended cleanly"
    assert pool.pids() == before


async def test_a_coroutine_in_a_child_that_is_asked_is_cancelled_and_the_child_serves_on(pool: ProcessPool) -> None:
    attempt = python("waits_async")
    task = asyncio.create_task(pool.run("waits_async", attempt))
    await attempt.line("waiting")
    before = pool.pids()

    attempt.stop = Outcome.TIMED_OUT
    task.cancel()
    with pytest.raises(Failure):
        await task

    assert ("info", "cleaned up, cancelled is True") in attempt.lines()
    assert pool.pids() == before


async def test_a_child_that_is_asked_a_second_time_is_killed(pool: ProcessPool) -> None:
    attempt = python("ignores")
    task = asyncio.create_task(pool.run("ignores", attempt))
    await attempt.line("ignoring")
    attempt.stop = Outcome.CANCELLED
    task.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert pool.pids() == []


async def test_beats_progress_and_checkpoints_leave_the_child(pool: ProcessPool) -> None:
    attempt = python("tells")
    attempt.extras.kept = Kept(6, '"before"')
    kept: list[str] = []

    def keep(attempt: Attempt, data: str) -> Future[None]:
        kept.append(data)
        future: Future[None] = Future()
        if len(kept) == 1:
            future.set_result(None)
        else:
            future.set_exception(LeaseLost("refused"))
        return future

    attempt.keeper = keep

    assert await pool.run("tells", attempt) == ["refused", 7]
    assert (kept, attempt.extras.progress) == (['"first"', '"second"'], "999")
    # Coalesced: a thousand calls are a few messages.
    assert 3 <= attempt.extras.beats < 50


async def test_endings_that_are_no_failures_leave_the_child(pool: ProcessPool) -> None:
    with pytest.raises(Snooze) as snoozed:
        await pool.run("snoozes", python("snoozes"))
    with pytest.raises(Discard, match="nothing to do"):
        await pool.run("discards", python("discards"))

    assert snoozed.value.wait == 300 * SECOND
    assert "LookupError" in (await failure_of(pool, "raises")).kinds


async def test_children_run_side_by_side_up_to_the_size() -> None:
    pool = ProcessPool(f"{REFERENCE}:app", size=2, grace=10)

    results = await asyncio.gather(*(pool.run("describe", python("describe")) for _ in range(6)))

    assert len({result["pid"] for result in results}) == 2
    await pool.close()


@pytest.mark.parametrize("reference", ["tests.executors.no_such_module", "tests.executors.sample_app:nothing"])
async def test_an_application_that_cannot_be_imported_is_named(reference: str) -> None:
    pool = ProcessPool(reference, size=1)

    failure = await failure_of(pool, "describe")

    assert failure.type == "ImportFailed"
    assert reference.rpartition(".")[2].rpartition(":")[2] in str(failure)
    assert pool.pids() == []
    await pool.close()


async def test_a_closed_pool_does_not_keep_a_child_that_was_busy(pool: ProcessPool) -> None:
    attempt = python("waits")
    task = asyncio.create_task(pool.run("waits", attempt))
    await attempt.line("grandchild ")

    await pool.close()
    task.cancel()
    await asyncio.wait([task])

    assert pool.pids() == []


async def test_a_child_and_what_it_started_die_with_the_worker() -> None:
    program = """
import asyncio
from duly.executors.processes import ProcessPool
from tests.executors.attempts import python

async def main():
    pool = ProcessPool("tests.executors.sample_app", size=1)
    attempt = python("waits")
    task = asyncio.create_task(pool.run("waits", attempt))
    print(await attempt.line("grandchild "), *pool.pids(), flush=True)
    await task

asyncio.run(main())
"""
    worker = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env={"PYTHONPATH": os.pathsep.join(sys.path)})
    assert worker.stdout is not None
    with worker.stdout:
        pidfds = [os.pidfd_open(int(pid)) for pid in worker.stdout.readline().split()]

    worker.send_signal(signal.SIGKILL)
    worker.wait()

    assert len(pidfds) == 2
    for pidfd in pidfds:
        assert select.select([pidfd], [], [], 5)[0]
        os.close(pidfd)


async def test_uvloop_runs_and_stops_children_too() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        pool = ProcessPool(REFERENCE, size=1)
        assert (await pool.run("describe", python("describe")))["fence"] == 42
        attempt = python("waits")
        task = asyncio.create_task(pool.run("waits", attempt))
        await attempt.line("grandchild ")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await pool.close()

    await asyncio.to_thread(uvloop.run, main())


async def test_a_version_whose_schedule_was_asked_for_is_sent_like_any_other(pool: ProcessPool) -> None:
    attempt = python("describe", payload=5)
    timing = Timing(type=JobType.INTERVAL, every=60 * SECOND, anchor=NOW)
    attempt.version = replace(attempt.version, spec=replace(attempt.version.spec, timing=timing))
    assert attempt.version.schedule is not None

    assert await pool.run("describe", attempt) is not None
