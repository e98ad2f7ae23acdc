"""The worker role over HTTP: the same handlers, the same fences, with a real server in between."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from duly.adapters.remote.liveness import RemoteStore, open_remote
from duly.adapters.sql.bell import Bell
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine
from duly.adapters.sql.migrate import upgrade
from duly.adapters.sql.store import store_on
from duly.adapters.system.clock import SystemClock
from duly.domain.access import Actor, Role
from duly.domain.errors import Forbidden, Unavailable
from duly.domain.execution import Execution
from duly.domain.ids import ExecutionId
from duly.domain.instants import SECOND
from duly.domain.job import Job
from duly.domain.lifecycle import Outcome, State
from duly.http.app import create_api
from duly.http.server import ApiServer
from duly.http.services import Services
from duly.ports.endings import Died, Failure, Snooze
from duly.ports.handlers import Attempt, Handler, Registry
from duly.ports.store import Store, WorkerAbout
from duly.roles.heartbeat import Heartbeat, HeartbeatSettings
from duly.roles.worker import Worker, WorkerSettings
from duly.usecases.access import Keyring
from duly.usecases.executions import Executions, Wanted
from duly.usecases.jobs import Jobs
from duly.wire.jobs import JobShape
from tests.api import services_on

ADMIN = Actor(1, "default", Role.ADMIN, "test")
LIFE = HeartbeatSettings()


@dataclass
class Site:
    """A server on a store in memory, and remote workers of it."""

    store: Store
    jobs: Jobs
    executions: Executions
    services: Services
    key: str
    clock: SystemClock
    server: ApiServer | None = None
    port: int = 0
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _serving: asyncio.Task[None] | None = None
    registry: Registry = field(default_factory=Registry)
    remotes: list[RemoteStore] = field(default_factory=list)

    async def open(self) -> None:
        """Listen, where it listened before if it did."""
        self._stop = asyncio.Event()
        self.server = ApiServer(create_api(self.services), port=self.port, grace=1)
        self._serving = asyncio.create_task(self.server.serve_until(self._stop))
        await self.server.listening()
        self.port = self.server.port

    async def shut(self) -> None:
        self._stop.set()
        if self._serving is not None:
            await self._serving

    def handle(self, name: str, run: Callable[[Attempt], Awaitable[Any]]) -> None:
        self.registry.add(Handler(name, run))  # type: ignore[arg-type]

    async def create(self, **shape: Any) -> Job:
        body = {"name": "job", "target": {"handler": "work"}, "retryPolicy": {"initialDelayMs": 60_000, "jitter": 0}} | shape
        return (await self.jobs.create(ADMIN, [msgspec.json.decode(msgspec.json.encode(body), type=JobShape)]))[0]

    async def enqueue(self, job: Job, count: int = 1, payload: str | None = None) -> list[ExecutionId]:
        return [made.id for made in await self.executions.enqueue_for(job, [Wanted(payload=payload)] * count)]

    async def show(self, id: ExecutionId) -> Execution:
        return await self.executions.show(ADMIN, id)

    async def outcomes(self, id: ExecutionId) -> list[Outcome | None]:
        return [attempt.outcome for attempt in await self.executions.attempts(ADMIN, id)]

    def remote(self, key: str | None = None) -> RemoteStore:
        found = open_remote(f"http://127.0.0.1:{self.port}", key or self.key, SystemClock(), self.registry, agent="tests")
        self.remotes.append(found)
        return found

    async def worker(self, **settings: Any) -> tuple[Worker, RemoteStore]:
        remote = self.remote()
        clock = remote.time.clock
        asked = clock.boottime()
        number = await remote.liveness.register("w", WorkerAbout("default", handlers=self.registry.names(), slots=10), 0, LIFE.ttl)
        worker = Worker(
            WorkerSettings(name="w", slots=10, **settings),
            Heartbeat(number, clock, LIFE, asked),
            remote.ready,
            remote.outcomes,
            remote.definitions,
            remote.checkpoints,
            self.registry,
            clock,
            random.Random(7).getrandbits,
        )
        return worker, remote


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    engine = InlineSqliteEngine()
    await upgrade(engine)
    store, clock, bell, entropy = store_on(engine), SystemClock(), Bell(), random.Random(5).getrandbits
    services = services_on(store, clock, entropy, bell)
    _, key = await services.keyring.create(ADMIN, Role.WORKER, "tests")
    made = Site(store, services.jobs, services.executions, services, key, clock)
    await made.open()
    yield made
    for remote in made.remotes:
        await remote.close()
    await made.shut()
    await store.health.close()


async def step_until(worker: Worker, remote: RemoteStore, true: Callable[[], Awaitable[bool]]) -> None:
    """Step the worker as its loop does, until it is so."""
    async with asyncio.timeout(20):
        while not await true():
            step = await worker.step(remote.time.clock.now())
            if step.wait and not worker.wake.is_set():
                await remote.transport.wait_ready(0.05)
            await asyncio.sleep(0)


def ended(site: Site, *ids: ExecutionId) -> Callable[[], Awaitable[bool]]:
    """Nothing of them runs or waits to be run any more."""

    async def look() -> bool:
        states = [(await site.show(id)).state for id in ids]
        return all(state not in (State.PENDING, State.RUNNING) for state in states)

    return look


async def test_a_worker_over_http_says_how_far_its_clock_is_off(site: Site) -> None:
    remote = site.remote()
    number = await remote.liveness.register("w", WorkerAbout("default", handlers=["work"], slots=1, skew=1_500_000), 0, LIFE.ttl)
    (first,) = await site.store.insights.workers(site.clock.now())

    await remote.liveness.renew(number, 0, LIFE.ttl, -2_500_000)
    (second,) = await site.store.insights.workers(site.clock.now())

    assert (first.about.skew, second.about.skew) == (1_500_000, -2_500_000)


async def test_work_is_taken_run_and_reported(site: Site) -> None:
    async def work(attempt: Attempt) -> Any:
        attempt.log("info", "working", {"n": attempt.payload["n"]})
        return {"got": attempt.payload, "key": attempt.idempotency_key, "fence": attempt.fence}

    site.handle("work", work)
    runs = await site.enqueue(await site.create(), 25, '{"n":1}')
    worker, remote = await site.worker()

    await step_until(worker, remote, ended(site, *runs))

    shown = [await site.show(run) for run in runs]
    assert {execution.state for execution in shown} == {State.SUCCEEDED}
    result = msgspec.json.decode(shown[0].result or "")
    assert result["got"] == {"n": 1}
    assert result["key"].startswith("default/job/run_")
    assert [line.message for _, _, line in await site.executions.logs(ADMIN, runs[0], None, 0, 10)] == ["working"]
    assert not remote.ready._session.held, "it believes to hold what it has reported"


async def test_the_jobs_own_policies_hold_over_http(site: Site) -> None:
    async def work(attempt: Attempt) -> Any:
        match attempt.payload:
            case "plain":
                raise ValueError("no")
            case "later":
                raise Failure("busy", retry_after=3600 * SECOND)
            case "never":
                raise Failure("no use", retry=False)
            case "snooze":
                raise Snooze("5m")
            case _:
                raise Died("exited with status 1")

    site.handle("work", work)
    job = await site.create()
    runs = {word: (await site.enqueue(job, payload=f'"{word}"'))[0] for word in ("plain", "later", "never", "snooze", "died")}
    worker, remote = await site.worker()

    await step_until(worker, remote, ended(site, *runs.values()))

    waits = {}
    for word, run in runs.items():
        execution = await site.show(run)
        waits[word] = None if execution.next_attempt_at is None else round((execution.next_attempt_at - site.clock.now()) / SECOND, -1)
    assert waits == {"plain": 60, "later": 3600, "never": None, "snooze": 300, "died": 0}
    assert (await site.show(runs["never"])).state is State.DEAD
    assert {word: (await site.outcomes(run))[0] for word, run in runs.items()} == {
        "plain": Outcome.FAILED,
        "later": Outcome.FAILED,
        "never": Outcome.FAILED,
        "snooze": Outcome.RELEASED,
        "died": Outcome.WORKER_LOST,
    }
    assert worker.refused == 0
    error = msgspec.json.decode((await site.show(runs["plain"])).error or "")
    assert (error["type"], error["message"]) == ("ValueError", "no")
    assert "exited with status 1" in ((await site.show(runs["died"])).error or "")


async def test_a_rule_of_a_base_class_may_allow_more_attempts_than_the_policy(site: Site) -> None:
    async def work(attempt: Attempt) -> Any:
        raise ConnectionResetError("gone")

    site.handle("work", work)
    rules = [{"error": "OSError", "maxAttempts": 5}]
    job = await site.create(retryPolicy={"maxAttempts": 1, "initialDelayMs": 60_000, "rules": rules})
    [run] = await site.enqueue(job)
    worker, remote = await site.worker()

    await step_until(worker, remote, ended(site, run))

    assert (await site.show(run)).state is State.SCHEDULED


async def test_a_server_that_is_restarted_is_told_what_ended_meanwhile(site: Site) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def work(attempt: Attempt) -> Any:
        begun.set()
        await may_end.wait()
        return "kept"

    site.handle("work", work)
    [run] = await site.enqueue(await site.create())
    worker, remote = await site.worker()

    async def running() -> bool:
        return begun.is_set()

    await step_until(worker, remote, running)
    await site.shut()
    may_end.set()
    with pytest.raises(Unavailable):
        await step_until(worker, remote, ended(site, run))
    await site.open()

    async def told() -> bool:
        with contextlib.suppress(Unavailable):
            await worker.step(remote.time.clock.now())
        return (await site.show(run)).state is State.SUCCEEDED

    async with asyncio.timeout(20):
        while not await told():
            await asyncio.sleep(0.01)
    assert await site.outcomes(run) == [Outcome.SUCCEEDED]


async def test_a_cancel_is_heard_without_waiting_for_the_next_heartbeat(site: Site) -> None:
    begun = asyncio.Event()

    async def work(attempt: Attempt) -> Any:
        begun.set()
        await asyncio.Event().wait()

    site.handle("work", work)
    [run] = await site.enqueue(await site.create())
    worker, remote = await site.worker()

    async def running() -> bool:
        return begun.is_set()

    await step_until(worker, remote, running)
    listening = asyncio.create_task(remote.transport.wait_cancel(60.0))
    await asyncio.sleep(0)
    await site.executions.cancel(ADMIN, run)

    async with asyncio.timeout(30):
        assert await listening
    assert await worker.heartbeat.beat(remote.liveness)
    await step_until(worker, remote, ended(site, run))
    assert (await site.show(run)).state is State.CANCELLED


async def test_a_lost_worker_stops_and_its_results_are_refused(site: Site) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def work(attempt: Attempt) -> Any:
        begun.set()
        await may_end.wait()
        return "too late"

    site.handle("work", work)
    [run] = await site.enqueue(await site.create())
    worker, remote = await site.worker()

    async def running() -> bool:
        return begun.is_set()

    await step_until(worker, remote, running)
    await site.store.liveness.retire(worker.heartbeat.worker, site.clock.now())
    from duly.domain import decide

    await site.store.losses.lose(lambda lost, version: decide.after_loss(lost, version.spec.retry, site.clock.now()), site.clock.now(), 10)
    may_end.set()

    async def reported() -> bool:
        return worker.refused == 1

    await step_until(worker, remote, reported)
    assert await site.outcomes(run) == [Outcome.WORKER_LOST]
    assert not await worker.heartbeat.beat(remote.liveness)
    assert await remote.ready.claim(worker.heartbeat.worker, [], 0) is None


async def test_who_retires_gives_back_what_a_poll_brought_too_late(site: Site) -> None:
    async def work(attempt: Attempt) -> Any:
        return None

    site.handle("work", work)
    worker, remote = await site.worker()
    await worker.step(remote.time.clock.now())
    [run] = await site.enqueue(await site.create())
    async with asyncio.timeout(30):
        while not await remote.transport.wait_ready(0.1):
            pass
    assert (await site.show(run)).state is State.RUNNING

    await remote.liveness.retire(worker.heartbeat.worker, 0)

    assert await site.outcomes(run) == [Outcome.RELEASED]


async def test_a_key_that_is_refused_is_said_at_the_start_and_waited_for_later(site: Site) -> None:
    keyring = Keyring(site.store.keys, site.clock, random.Random(9).getrandbits)
    _, viewer = await keyring.create(ADMIN, Role.VIEWER, "reader")

    with pytest.raises(Forbidden) as unknown:
        await site.remote("duly_nobody_knows_it").probe()
    with pytest.raises(Forbidden) as reader:
        await site.remote(viewer).probe()
    await site.remote().probe()

    assert (unknown.value.code, reader.value.code) == ("DULY-E302", "DULY-E303")
    with pytest.raises(Unavailable):
        await site.remote(viewer).liveness.register("w", WorkerAbout("default", handlers=["h"]), 0, LIFE.ttl)


async def test_a_server_that_speaks_no_sense_is_away(site: Site) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" if answers.pop() else b"SSH-2.0-OpenSSH\r\n")
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    answers = [False, True]
    impostor = await asyncio.start_server(answer, "127.0.0.1", 0)
    remote = open_remote(f"http://127.0.0.1:{impostor.sockets[0].getsockname()[1]}", site.key, SystemClock(), site.registry, agent="tests")
    site.remotes.append(remote)

    for _ in range(2):
        with pytest.raises(Unavailable) as away:
            await remote.liveness.renew(1, 0, LIFE.ttl)
        assert away.value.code == "DULY-E603"
    impostor.close()
    await impostor.wait_closed()


async def test_the_clock_is_put_on_the_servers(site: Site) -> None:
    remote = site.remote()
    clock = remote.time.clock
    clock.set_offset(clock.now() - clock.boottime() + 3600 * SECOND)

    await remote.liveness.register("w", WorkerAbout("default", handlers=["h"], slots=1), 0, LIFE.ttl)

    assert -SECOND < clock.now() - site.clock.now() <= 0, "a worker's clock is never ahead of the store's"


class Pool:
    """Two places that handlers share."""

    def __init__(self) -> None:
        self.wanted = 0
        self.go_on = asyncio.Event()

    @property
    def free(self) -> int:
        return max(2 - self.wanted, 0)

    async def run(self, attempt: Attempt) -> None:
        self.wanted += 1
        try:
            await self.go_on.wait()
        finally:
            self.wanted -= 1


async def test_who_could_only_wait_for_a_place_is_left_to_other_workers(site: Site) -> None:
    """In whatever order the handlers come: those with places are bounded by them, the others are not."""
    pool = Pool()
    for name in ("a-heavy", "z-heavy"):
        site.registry.add(Handler(name, pool.run, places=pool))
    site.handle("quick", lambda attempt: asyncio.sleep(0))
    heavy = [id for name in ("a-heavy", "z-heavy") for id in await site.enqueue(await site.create(name=name, target={"handler": name}), 10)]
    quick = await site.enqueue(await site.create(name="quick", target={"handler": "quick"}), 8)
    worker, remote = await site.worker()

    async def count(ids: list[ExecutionId], state: State) -> int:
        return [(await site.show(id)).state for id in ids].count(state)

    async def the_quick_are_done() -> bool:
        return await count(quick, State.SUCCEEDED) == 8

    await step_until(worker, remote, the_quick_are_done)

    assert await count(heavy, State.RUNNING) == 2
    assert await count(heavy, State.PENDING) == 18

    async def all_are_done() -> bool:
        return await count(heavy, State.SUCCEEDED) == 20

    pool.go_on.set()
    await step_until(worker, remote, all_are_done)


async def test_an_answer_that_there_is_no_room_for_is_told_of_once(site: Site) -> None:
    async def work(attempt: Attempt) -> None:
        return None

    site.handle("work", work)
    worker, remote = await site.worker()
    (run,) = await site.enqueue(await site.create())
    await worker.take(remote.time.clock.now())
    assert await remote.transport.wait_ready(5.0)

    # As long as too much waits to be reported nothing is taken in: whoever waits until then must not turn in a circle.
    assert not await remote.transport.wait_ready(0.05)

    await step_until(worker, remote, ended(site, run))
    assert (await site.show(run)).state is State.SUCCEEDED
