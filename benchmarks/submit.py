"""How many durable submits per second? One at a time, in bulk, and over HTTP from many connections that share commits.

python -m benchmarks.submit [--store sqlite|postgres] [--seconds 4] [--connections 64]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable

from benchmarks.harness import KEY, chosen_stores, on_demand_job, opened, processes, report, scratch, server_url
from duly.domain.ids import job_text
from duly.usecases.executions import Wanted

BODY = b'{"payload":{"i":1,"pad":"' + b"x" * 48 + b'"}}'


async def submit(kind: str, seconds: float, connections: int) -> None:
    """Three ways in, one store each."""
    with scratch(kind) as store:
        async with opened(store) as node:
            job = await on_demand_job(node, "duly.echo")

            async def single() -> int:
                await node.executions.enqueue_for(job, [Wanted(payload="{}")])
                return 1

            async def bulk() -> int:
                return len(await node.executions.enqueue_for(job, [Wanted(payload="{}")] * 1000))

            report("submit_single", store=kind, per_second=await rate(single, seconds, 1))
            report("submit_single_64_callers", store=kind, per_second=await rate(single, seconds, 64))
            report("submit_bulk", store=kind, per_second=await rate(bulk, seconds, 1))
            with processes(store, ["server", "--port", "0"], DULY_ADMIN_KEY=KEY) as running:
                host, port = server_url(running[0])
                count, took = await _flood(host, port, job_text(job.id), connections, seconds)
                report("submit_http", store=kind, connections=connections, per_second=round(count / took))


async def rate(call: Callable[[], Awaitable[int]], seconds: float, callers: int) -> int:
    """How many a second so many callers get done."""
    done = 0
    end = time.perf_counter() + seconds

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() < end:
            made = await call()
            done += made

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return round(done / (time.perf_counter() - began))


async def _flood(host: str, port: int, job: str, connections: int, seconds: float) -> tuple[int, float]:
    request = (
        f"POST /v1/jobs/{job}/executions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
    ).encode() + BODY
    done = 0
    end = time.perf_counter() + seconds

    async def client() -> None:
        nonlocal done
        reader, writer = await asyncio.open_connection(host, port)
        while time.perf_counter() < end:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 201"), head
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            done += 1
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(connections)))
    return done, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--connections", type=int, default=64)
    options, stores = chosen_stores(parser)
    for kind in stores:
        asyncio.run(submit(kind, options.seconds, options.connections))


if __name__ == "__main__":
    main()
