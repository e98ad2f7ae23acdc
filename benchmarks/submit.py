"""How many durable submits per second? One at a time, in bulk, and over HTTP from many connections that share commits.

A submit is counted when its answer has come: it is committed then. Callers and clients are in this process, on the same cores as the server
and the database; nobody works meanwhile. What it is compared with, bare inserts of the same rows, is in `bare.py`.

python -m benchmarks.submit [--full] [--store postgres] [--cases "over HTTP"]
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial

from benchmarks.bare import inserts
from benchmarks.fleet import SERVER
from benchmarks.harness import KEY, PAGE, Scratch, on_demand_job, opened, processes, query, server_url
from benchmarks.question import Bound, Case, Question
from benchmarks.report import Failed, Figures
from benchmarks.run import main
from benchmarks.scale import Scale
from benchmarks.targets import BULK_ENQUEUE, HTTP_FACTOR
from duly.domain.ids import job_text
from duly.usecases.executions import Wanted

PAYLOAD = f'{{"carried":1.0,"pad":"{"x" * 48}"}}'
BODY = b'{"payload":' + PAYLOAD.encode() + b"}"
CALLERS = 64
WARM_UP = 0.25
HTTP, BARE, BARE_HTTP = "over HTTP, 64 connections", "bare inserts, 64 callers", "bare inserts over HTTP, 64 connections"


async def submit(store: Scratch, scale: Scale, *, size: int, callers: int) -> Figures:
    """By an application that has its own connection to the store."""
    async with opened(store) as node:
        job = await on_demand_job(node, "noop")

        async def call() -> int:
            return len(await node.executions.enqueue_for(job, [Wanted(payload=PAYLOAD)] * size))

        return await _measured(store, call, scale, callers)


async def bare(store: Scratch, scale: Scale) -> Figures:
    """What the store itself takes from as many callers."""
    await _make(store)
    async with inserts(store.url) as into:

        async def call() -> int:
            await into.insert(PAYLOAD)
            return 1

        return await _measured(store, call, scale, CALLERS)


async def over_http(store: Scratch, scale: Scale) -> Figures:
    """Through the API, with a key."""
    async with opened(store) as node:
        job = await on_demand_job(node, "noop")
    with processes(store, SERVER, DULY_ADMIN_KEY=KEY) as running:
        return await _flooded(store, scale, server_url(running[0]), f"/v1/jobs/{job_text(job.id)}/executions")


async def bare_http(store: Scratch, scale: Scale) -> Figures:
    """Through a server that does nothing else."""
    await _make(store)
    with _bare_server(store) as process:
        return await _flooded(store, scale, server_url(process), "/")


async def _make(store: Scratch) -> None:
    """Duly's tables."""
    async with opened(store):
        pass


@contextlib.contextmanager
def _bare_server(store: Scratch) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "benchmarks.bare", store.url]
    with subprocess.Popen(command, env=store.environment(), stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.terminate()


async def _measured(store: Scratch, call: Callable[[], Awaitable[int]], scale: Scale, callers: int) -> Figures:
    """After a moment to connect, prepare and warm up. What was counted is in the store."""
    ahead, _ = await counted(call, min(WARM_UP, scale.enqueue_seconds), callers)
    made, took = await counted(call, scale.enqueue_seconds, callers)
    ((found,),) = await query(store, "SELECT count(*) FROM executions")
    if found != ahead + made:
        raise Failed(f"{ahead + made:,} submits were answered and {found:,} are in the store")
    return {"per_second": made / took, "jobs": made, "seconds": took}


async def counted(call: Callable[[], Awaitable[int]], seconds: float, callers: int) -> tuple[int, float]:
    """How many so many callers get done, and how long it took until the last one had its answer."""
    done = 0
    end = time.perf_counter() + seconds

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() < end:
            made = await call()
            done += made

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return done, time.perf_counter() - began


async def _flooded(store: Scratch, scale: Scale, where: tuple[str, int], path: str) -> Figures:
    host, port = where
    request = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
    ).encode() + BODY
    # Plain sockets: a client of comfort would take more of the cores than the server.
    async with contextlib.AsyncExitStack() as stack:
        idle = [await stack.enter_async_context(_connected(host, port)) for _ in range(CALLERS)]

        async def call() -> int:
            reader, writer = idle.pop()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 201"):
                raise Failed(head.decode(errors="replace"))
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            idle.append((reader, writer))
            return 1

        return await _measured(store, call, scale, CALLERS)


@contextlib.asynccontextmanager
async def _connected(host: str, port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


QUESTION = Question(
    name="submit",
    title="Durable submits",
    about="executions a second that are committed",
    cases=(
        Case(name="one caller", ask=partial(submit, size=1, callers=1)),
        Case(name="64 callers", ask=partial(submit, size=1, callers=CALLERS)),
        Case(name="1,000 at a time", ask=partial(submit, size=PAGE, callers=1)),
        Case(name=HTTP, ask=over_http),
        Case(name=BARE, ask=bare),
        Case(name=BARE_HTTP, ask=bare_http),
    ),
    figures={"per_second": "a second"},
    base=BARE,
    bounds=(
        Bound(case="1,000 at a time", figure="per_second", bound=BULK_ENQUEUE, unit="/s"),
        Bound(case=HTTP, figure="per_second", bound=round(1 / HTTP_FACTOR, 3), unit="×", times_as_much_as=BARE),
        Bound(case=HTTP, figure="per_second", bound=round(1 / HTTP_FACTOR, 3), unit="×", times_as_much_as=BARE_HTTP),
    ),
)


if __name__ == "__main__":
    main(QUESTION)
