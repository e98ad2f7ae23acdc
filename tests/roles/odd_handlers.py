"""Handlers that do what no handler should, for every executor; child processes import it as `tests.roles.odd_handlers:apps.process`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime, timedelta, tzinfo
from types import SimpleNamespace
from typing import Any, NoReturn

from duly.ports.handlers import Attempt, ExecutorKind, PythonCall
from tests.roles.odd_errors import ODD, Nameless


class Hourless(tzinfo):
    """Whoever writes its times down is interrupted."""

    def utcoffset(self, at: datetime | None) -> timedelta:
        raise KeyboardInterrupt


class Unprintable:
    """Nobody can say what it is."""

    def __repr__(self) -> NoReturn:
        raise KeyboardInterrupt

    __str__ = __repr__


class Dying:
    """Fights its end."""

    def __del__(self) -> None:
        raise KeyboardInterrupt


class Unnamed(metaclass=Nameless):
    """Its class does not tell its name."""


class Shifty(list[Any]):
    """Results that cannot be walked over."""

    def __iter__(self) -> NoReturn:
        raise GeneratorExit


async def nothing() -> None:
    """To be returned and never awaited."""


async def some() -> AsyncIterator[int]:
    """The same."""
    yield 1


def unawaited() -> Any:
    """A coroutine that says nothing of not having been awaited."""
    made = nothing()
    made.close()
    return made


def stops() -> NoReturn:
    raise StopIteration("over")


def dies() -> None:
    with contextlib.suppress(ValueError):
        raise ValueError(Dying())


def chained() -> NoReturn:
    try:
        raise ODD["words that interrupt"][0]()
    except ValueError as error:
        error.__cause__ = error
        raise LookupError("chained") from error


def deep() -> Any:
    made: list[Any] = []
    for _ in range(100_000):
        made = [made]
    return made


# What is done, and whether it is a failure.
DEEDS: dict[str, tuple[Callable[[], Any], bool]] = {
    **{name: (name.__len__, True) for name in ODD},
    "StopIteration": (stops, True),
    "an interrupt from its result": (lambda: datetime(2026, 1, 1, tzinfo=Hourless()), True),
    "a result that cannot be printed": (Unprintable, True),
    "a result without a name": (Unnamed, True),
    "a result that cannot be walked over": (lambda: Shifty([1]), False),
    "a deep result": (deep, True),
    "half of a pair": (lambda: "\ud800", True),
    "a coroutine": (unawaited, True),
    "an async generator": (some, True),
    "an error": (lambda: ValueError("returned"), True),
    "what fights its end": (dies, False),
    "a chain": (chained, True),
}


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def cancels_itself_and_ends() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def is_cancelled_by_another() -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_soon(task.cancel)
    await asyncio.sleep(3600)


async def raises_in_a_group() -> None:
    async def odd() -> NoReturn:
        raise ODD["no words"][0]()

    async with asyncio.TaskGroup() as group:
        group.create_task(odd())
        group.create_task(odd())


async def closes_its_coroutine() -> None:
    inner = nothing()
    inner.close()
    await inner


# Only of a coroutine.
ASYNC_DEEDS: dict[str, tuple[Callable[[], Any], bool]] = {
    "cancels itself": (cancels_itself, True),
    "cancels itself and ends": (cancels_itself_and_ends, False),
    "is cancelled by another": (is_cancelled_by_another, True),
    "raises in a group": (raises_in_a_group, True),
    "awaits what is closed": (closes_its_coroutine, True),
}


def work(attempt: Attempt) -> Any:
    """A plain handler."""
    if attempt.payload in ODD:
        raise ODD[attempt.payload][0]()
    return "done" if attempt.payload is None else DEEDS[attempt.payload][0]()


async def work_async(attempt: Attempt) -> Any:
    """The same as a coroutine."""
    await asyncio.sleep(0)
    if attempt.payload in ASYNC_DEEDS:
        return await ASYNC_DEEDS[attempt.payload][0]()
    return work(attempt)


class Application:
    """Its one handler runs there."""

    def __init__(self, kind: ExecutorKind, call: Callable[[Attempt], Any]) -> None:
        self.kind, self.call = kind, call

    def calls(self) -> Mapping[str, PythonCall]:
        return {"work": PythonCall("work", self.kind, self.call)}


apps = SimpleNamespace(
    loop=Application(ExecutorKind.LOOP, work_async),
    thread=Application(ExecutorKind.THREAD, work),
    process=Application(ExecutorKind.PROCESS, work),
    async_process=Application(ExecutorKind.PROCESS, work_async),
)
