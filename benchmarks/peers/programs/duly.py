"""Duly, through its public interface: an application whose jobs `duly worker` runs."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.marks import hit
from benchmarks.peers.programs.frame import Payload, Producer, Program
from benchmarks.peers.work import TENANTS, kind, payload, tenant
from duly import App, Client, Context, Retry, Task
from duly.sdk import calls
from duly.sdk.tenants import create_tenant

CALLERS = 64

app = App("benchmark")


@app.job
async def noop(i: int, t: float, pad: str) -> None:
    """Does nothing."""
    hit(t)


@app.job
async def mixed(i: int, t: float, pad: str, ms: int) -> None:
    """Waits."""
    hit(t)
    if ms:
        await asyncio.sleep(ms / 1000)


# The wait is Graphile Worker's, which cannot be changed: e seconds before the second attempt.
@app.job(retry=Retry(2, initial_delay="2718ms", jitter=0))
async def failing(ctx: Context, i: int, t: float, pad: str, fails: bool) -> None:
    """Fails at its first attempt, if it is told to."""
    hit(t)
    if fails and ctx.attempt == 1:
        raise RuntimeError("fails once")


class DulyProducer(Producer):
    """An application's own connection to the store."""

    async def setup(self) -> None:
        await app.publish()
        await app.close()

    async def close(self) -> None:
        await app.close()

    async def add(self, job: Payload) -> None:
        await _task(job).enqueue(**job)

    async def add_many(self, jobs: Sequence[Payload]) -> None:
        await _task(jobs[0]).enqueue_many(jobs)

    async def add_at(self, jobs: Sequence[tuple[float, Payload]]) -> None:
        # One call has one time: several callers at once, whose commits the store shares.
        places = asyncio.Semaphore(CALLERS)

        async def one(due: float, job: Payload) -> None:
            async with places:
                await _task(job).enqueue_at(datetime.fromtimestamp(due, UTC), **job)

        await asyncio.gather(*(one(due, job) for due, job in jobs))

    async def fill(self, count: int) -> None:
        if kind() == "tenants":
            fill_tenants(count)
        else:
            await super().fill(count)


def _task(job: Payload) -> Task[..., Any]:
    if "ms" in job:
        return mixed
    return failing if "fails" in job else noop


def fill_tenants(count: int) -> None:
    """As many tenants as there may be, each with a job of its own, through the API with the tenant's own key."""
    command = [sys.executable, "-m", "duly.cli.main", "server", "--roles", "api", "--port", "0"]
    key = f"duly_{secrets.token_hex(16)}"
    server = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "DULY_ADMIN_KEY": key, "DULY_RATE_LIMIT": "0"})
    try:
        url = server_url(server)
        tenants = min(TENANTS, count)
        with Client(url, key) as admin:
            for number in range(tenants):
                made = admin.send(create_tenant({"name": tenant(number)}))
                with Client(url, made.key.secret) as client:
                    job = client.send(calls.create_job({"name": "noop", "target": {"handler": "noop"}}))
                    client.send(calls.enqueue_many(job.job_id, [payload(i) for i in range(number, count, tenants)]))
    finally:
        server.terminate()
        server.wait(timeout=30)


def server_url(server: subprocess.Popen[bytes]) -> str:
    """Where a server that was started on port 0 listens, as it says itself."""
    assert server.stdout is not None
    for line in server.stdout:
        if found := re.search(rb"http://[0-9.]+:[0-9]+", line):
            return found[0].decode()
    raise RuntimeError("the server ended before it listened")


PROGRAM = Program(DulyProducer())
