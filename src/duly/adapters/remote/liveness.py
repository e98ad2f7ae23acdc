"""A remote worker's life, and its way to the server as a whole."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from duly.adapters.remote.connection import Server
from duly.adapters.remote.session import ServerTime, Session
from duly.adapters.remote.work import WAIT, RemoteCheckpoints, RemoteOutcomes, RemoteParents, RemoteReady, RemoteVersions
from duly.domain.errors import DulyError, Forbidden, NotFound, Unavailable
from duly.domain.execution import Stop, WorkerId
from duly.domain.ids import parse_execution_id
from duly.domain.instants import SECOND, Instant, Micros
from duly.ports.clock import SettableClock
from duly.ports.handlers import Registry
from duly.ports.store import Liveness, WorkerAbout
from duly.wire.workers import DrainShape, DrainView, HeartbeatShape, HeartbeatView, RegisteredView, RegisterShape

PAUSE_AFTER_FAULT = 5.0
# What a server says of a key that it does not take.
REFUSED = ("DULY-E301", "DULY-E302", "DULY-E303")


class RemoteLiveness:
    """Registers, beats and retires over HTTP; every answer puts our clock right."""

    def __init__(self, server: Server, time: ServerTime, session: Session | None = None) -> None:
        self._server = server
        self._time = time
        self._session = session

    async def register(
        self, name: str, about: WorkerAbout, now: Instant, ttl: Micros, tenant: int | None = None, family: str | None = None
    ) -> WorkerId:
        shape = RegisterShape(
            name=name,
            handlers=about.handlers,
            pool=about.pool,
            labels=about.labels,
            slots=about.slots,
            host=about.host,
            pid=about.pid,
            version=about.version,
            ttl_sec=ttl / SECOND,
            clock_skew_ms=_millis(about.skew),
        )
        asked = self._time.clock.boottime()
        answer = await self._server.post("/v1/workers", shape, RegisteredView)
        assert answer is not None
        self._time.note(asked, answer.store_now)
        worker = int(answer.worker_id)
        if self._session is not None:
            self._session.begin(worker, about, ttl)
        return worker

    async def renew(self, worker: WorkerId, now: Instant, ttl: Micros, skew: Micros | None = None) -> list[Stop] | None:
        asked = self._time.clock.boottime()
        try:
            shape = HeartbeatShape(ttl_sec=ttl / SECOND, clock_skew_ms=_millis(skew))
            answer = await self._server.post(f"/v1/workers/{worker}/heartbeat", shape, HeartbeatView, timeout=ttl / SECOND / 3)
        except NotFound:
            return None
        assert answer is not None
        self._time.note(asked, answer.store_now)
        here = self._time.clock.now()
        return [
            Stop(parse_execution_id(stop.execution_id), None if stop.kill_in_sec is None else here + round(stop.kill_in_sec * SECOND))
            for stop in answer.stop
        ]

    async def drain(self, worker: WorkerId) -> None:
        with contextlib.suppress(NotFound):
            await self._server.post(f"/v1/workers/{worker}/drain", DrainShape(), DrainView)

    async def retire(self, worker: WorkerId, now: Instant) -> None:
        with contextlib.suppress(NotFound):
            await self._server.post(f"/v1/workers/{worker}/drain", DrainShape(retire=True), DrainView)


def _millis(skew: Micros | None) -> float | None:
    return None if skew is None else skew / 1000


class RemoteTransport:
    """What a remote worker waits for: the answer of its long poll. It announces nothing."""

    def __init__(self, server: Server, session: Session, ready: RemoteReady) -> None:
        self._server = server
        self._session = session
        self._ready = ready
        self._heard: list[str] = []

    async def announce(self, routes: Sequence[int]) -> None:
        return None

    async def announce_due(self, at: Instant) -> None:
        return None

    async def announce_cancel(self) -> None:
        return None

    async def wait_ready(self, timeout: float) -> bool:
        return await self._ready.wait(timeout)

    async def wait_cancel(self, timeout: float) -> bool:
        """A heartbeat whose answer waits for a stop. It adds nothing to our trust; the heartbeat's own thread sees to that."""
        wait, worker = min(timeout, WAIT), self._session.worker
        try:
            shape = HeartbeatShape(ttl_sec=self._session.ttl / SECOND, wait_sec=wait, heard=self._heard)
            answer = await self._server.post(f"/v1/workers/{worker}/heartbeat", shape, HeartbeatView, wait=wait)
        except DulyError:
            # The heartbeat says what there is to say about it.
            await asyncio.sleep(PAUSE_AFTER_FAULT)
            return False
        before, self._heard = self._heard, [] if answer is None else [stop.execution_id for stop in answer.stop]
        return bool(set(self._heard) - set(before))

    async def wait_due(self, until: Instant, timeout: float) -> list[Instant]:
        await asyncio.sleep(timeout)
        return []

    async def wait_flow(self, timeout: float) -> bool:
        await asyncio.sleep(timeout)
        return False

    async def wait_scheduled(self, timeout: float) -> bool:
        await asyncio.sleep(timeout)
        return False

    async def close(self) -> None:
        await self._ready.stop()


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """The ports that a worker needs, all over HTTP with one key."""

    server: Server
    ready: RemoteReady
    outcomes: RemoteOutcomes
    checkpoints: RemoteCheckpoints
    parents: RemoteParents
    definitions: RemoteVersions
    liveness: RemoteLiveness
    transport: RemoteTransport
    time: ServerTime

    async def probe(self) -> None:
        """Ask for a worker that there cannot be: a server that takes our key says that there is none. Raises what else it says,
        and Forbidden for a key that is refused."""
        try:
            await self.server.post("/v1/workers/0/heartbeat", HeartbeatShape(), HeartbeatView)
        except NotFound as error:
            if error.code != "DULY-E221":
                raise
        except Unavailable as error:
            if error.code in REFUSED:
                raise Forbidden(error.code, error.message, field="DULY_KEY", hint=error.hint) from error
            raise

    async def close(self) -> None:
        """Ask no more, and let the connections go."""
        await self.transport.close()
        await self.server.close()


def open_remote(url: str, key: str, clock: SettableClock, registry: Registry, *, agent: str) -> RemoteStore:
    """The way to a server, for a worker with these handlers. Nothing is sent yet."""
    server, session, time = Server(url, key, agent=agent), Session(), ServerTime(clock)
    ready = RemoteReady(server, session, clock, registry)
    return RemoteStore(
        server=server,
        ready=ready,
        outcomes=RemoteOutcomes(server, session, clock),
        checkpoints=RemoteCheckpoints(server, session),
        parents=RemoteParents(server),
        definitions=RemoteVersions(session),
        liveness=RemoteLiveness(server, time, session),
        transport=RemoteTransport(server, session, ready),
        time=time,
    )


def remote_liveness_opener(
    url: str, key: str, time: ServerTime, *, agent: str
) -> Callable[[], Awaitable[tuple[Liveness, Callable[[], Awaitable[None]]]]]:
    """The heartbeat's own way to the server, for its own event loop."""

    async def open_liveness() -> tuple[Liveness, Callable[[], Awaitable[None]]]:
        server = Server(url, key, agent=agent)
        return RemoteLiveness(server, time), server.close

    return open_liveness
