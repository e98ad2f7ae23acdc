"""What handlers say beside ctx.log is kept with their attempt, wherever they run: logging, and what they print. Within bounds."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator

import pytest

from duly.domain.logs import LONGEST_LINE, MOST_BYTES, MOST_LINES
from duly.domain.redaction import Veil
from duly.executors.capture import RecordKeeper, captured, level_name
from duly.executors.processes import ProcessPool
from duly.executors.python import python_handlers
from duly.ports.handlers import Attempt
from duly.sdk.app import App
from tests.executors.attempts import WatchedAttempt, python
from tests.roles.odd_errors import ODD

log = logging.getLogger("shop")


@pytest.fixture(autouse=True)
def loud() -> None:
    log.setLevel(logging.DEBUG)


async def ran(
    function: object, *, what: frozenset[str] = frozenset({"logging", "print"}), attempt: WatchedAttempt | None = None
) -> WatchedAttempt:
    """Run a function as a handler of an application, and hear what it says."""
    app = App("shop")
    app.job(name="said")(function)  # type: ignore[call-overload]
    (handler,) = python_handlers(app.calls(), threads=1, processes=None)
    attempt = attempt or python("said")
    with captured(what):
        await asyncio.create_task(handler.run(attempt))
    attempt.close_log()
    if handler.close is not None:
        await handler.close()
    return attempt


async def test_records_of_a_handler_on_the_loop_are_its_own() -> None:
    async def handler() -> None:
        log.debug("one")
        await asyncio.sleep(0)
        log.warning("two %s", "words", extra={"rows": 3})
        log.critical("three")

    attempt = await ran(handler)

    assert attempt.lines() == [("debug", "one"), ("warning", "two words"), ("error", "three")]
    assert attempt.logs[1].fields == {"rows": 3, "logger": "shop"}


async def test_handlers_that_run_at_once_are_told_apart() -> None:
    app = App("shop")

    @app.job
    async def speaks(who: str) -> None:
        for nth in range(3):
            log.info("%s %d", who, nth)
            print(who)
            await asyncio.sleep(0)

    (handler,) = python_handlers(app.calls(), threads=1, processes=None)
    attempts = [python("speaks", payload={"who": name}) for name in ("ann", "bob")]

    with captured({"logging", "print"}):
        await asyncio.gather(*(asyncio.create_task(handler.run(attempt)) for attempt in attempts))

    for attempt, name in zip(attempts, ("ann", "bob"), strict=True):
        assert attempt.lines() == [line for nth in range(3) for line in (("info", f"{name} {nth}"), ("info", name))]


async def test_a_thread_s_records_and_prints_are_kept_and_still_shown(capsys: pytest.CaptureFixture[str]) -> None:
    def handler() -> None:
        log.info("in %s", threading.current_thread().name[:4])
        print("printed", 1, end="")
        print(" line\nand another", flush=True)
        sys.stdout.write("the last one has no end")

    attempt = await ran(handler)

    assert attempt.lines() == [
        ("info", "in duly"),
        ("info", "printed 1 line"),
        ("info", "and another"),
        ("info", "the last one has no end"),
    ]
    assert capsys.readouterr().out == "printed 1 line\nand another\nthe last one has no end"


def test_a_record_that_cannot_be_told_does_not_fail_its_handler() -> None:
    attempt, odd = python("said"), ODD["no name"][0]()
    keeper = RecordKeeper(lambda: attempt)

    keeper.emit(log.makeRecord("shop", logging.INFO, "", 1, ODD["no words"][0](), (), None))
    keeper.emit(log.makeRecord("shop", logging.INFO, "", 1, "caught", (), (type(odd), odd, None)))

    assert [message for _, message in attempt.lines()] == [
        "(a Silent that cannot be printed) (LookupError: its arguments do not fit)",
        "caught\nUnnamed: who",
    ]


async def test_an_exception_is_kept_with_its_traceback_and_without_secrets() -> None:
    async def handler() -> None:
        try:
            raise ValueError("no canary-4711 here")
        except ValueError:
            log.exception("token=hunter22 failed", extra={"password": "hunter22"})

    attempt = python("said")
    attempt.extras.veil = Veil(["canary-4711"])
    await ran(handler, attempt=attempt)

    (line,) = attempt.logs
    assert "Traceback" in line.message
    assert "ValueError" in line.message
    assert "hunter22" not in f"{line}"
    assert "canary" not in f"{line}"


async def test_a_record_that_is_wrong_fails_nobody() -> None:
    async def handler() -> None:
        log.info("%d of %d", 1, extra={"odd": object()})

    logging.raiseExceptions = False
    try:
        attempt = await ran(handler)
    finally:
        logging.raiseExceptions = True

    assert attempt.lines()[0][1].startswith("%d of %d (TypeError")


async def test_what_is_switched_off_is_not_kept() -> None:
    def handler() -> None:
        log.error("recorded")
        print("printed")

    assert (await ran(handler, what=frozenset())).lines() == []
    assert (await ran(handler, what=frozenset({"print"}))).lines() == [("info", "printed")]
    assert (await ran(handler, what=frozenset({"logging"}))).lines() == [("error", "recorded")]


async def test_nobody_else_s_words_are_taken_for_a_handler_s() -> None:
    async def handler() -> None:
        logging.getLogger("duly.worker").warning("of Duly itself")

    attempt = await ran(handler)
    with captured({"logging", "print"}):
        log.warning("outside of any handler")

    assert attempt.lines() == []
    assert attempt.is_plain or attempt.logs == []


async def test_what_is_said_after_the_end_was_reported_does_not_count() -> None:
    attempt = python("said")
    attempt.extras.over = True

    async def handler() -> None:
        log.warning("too late")
        print("too late")

    assert (await ran(handler, attempt=attempt)).lines() == []


async def test_a_handler_that_says_nothing_leaves_no_trace_on_its_attempt() -> None:
    async def handler() -> None:
        return None

    app = App("shop")
    app.job(name="said")(handler)
    (quiet,) = python_handlers(app.calls(), threads=1, processes=None)
    attempt = python("said")
    with captured({"logging", "print"}):
        await quiet.run(attempt)

    assert attempt.is_plain


@pytest.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    pool = ProcessPool("tests.executors.sample_app", size=1)
    yield pool
    await pool.close()


async def test_records_of_a_child_arrive_once_with_their_level_and_fields(pool: ProcessPool) -> None:
    attempt = python("logs")

    await pool.run("logs", attempt)

    paid = next(line for line in attempt.logs if line.message == "paid 7")
    assert (paid.level, paid.fields["customer"], paid.fields["logger"]) == ("info", "ann", "shop.orders")
    assert "hunter22" not in f"{attempt.logs}"
    # One that does not come by the root is printed by its own handler, and that is read.
    assert sorted(level for level, _ in attempt.lines()) == ["error", "error", "info"]


def flooded(size: int, count: int) -> Attempt:
    attempt = python("said")
    # Without the event loop that a watched one needs.
    for nth in range(count):
        Attempt.log(attempt, "info", f"{nth} ".ljust(size, "x"), {})
    attempt.close_log()
    attempt.close_log()
    return attempt


def test_lines_past_the_limit_are_counted_at_the_end() -> None:
    lines = flooded(10, MOST_LINES + 5).logs

    assert len(lines) == MOST_LINES + 2
    assert lines[MOST_LINES].message == "more than 10,000 lines or 4 MiB: the rest is not kept"
    assert lines[-1].message == "not kept: 5 lines, 50 bytes"
    assert [line.level for line in lines[-2:]] == ["warning", "warning"]


def test_so_are_bytes_past_the_limit() -> None:
    fits = MOST_BYTES // LONGEST_LINE
    lines = flooded(LONGEST_LINE, fits + 3).logs

    assert len(lines) == fits + 2
    assert lines[-1].message == f"not kept: 3 lines, {3 * LONGEST_LINE:,} bytes"


async def test_a_line_that_is_cut_says_how_much_of_it_is_not_there() -> None:
    def handler() -> None:
        print("z" * 50_000)
        log.info("y" * 20_000)
        for _ in range(100):
            print("x" * 1000, end="")
        print(end="\nshort\n")
        print("w" * 40_000, end="")

    attempt = await ran(handler)

    lines = [line.message for line in attempt.logs or []]
    assert [line[0] for line in lines] == ["z", "y", "x", "s", "w"]
    for line, whole in ((lines[0], 50_000), (lines[1], 20_000), (lines[2], 100_000), (lines[4], 40_000)):
        kept = len(line) - len(line.lstrip(line[0]))
        assert line[kept:] == f"… ({whole - kept:,} more characters were not kept)"
        assert 16_000 < len(line) <= LONGEST_LINE
    assert lines[3] == "short"


async def test_a_secret_where_a_line_is_cut_is_hidden_all_the_same() -> None:
    attempt = python("said")
    attempt.extras.veil = Veil(["hunter2-hunter2-hunter2"])

    def handler() -> None:
        for piece in ("z" * (LONGEST_LINE - 75), "hunter2-hun", "ter2-hunter2", "z" * 50_000):
            print(piece, end="")

    (line,) = (await ran(handler, attempt=attempt)).logs or []

    assert "hunter" not in line.message


def test_a_line_as_long_as_a_line_may_be_is_not_cut() -> None:
    (line,) = flooded(LONGEST_LINE, 1).logs or []

    assert line.message == "0 ".ljust(LONGEST_LINE, "x")


def test_levels_of_records_are_levels_of_lines() -> None:
    assert [level_name(number) for number in (0, 10, 15, 20, 25, 30, 40, 50, 99)] == [
        *("debug", "debug", "debug", "info", "info", "warning", "error", "error", "error")
    ]
