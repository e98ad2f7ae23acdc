"""Python functions as handlers: on the event loop, in threads, or in child processes."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, assert_never

from duly.executors.processes import ProcessPool
from duly.ports.handlers import Attempt, ExecutorKind, Handler, PythonCall
from duly.ports.transactions import Transactions

# A thread that outlives its deadline keeps its place in the pool while its worker's slot is free again. The pool may grow by
# this many, so that stuck functions do not starve healthy ones; a thread is made only when none is idle.
SPARE_THREADS = 512


def python_handlers(
    calls: Mapping[str, PythonCall], *, threads: int, processes: ProcessPool | None, transactions: Transactions | None = None
) -> list[Handler]:
    """A handler for every call. Closing any of them closes the threads and processes that they share.

    `transactions` is what handlers in this process may open; a child process has none.
    Raises ValueError when a call wants a process and there is no pool.
    """
    threaded = any(call.kind is ExecutorKind.THREAD for call in calls.values())
    pool = ThreadPoolExecutor(threads + SPARE_THREADS, "duly-thread") if threaded else None
    handlers: list[Handler] = []
    for name, call in calls.items():
        match call.kind:
            case ExecutorKind.LOOP:
                handlers.append(Handler(name, _on_loop(call, transactions)))
            case ExecutorKind.THREAD:
                assert pool is not None
                handlers.append(Handler(name, _in_thread(call, pool, transactions), _close_threads(pool)))
            case ExecutorKind.PROCESS:
                if processes is None:
                    raise ValueError(f"{name} runs in a child process; give the worker an application reference, such as shop.jobs:app.")
                handlers.append(Handler(name, _in_process(name, processes), processes.close))
            case _:
                assert_never(call.kind)
    return handlers


def _on_loop(call: PythonCall, transactions: Transactions | None) -> Callable[[Attempt], Coroutine[Any, Any, Any]]:
    def run(attempt: Attempt) -> Coroutine[Any, Any, Any]:
        attempt.transactions = transactions
        # The handler's own coroutine: another one around it would cost as much as a short handler.
        coroutine: Coroutine[Any, Any, Any] = call.call(attempt)
        return coroutine

    return run


def _in_thread(
    call: PythonCall, pool: ThreadPoolExecutor, transactions: Transactions | None
) -> Callable[[Attempt], Coroutine[Any, Any, Any]]:
    async def run(attempt: Attempt) -> Any:
        attempt.transactions = transactions
        context = contextvars.copy_context()
        future = asyncio.get_running_loop().run_in_executor(pool, context.run, _call, call, attempt)
        try:
            return await future
        except asyncio.CancelledError:
            # Nothing can stop a thread. One that has not started never will; one that runs is told, and its writes are
            # refused by the fence. Waiting for it would let a stuck function hold its worker.
            attempt.cancelled = True
            raise

    return run


def _call(call: PythonCall, attempt: Attempt) -> Any:
    try:
        return call.call(attempt)
    except StopIteration as exc:
        # A future cannot carry it: it would leave the awaiting side waiting for ever.
        raise RuntimeError("the handler raised StopIteration") from exc


def _close_threads(pool: ThreadPoolExecutor) -> Callable[[], Awaitable[None]]:
    async def close() -> None:
        pool.shutdown(wait=False, cancel_futures=True)

    return close


def _in_process(name: str, processes: ProcessPool) -> Callable[[Attempt], Coroutine[Any, Any, Any]]:
    async def run(attempt: Attempt) -> Any:
        return await processes.run(name, attempt)

    return run
