"""Taking work and reporting it over HTTP.

The role asks which routes have work before it claims; the protocol has no word for that, because the server
looks itself. So the answer here is always "perhaps", and a claim is a long poll that goes on in the background:
the role waits for it as it waits for any hint, and finds the lease at its next step.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from duly.adapters.remote.connection import Server
from duly.adapters.remote.session import Session
from duly.domain.errors import Conflict, NotFound
from duly.domain.execution import Claimed, Finished, LeaseId, LogLine, Saved, WorkerId
from duly.domain.fairness import Ask, Work
from duly.domain.ids import ExecutionId, execution_text, parse_execution_id
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import JobVersion
from duly.domain.lifecycle import COSTS_AN_ATTEMPT, Outcome, State
from duly.ports.clock import Clock
from duly.ports.handlers import Places, Registry
from duly.ports.parents import Parent
from duly.ports.store import Route
from duly.wire.workers import (
    MOST_LEASED,
    CheckpointedView,
    CheckpointShape,
    End,
    FencedShape,
    LeaseShape,
    LeaseView,
    LineShape,
    LinesShape,
    OneProgressShape,
    ReportShape,
    ReportView,
    ResultShape,
    RoomShape,
)
from duly.wire.workflows import ParentsView

WAIT = 10.0
# A poll that is answered at once with nothing (the server is stopping) is not sent again at once.
PAUSE = 0.5
LARGEST_REPORT = 4 << 20
MOST_REPORTED = 500
# While a handler's places are all taken, it is asked for again soon: a poll names them as they are when it is sent.
BRIEFLY = 1.0
# The one route that there seems to be.
PERHAPS = 1


class RemoteReady:
    """Where a remote worker takes work, and how it waits for it: one long poll at a time."""

    def __init__(self, server: Server, session: Session, clock: Clock, registry: Registry) -> None:
        self._server = server
        self._session = session
        self._clock = clock
        self._registry = registry
        self._poll: asyncio.Task[Claimed | None] | None = None
        self._polls_for: WorkerId = 0
        # Whether its answer was told of: it stays until there is room for it.
        self._is_told = False

    async def routes(self) -> list[Route]:
        # It stands for all handlers, so not for one that has places of its own if there is another.
        offered = sorted(self._session.handlers, key=lambda name: self._registry.by_name[name].places is not None)
        return [Route(PERHAPS, self._session.pool, "", name) for name in offered[:1]]

    async def work(self, routes: Sequence[int], counted_to: int, *, roughly: bool = False) -> list[Work]:
        return [Work(route, 0, 1, 0, counted_to) for route in routes]

    async def claim(self, worker: WorkerId, asks: Sequence[Ask], now: Instant) -> Claimed | None:
        if self._session.is_lost or worker != self._session.worker:
            return None
        if self._polls_for != worker:
            await self.stop()
            self._polls_for = worker
        if self._poll is None:
            self._is_told = False
            self._poll = asyncio.create_task(self._ask(worker, sum(ask.quota for ask in asks)), name="duly-lease")
            return None
        if not self._poll.done():
            return None
        poll, self._poll = self._poll, None
        return poll.result()

    async def held_by(self, worker: WorkerId) -> list[Claimed]:
        """Nothing that the role does not know: every poll names what we have, and what else there is comes as its answer."""
        return []

    async def wait(self, timeout: float) -> bool:
        """Until the poll has an answer, at most `timeout` seconds. Each answer is told of once."""
        if self._poll is None or self._is_told:
            await asyncio.sleep(timeout)
            return False
        done, _ = await asyncio.wait({self._poll}, timeout=timeout)
        self._is_told = bool(done)
        return self._is_told

    async def stop(self) -> None:
        """Ask no more. What the server granted meanwhile it gives back when the worker retires."""
        poll, self._poll = self._poll, None
        if poll is not None:
            poll.cancel()
            await asyncio.gather(poll, return_exceptions=True)

    async def _ask(self, worker: WorkerId, most: int) -> Claimed | None:
        asked = self._clock.boottime()
        rooms = self._rooms()
        wait = BRIEFLY if any(room.max == 0 for room in rooms) else WAIT
        shape = LeaseShape(max=min(most, MOST_LEASED), wait_sec=wait, known=sorted(self._session.held), definitions=True, rooms=rooms)
        try:
            lease = await self._server.post(f"/v1/workers/{worker}/lease", shape, LeaseView, wait=wait)
        except NotFound:
            self._session.is_lost = True
            return None
        if lease is not None:
            return self._session.take(lease)
        if self._clock.boottime() - asked < SECOND:
            await asyncio.sleep(PAUSE)
        return None

    def _rooms(self) -> list[RoomShape]:
        """Handlers that need more than a slot, by the places that they share."""
        shared: dict[int, tuple[Places, list[str]]] = {}
        for name in self._session.handlers:
            if (places := self._registry.by_name[name].places) is not None:
                shared.setdefault(id(places), (places, []))[1].append(name)
        return [RoomShape(handlers=names, max=min(places.free, MOST_LEASED)) for places, names in shared.values()]


class RemoteVersions:
    """Job versions come with the leases that need them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def versions(self, numbers: Sequence[int]) -> dict[int, JobVersion]:
        known = self._session.versions
        return {number: known[number] for number in numbers if number in known}


class RemoteOutcomes:
    """Where a remote worker reports."""

    def __init__(self, server: Server, session: Session, clock: Clock) -> None:
        self._server = server
        self._session = session
        self._clock = clock

    async def finish(self, worker: WorkerId, finished: Sequence[Finished], closing: Sequence[LeaseId], now: Instant) -> set[ExecutionId]:
        refused: set[ExecutionId] = set()
        for part in _parts(finished):
            told = await self._report(
                worker, ReportShape(results=[_result(item, self._session.version_of(item), self._clock.now()) for item in part])
            )
            if told is None:
                refused |= {item.id for item in part}
            else:
                refused |= {parse_execution_id(result.execution_id) for result in told.results if result.code is not None}
            self._session.settled(part)
        return refused

    async def append_logs(self, worker: WorkerId, lines: Sequence[tuple[LeaseId, ExecutionId, int, LogLine]]) -> int:
        now = self._clock.now()
        by_attempt: dict[tuple[LeaseId, ExecutionId], list[LineShape]] = defaultdict(list)
        for lease, id, _, line in lines:
            by_attempt[lease, id].append(
                LineShape(message=line.message, level=line.level, fields=line.fields, ago_sec=_seconds(now - line.at))
            )
        logs = [LinesShape(execution_id=execution_text(id), fence=lease, lines=some) for (lease, id), some in by_attempt.items()]
        kept = 0
        for start in range(0, len(logs), MOST_LEASED):
            told = await self._report(worker, ReportShape(logs=logs[start : start + MOST_LEASED]))
            kept += 0 if told is None else told.lines_kept
        return kept

    async def losses(self, id: ExecutionId) -> int:
        return self._session.losses.get(id, 0)

    async def _report(self, worker: WorkerId, shape: ReportShape) -> ReportView | None:
        """None when the server does not know the worker any more: everything is refused."""
        with contextlib.suppress(NotFound):
            return await self._server.post(f"/v1/workers/{worker}/report", shape, ReportView)
        return None


class RemoteCheckpoints:
    """What an execution keeps over its attempts."""

    def __init__(self, server: Server, session: Session) -> None:
        self._server = server
        self._session = session

    async def save(self, worker: WorkerId, lease: LeaseId, id: ExecutionId, number: int, data: str, now: Instant) -> bool:
        shape = CheckpointShape(worker_id=str(worker), fence=lease, number=number, data=msgspec.Raw(data.encode()))
        try:
            await self._server.post(f"/v1/executions/{execution_text(id)}/checkpoint", shape, CheckpointedView)
        except (Conflict, NotFound):
            return False
        return True

    async def report(self, worker: WorkerId, reports: Sequence[tuple[LeaseId, ExecutionId, str]], now: Instant) -> int:
        told = [
            OneProgressShape(execution_id=execution_text(id), fence=lease, progress=msgspec.Raw(progress.encode()))
            for lease, id, progress in reports
        ]
        kept = 0
        for start in range(0, len(told), MOST_LEASED):
            part = told[start : start + MOST_LEASED]
            with contextlib.suppress(NotFound):
                await self._server.post(f"/v1/workers/{worker}/report", ReportShape(progress=part), ReportView)
                kept += len(part)
        return kept

    async def saved(self, ids: Sequence[ExecutionId]) -> dict[ExecutionId, Saved]:
        known = self._session.saved
        return {id: known[id] for id in ids if id in known}


class RemoteParents:
    """What the steps before a step came to."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def results(self, worker: WorkerId, lease: LeaseId, id: ExecutionId) -> list[Parent]:
        shape = FencedShape(worker_id=str(worker), fence=lease)
        view = await self._server.post(f"/v1/executions/{execution_text(id)}/parents", shape, ParentsView)
        found = () if view is None else view.parents
        return [Parent(one.name, parse_execution_id(one.execution_id), msgspec.json.encode(one.result).decode()) for one in found]


def _parts(finished: Sequence[Finished]) -> Iterator[list[Finished]]:
    """In pieces that the server takes: by number, and by the size of what they carry."""
    part: list[Finished] = []
    size = 0
    for item in finished:
        weight = len(item.result or "") + len(item.error or "")
        if part and (len(part) == MOST_REPORTED or size + weight > LARGEST_REPORT):
            yield part
            part, size = [], 0
        part.append(item)
        size += weight
    if part:
        yield part


def _result(item: Finished, version: JobVersion | None, now: Instant) -> ResultShape:
    again = item.state is State.SCHEDULED
    wait: Micros | None = None
    if again and item.retry_at is not None:
        wait = item.retry_at - (item.finished_at if item.outcome in COSTS_AN_ATTEMPT else now)
    return ResultShape(
        execution_id=execution_text(item.id),
        fence=item.lease,
        outcome=End[item.outcome.name],
        result=msgspec.UNSET if item.result is None else msgspec.Raw(item.result.encode()),
        error=None if item.error is None else msgspec.json.decode(item.error),
        kinds=_kinds(item, version),
        retry=again,
        # A release that keeps its place in the queue is due since long.
        retry_after_sec=None if wait is None or (wait <= 0 and item.outcome is Outcome.RELEASED) else _seconds(wait),
        took_sec=_seconds(item.finished_at - item.started_at),
        ago_sec=_seconds(now - item.finished_at),
    )


def _kinds(item: Finished, version: JobVersion | None) -> list[str]:
    """What to try again was decided here, by all the names of the error. The server knows one of them, so it is given the rule
    that allows most attempts: it must not be stricter than we were."""
    if version is None or item.state is not State.SCHEDULED or item.outcome not in COSTS_AN_ATTEMPT:
        return []
    rules = [rule for rule in version.spec.retry.rules if rule.retry and rule.max_attempts is not None]
    return [max(rules, key=lambda rule: rule.max_attempts or 0).error] if rules else []


def _seconds(micros: Micros) -> float:
    return max(micros, 0) / SECOND
