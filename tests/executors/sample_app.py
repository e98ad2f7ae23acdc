"""An application for child processes: an object with `calls()`, as the SDK's App is one."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from duly.domain.errors import LeaseLost
from duly.domain.instants import SECOND
from duly.ports.current import speaker
from duly.ports.endings import Discard, Failure, Snooze
from duly.ports.handlers import Attempt, ExecutorKind, PythonCall
from duly.ports.traces import carried
from tests.roles.odd_errors import ODD


class Speaking(NamedTuple):
    """What the SDK's context is for whoever hears a handler speak."""

    speaks_for: Attempt


def describe(attempt: Attempt) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "key": attempt.idempotency_key,
        "attempt": attempt.attempt,
        "fence": attempt.fence,
        "payload": attempt.payload,
        "job": attempt.version.spec.name,
        "clock": attempt.clock() // (60 * SECOND),
        "trace": [attempt.traceparent, carried()],
    }


def prints(attempt: Attempt) -> None:
    print("to the output")
    print("to the error", file=sys.stderr)
    sys.stdout.write("without a newline")
    attempt.log("info", "structured", {"rows": 3, "odd": object})


def logs(attempt: Attempt) -> None:
    speaker.set(Speaking(attempt))
    logging.getLogger("shop.orders").info("paid %d", 7, extra={"customer": "ann", "token": "hunter22"})
    logging.getLogger("shop").error("token=hunter22")
    quiet = logging.getLogger("shop.quiet")
    quiet.addHandler(logging.StreamHandler())
    quiet.propagate = False
    quiet.warning("to the error, by a handler of its own")


def floods(attempt: Attempt) -> str:
    for _ in range(30_000):
        print("x" * 80)
    return "done"


async def concurrent(attempt: Attempt) -> list[int]:
    return await asyncio.gather(*(asyncio.sleep(0, number) for number in range(3)))


def raises(attempt: Attempt) -> None:
    raise KeyError("missing")


def refuses(attempt: Attempt) -> None:
    raise Failure("not today", type="Closed", retry=False, retry_after=5, detail="holiday")


def exits(attempt: Attempt) -> None:
    print("last words", file=sys.stderr, flush=True)
    os._exit(attempt.payload)


def leaves(attempt: Attempt) -> None:
    sys.exit("by the front door")


def aborts(attempt: Attempt) -> None:
    os.abort()


def waits(attempt: Attempt) -> None:
    grandchild = subprocess.Popen(["sleep", "600"])
    try:
        print(f"grandchild {grandchild.pid}")
        time.sleep(600)
    finally:
        print("cleaned up")


async def waits_async(attempt: Attempt) -> None:
    try:
        attempt.log("info", "waiting", {})
        await asyncio.sleep(600)
    finally:
        print(f"cleaned up, cancelled is {attempt.cancelled}")


def polls(attempt: Attempt) -> str:
    print("polling")
    while not attempt.cancelled:
        time.sleep(0.01)
    return "ended cleanly"


def tells(attempt: Attempt) -> Any:
    attempt.beat()
    for row in range(1000):
        attempt.tell(str(row))
    attempt.keep('"first"').result()
    try:
        attempt.keep('"second"').result()
    except LeaseLost as lost:
        return [lost.message, attempt.kept.number if attempt.kept else 0]
    return "kept"


def snoozes(attempt: Attempt) -> None:
    raise Snooze("5m")


def discards(attempt: Attempt) -> None:
    raise Discard("nothing to do")


def ignores(attempt: Attempt) -> None:
    while True:
        try:
            print("ignoring")
            time.sleep(600)
        except BaseException:
            continue


def returns_an_object(attempt: Attempt) -> object:
    return object()


def odd(attempt: Attempt) -> Any:
    raise ODD[attempt.payload][0]()


async def odd_async(attempt: Attempt) -> Any:
    raise ODD[attempt.payload][0]()


class Unwritable:
    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__


def logs_oddly(attempt: Attempt) -> str:
    attempt.log("info", "half \ud800 of a pair", {"half": "\ud800", "large": 1 << 80, "pair": (1, {2: "two"})})
    attempt.log("info", "\x00" * (17 << 20), {"many": "x" * (17 << 20)})
    with contextlib.suppress(KeyboardInterrupt):
        attempt.log("info", "unwritable", {"it": Unwritable()})
    return "logged"


def returns_oddly(attempt: Attempt) -> Any:
    class Hourless(tzinfo):
        def utcoffset(self, at: datetime | None) -> timedelta:
            raise GeneratorExit

    return datetime(2026, 1, 1, tzinfo=Hourless())


def breaks_its_output(attempt: Attempt) -> None:
    class Broken(io.StringIO):
        def flush(self) -> None:
            if not self.closed:
                self.close()
                raise KeyboardInterrupt

    sys.stdout = Broken()


class Application:
    def calls(self) -> Mapping[str, PythonCall]:
        functions: list[Callable[[Attempt], Any]] = [
            describe, prints, logs, floods, concurrent, raises, refuses, exits, leaves, aborts, waits, waits_async,
            polls, tells, snoozes, discards, ignores, returns_an_object,
            odd, odd_async, logs_oddly, returns_oddly, breaks_its_output,
        ]  # fmt: skip
        return {function.__name__: PythonCall(function.__name__, ExecutorKind.PROCESS, function) for function in functions}


app = Application()
