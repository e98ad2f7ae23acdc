"""What a handler sees and says of its execution, on the event loop, in a thread and in a child process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from duly import App, Context
from duly.executors.processes import ProcessPool
from duly.ports.handlers import Attempt
from duly.testing import TestApp
from tests.executors.attempts import python
from tests.sdk.context_app import (
    app,
    asks_for_children,
    asks_in_a_thread,
    child,
    hopeless,
    labelled,
    pays,
    seen,
    sleeps_in_a_thread,
    sleepy,
    steps_async,
    steps_sync,
    unnamed,
)


@pytest.fixture
def t() -> Iterator[TestApp]:
    seen.clear()
    with TestApp(app) as opened:
        yield opened


@pytest.mark.parametrize("job", [steps_async, steps_sync], ids=["async", "plain"])
def test_named_values_are_saved_for_the_next_attempt_and_a_bar_goes_on_from_there(t: TestApp, job: object) -> None:
    run = t.enqueue(job)  # type: ignore[arg-type]
    t.travel("1m")

    assert (run.state, run.attempts) == ("succeeded", 2)
    assert run.attempt(2).resumed_from == {"done": 4}
    assert run.result == [4, 10, None, {"done": 10}]


async def test_a_child_process_saves_and_tells_in_the_same_way() -> None:
    pool = ProcessPool("tests.sdk.context_app:app", size=1)
    attempt = python("steps_apart", attempt=2)
    kept: list[str] = []

    def keep(attempt: Attempt, data: str) -> Future[None]:
        kept.append(data)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    attempt.keeper = keep
    try:
        assert await pool.run("steps_apart", attempt) == [0, 10, None, {"done": 10}]
    finally:
        await pool.close()
    assert kept == [f'{{"done":{n}}}' for n in range(1, 11)]
    assert attempt.extras.progress == '{"done":10,"total":10}'


def test_what_has_no_names_is_not_read_by_one(t: TestApp) -> None:
    run = t.enqueue(unnamed)
    t.travel("1s")

    assert run.attempt(1).error["type"] == "TypeError"
    assert "ctx.last_checkpoint" in run.attempt(1).error["message"]


def test_progress_says_it_once_or_goes_on() -> None:
    attempt = python("any")
    ctx = Context(attempt)

    ctx.progress(3, 10, "reading")
    assert attempt.extras.progress == '{"done":3,"total":10,"message":"reading"}'
    with ctx.progress(total=10, start=5) as bar:
        assert attempt.extras.progress == '{"done":5,"total":10}'
        bar.advance()
        bar.advance(2.5, "half")
    assert (bar.done, attempt.extras.progress) == (8.5, '{"done":8.5,"total":10,"message":"half"}')


@pytest.mark.parametrize("job", [asks_for_children, asks_in_a_thread], ids=["async", "plain"])
def test_a_handler_enqueues_another_job(t: TestApp, job: object) -> None:
    run = t.enqueue(job)  # type: ignore[arg-type]
    t.travel("1m")

    (made,) = t.runs(child)
    assert (run.result, made.state) == (made.id, "succeeded")


def test_a_handler_snoozes_in_a_word(t: TestApp) -> None:
    run = t.enqueue(sleepy)
    t.travel("1m")
    assert run.state == "scheduled"
    t.travel("2h")
    assert (run.state, run.result) == ("succeeded", 3)


def test_a_dead_letter_is_asked_for_by_its_name(t: TestApp) -> None:
    run = t.enqueue(hopeless)
    t.travel("1m")

    assert (run.state, run.attempts, run.error["message"]) == ("dead", 1, "the customer is gone")


def test_the_labels_that_the_job_requires_are_seen(t: TestApp) -> None:
    run = t.enqueue(labelled)
    t.travel("1m")

    assert run.result == {"gpu": ""}


def test_a_cancel_does_not_land_in_what_is_shielded(t: TestApp) -> None:
    run = t.enqueue(pays, seconds=30)
    t.travel("1s")
    run.cancel()
    t.travel("1m")

    assert (run.state, seen) == ("cancelled", ["paid"])


def test_what_is_shielded_for_longer_than_the_grace_is_ended_with_it(t: TestApp) -> None:
    run = t.enqueue(pays, seconds=3600)
    t.travel("1s")
    run.cancel()
    t.travel("2h")

    assert (run.state, seen) == ("cancelled", [])


def test_a_plain_handler_stops_where_it_looks(t: TestApp) -> None:
    run = t.enqueue(sleeps_in_a_thread)
    t.travel("10s")
    run.cancel()
    t.travel("1m")

    assert (run.state, seen) == ("cancelled", ["stopped"])


async def test_the_connection_of_an_open_transaction_is_seen_deeper_down(tmp_path: object) -> None:
    apart = App("apart")
    found: list[object] = []

    @apart.job
    async def writes(ctx: Context) -> None:
        found.append(ctx.tx)
        async with ctx.transaction() as connection:
            found.append(ctx.tx is connection)
        found.append(ctx.tx)

    class Block:
        async def __aenter__(self) -> str:
            return "connection"

        async def __aexit__(self, *error: object) -> None:
            pass

    class Transactions:
        def open(self, *_: object) -> Block:
            return Block()

    attempt = python("writes", payload={})
    attempt.transactions = Transactions()  # type: ignore[assignment]
    await writes.call().call(attempt)

    assert found == [None, True, None]
