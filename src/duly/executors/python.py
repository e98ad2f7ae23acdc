"""Python functions as handlers: on the event loop, in threads, or in child processes."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
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
                handlers.append(_handler(call, _on_loop(call, transactions)))
            case ExecutorKind.THREAD:
                assert pool is not None
                handlers.append(_handler(call, _in_thread(call, pool, transactions), _close_threads(pool)))
            case ExecutorKind.PROCESS:
                if processes is None:
                    raise ValueError(f"{name} runs in a child process; give the worker an application reference, such as shop.jobs:app.")
                run = _in_process(name, processes)
                handlers.append(
                    Handler(
                        name, run, processes.close, may_die=True, places=processes, secret_defaults=call.secret_defaults, takes=call.takes
                    )
                )
            case _:
                assert_never(call.kind)
    return handlers


def _handler(
    call: PythonCall, run: Callable[[Any], Coroutine[Any, Any, Any]], close: Callable[[], Awaitable[None]] | None = None
) -> Handler:
    if call.batch == 1:
        return Handler(call.name, run, close, secret_defaults=call.secret_defaults, takes=call.takes)

    async def run_one(attempt: Attempt) -> Any:
        # A job that names a batch handler without a batch of its own.
        results = await run([attempt])
        if isinstance(results, list | tuple) and len(results) == 1:
            if isinstance(results[0], BaseException):
                raise results[0]
            return results[0]
        return results

    return Handler(call.name, run_one, close, run_many=run, batch=call.batch)


def _on_loop(call: PythonCall, transactions: Transactions | None) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    def run(attempts: Attempt | Sequence[Attempt]) -> Coroutine[Any, Any, Any]:
        _offer(transactions, attempts)
        # The function's own coroutine: one that ends at its first step is driven without a task, and without another around it.
        coroutine: Coroutine[Any, Any, Any] = call.call(attempts)
        return coroutine

    return run


def _offer(transactions: Transactions | None, attempts: Attempt | Sequence[Attempt]) -> None:
    """What a handler may open; of a batch, nobody: its executions end apart."""
    if isinstance(attempts, Attempt):
        attempts.transactions = transactions


def _in_thread(call: PythonCall, pool: ThreadPoolExecutor, transactions: Transactions | None) -> Callable[[Any], Coroutine[Any, Any, Any]]:
    async def run(attempts: Attempt | Sequence[Attempt]) -> Any:
        _offer(transactions, attempts)
        context = contextvars.copy_context()
        members = [attempts] if isinstance(attempts, Attempt) else attempts
        for attempt in members:
            # Made here, before the thread and the worker both reach for it.
            _ = attempt.extras
        work = pool.submit(context.run, _call, call, attempts)
        while True:
            try:
                return await asyncio.wrap_future(work)
            except asyncio.CancelledError:
                # Nothing can stop a thread. One that has not started never will; one that runs is told by its token. Whoever
                # wants it stopped decides how long to wait: when its end was reported without it, or without asking, we leave it.
                if work.cancelled():
                    raise
                if work.done():
                    return work.result()
                if all(attempt.over or attempt.stop is None for attempt in members):
                    for attempt in members:
                        attempt.cancelled = True
                    raise

    return run


def _call(call: PythonCall, attempts: Any) -> Any:
    try:
        return call.call(attempts)
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
