"""An API over the store of a conformance test, and a client that asks it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx

from duly.adapters.sql.bell import Bell
from duly.domain.access import Role
from duly.domain.ids import ExecutionId, execution_text, job_text, parse_job_id
from duly.domain.instants import DAY, Instant, to_rfc3339
from duly.domain.job import Job
from duly.http.app import create_api
from duly.ports.keys import KeyRow
from duly.usecases import access as keys
from tests.api import services_on
from tests.conformance.world import START, World

SECRET = "duly_a_key_for_those_who_ask"
KEEP = 30 * DAY


@dataclass
class TurnedClock:
    """The world's clock, as use cases read it."""

    world: World

    def now(self) -> Instant:
        return self.world.now

    def boottime(self) -> Instant:
        return self.world.now


@dataclass
class Asking:
    """A client of an API over the world's store."""

    world: World
    client: httpx.AsyncClient

    async def run(self, run_id: ExecutionId) -> dict[str, Any]:
        """Why an execution stands where it stands."""
        answer = await self.client.get(f"/v1/executions/{execution_text(run_id)}/why")
        assert answer.status_code == 200, answer.text
        return checked(answer.json())

    async def job(self, job_id: UUID, at: Instant | str | None = None) -> dict[str, Any]:
        """Why a job does not run: now, or at a time."""
        when = to_rfc3339(at) if isinstance(at, int) else at
        answer = await self.client.get(f"/v1/jobs/{job_text(job_id)}/why", params={} if when is None else {"at": when})
        assert answer.status_code == 200, answer.text
        return checked(answer.json())

    async def post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = await self.client.post(path, json=body or {})
        assert answer.status_code < 300, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def create(self, **fields: Any) -> Job:
        """A job as the API makes it."""
        made = await self.post("/v1/jobs", {"target": {"handler": "noop"}, **fields})
        return await self.world.read(parse_job_id(made["jobId"]))

    async def enqueue(self, job: Job, **fields: Any) -> ExecutionId:
        made = await self.post(f"/v1/jobs/{job_text(job.id)}/executions", fields)
        return UUID(hex=made["executionId"].removeprefix("run_"))


def checked(answer: dict[str, Any]) -> dict[str, Any]:
    """Every answer has a summary, and it is the first reason's sentence."""
    assert answer["summary"] == answer["reasons"][0]["message"]
    assert all(reason["message"].endswith(".") for reason in answer["reasons"])
    return answer


def codes(answer: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in answer["reasons"]]


@asynccontextmanager
async def asking(world: World) -> AsyncIterator[Asking]:
    """An API over the world's store, and a key of anna's for it."""
    store, clock, hints = world.store, TurnedClock(world), Bell()
    await store.keys.add_key(KeyRow(keys.key_id(SECRET), 1, "", Role.ADMIN.name, "anna", keys._hash(SECRET), START))
    services = services_on(store, clock, world.chance.getrandbits, hints, keep=KEEP)
    transport = httpx.ASGITransport(create_api(services))
    async with httpx.AsyncClient(transport=transport, base_url="http://duly.test", headers={"authorization": f"Bearer {SECRET}"}) as client:
        yield Asking(world, client)
