"""The API over a real store in memory, a clock that is turned by hand, and keys of every role and of two tenants."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import httpx
import pytest

from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine
from duly.adapters.sql.store import store_on
from duly.dashboard.pages import pages
from duly.domain.access import Role
from duly.domain.execution import Claimed, Finished, LogLine, WorkerId
from duly.domain.fairness import Ask
from duly.domain.instants import SECOND, Instant, Micros, from_rfc3339
from duly.domain.lifecycle import Outcome, State
from duly.domain.shards import shard_of
from duly.http.app import Api, Services, create_api
from duly.ports.keys import KeyRow
from duly.ports.store import Store, WorkerAbout
from duly.usecases import access as keys
from tests.api import services_on
from tests.services.databases import in_memory

START = from_rfc3339("2026-01-05T12:00:00Z")
ADMIN, OPERATOR, VIEWER, WORKER, STRANGER = (f"duly_{name}_key_for_tests" for name in ("admin", "operator", "viewer", "worker", "stranger"))
URL = "http://duly.test"


class HandClock:
    """Stands still until it is turned."""

    def __init__(self, at: Instant = START) -> None:
        self.at = at

    def now(self) -> Instant:
        return self.at

    def boottime(self) -> Micros:
        return self.at

    def turn(self, by: Micros) -> None:
        self.at += by


@dataclass
class NotedHints:
    """A transport that nobody listens to; it remembers what was announced. Waiting for it turns the clock."""

    clock: HandClock
    routes: list[int] = field(default_factory=list)
    due: list[Instant] = field(default_factory=list)
    cancels: int = 0

    async def announce(self, routes: Sequence[int]) -> None:
        self.routes.extend(routes)

    async def announce_due(self, at: Instant) -> None:
        self.due.append(at)

    async def announce_cancel(self) -> None:
        self.cancels += 1

    async def wait_cancel(self, timeout: float) -> bool:
        return await self.wait_ready(timeout)

    async def wait_ready(self, timeout: float) -> bool:
        await asyncio.sleep(0)
        self.clock.turn(round(timeout * SECOND))
        return False

    async def wait_flow(self, timeout: float) -> bool:
        return await self.wait_ready(timeout)

    async def wait_due(self, until: Instant, timeout: float) -> list[Instant]:
        return []

    async def close(self) -> None:
        return None


@dataclass
class Bench:
    """An API, and a client for each key."""

    api: Api
    services: Services
    store: Store
    clock: HandClock
    hints: NotedHints
    slept: list[float]
    is_away: list[Exception]
    worker: WorkerId = 0

    def client(self, key: str | None, app: Api | None = None) -> httpx.AsyncClient:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return httpx.AsyncClient(transport=httpx.ASGITransport(app or self.api), base_url=URL, headers=headers)

    async def job(self, **fields: object) -> str:
        """A fresh job's id."""
        answer = await self.client(ADMIN).post("/v1/jobs", json={"target": {"handler": "duly.echo"}, **fields})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["jobId"])

    async def enqueue(self, job: str, **fields: object) -> str:
        """A fresh execution's id."""
        answer = await self.client(ADMIN).post(f"/v1/jobs/{job}/executions", json=fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["executionId"])

    async def batch(self) -> str:
        """A fresh batch's id; it has done nothing."""
        answer = await self.client(ADMIN).post("/v1/executions:bulk", json={"action": "discard", "everything": True})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["batchId"])

    async def claim(self) -> Claimed:
        """Take everything that is ready, as a fresh worker would."""
        now = self.clock.now()
        self.worker = await self.store.liveness.register(
            "w1", WorkerAbout(pool="default", handlers=["duly.echo"], slots=4), now, 15 * SECOND
        )
        asks = [Ask(route.number, tenant, 100) for route in await self.store.ready.routes() for tenant in (1, 2)]
        claimed = await self.store.ready.claim(self.worker, asks, now)
        assert claimed is not None
        return claimed

    async def finish(
        self, claimed: Claimed, *, state: State = State.SUCCEEDED, result: str | None = None, error: str | None = None
    ) -> None:
        """Report the end of all that was claimed."""
        now = self.clock.now()
        outcome = Outcome.SUCCEEDED if state is State.SUCCEEDED else Outcome.FAILED
        versions = await self.store.definitions.versions(claimed.job_versions)
        ended = [
            Finished(run, claimed.lease, outcome, state, now, now, job, shard_of(job), holds, result=result, error=error)
            for run, job, holds in zip(claimed.ids, (versions[n].job_id for n in claimed.job_versions), claimed.holds_place, strict=True)
        ]
        assert not await self.store.outcomes.finish(self.worker, ended, [claimed.lease], now)

    async def log(self, claimed: Claimed, *messages: str) -> None:
        """Lines that the handler of the first claimed execution logs."""
        lines = [
            (claimed.lease, claimed.ids[0], claimed.attempts[0], LogLine(self.clock.now(), "INFO", text, {"n": 1})) for text in messages
        ]
        assert await self.store.outcomes.append_logs(self.worker, lines) == len(messages)


@pytest.fixture(params=("sqlite", "postgres"))
def store_kind(request: pytest.FixtureRequest) -> str:
    """Each kind of store in turn. A module whose tests hardly get to the store overrides it."""
    return str(request.param)


@pytest.fixture
async def bench(request: pytest.FixtureRequest, store_kind: str) -> AsyncIterator[Bench]:
    """Everything that an API test needs, fresh."""
    engine: Engine
    if store_kind == "postgres":
        engine = PostgresEngine(request.getfixturevalue("postgres_store"))
    else:
        engine = await in_memory(InlineSqliteEngine())
    store = store_on(engine)
    clock = HandClock()
    hints = NotedHints(clock)
    numbers = itertools.count(1)
    slept: list[float] = []
    is_away: list[Exception] = []

    def entropy(bits: int, /) -> int:
        return next(numbers) & ((1 << bits) - 1)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    async def ready() -> None:
        if is_away:
            raise is_away[0]
        await store.health.ping()

    for secret, role in ((ADMIN, Role.ADMIN), (OPERATOR, Role.OPERATOR), (VIEWER, Role.VIEWER), (WORKER, Role.WORKER)):
        await store.keys.add_key(key_row(secret, role, tenant=1))
    await engine.script("INSERT INTO tenants (tenant, name) VALUES (2, 'strangers');")
    if store_kind == "postgres":
        await engine.script("SELECT setval(pg_get_serial_sequence('tenants', 'tenant'), max(tenant)) FROM tenants;")
    await store.keys.add_key(key_row(STRANGER, Role.ADMIN, tenant=2))
    services = services_on(store, clock, entropy, hints, ready=ready, version="1.2.3")
    yield Bench(create_api(services, sleep=sleep, entropy=entropy, pages=pages()), services, store, clock, hints, slept, is_away)
    await engine.close()


@pytest.fixture
def admin(bench: Bench) -> httpx.AsyncClient:
    return bench.client(ADMIN)


def key_row(secret: str, role: Role, *, tenant: int, **more: Instant) -> KeyRow:
    """A key as the store keeps it."""
    return KeyRow(keys.key_id(secret), tenant, "", role.name, f"for tests: {role.name}", keys._hash(secret), START, **more)
