"""What a remote worker remembers between calls: the leases it has, the job versions it has seen, and the server's time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from duly.domain.execution import Claimed, Finished, LeaseId, Saved, WorkerId
from duly.domain.ids import ExecutionId, parse_execution_id
from duly.domain.instants import SECOND, Micros, from_rfc3339
from duly.domain.job import JobVersion
from duly.ports.clock import SettableClock
from duly.ports.store import WorkerAbout
from duly.wire.workers import LeaseView

MOST_VERSIONS = 100_000
SAMPLES = 8


class ServerTime:
    """Keeps our clock on the store's: of the last few answers the one that took least says how far it is away."""

    def __init__(self, clock: SettableClock) -> None:
        self.clock = clock
        self._samples: deque[tuple[Micros, Micros]] = deque(maxlen=SAMPLES)

    def note(self, asked: Micros, store_now: str) -> None:
        """An answer to what was asked at `asked` (boottime). The lowest possible offset: our clock is never ahead of the store's."""
        answered = self.clock.boottime()
        self._samples.append((answered - asked, from_rfc3339(store_now) - answered))
        self.clock.set_offset(min(self._samples)[1])


@dataclass(slots=True)
class Session:
    """One worker's life on the server, from its registration on."""

    worker: WorkerId = 0
    pool: str = "default"
    handlers: list[str] = field(default_factory=list)
    ttl: Micros = 15 * SECOND
    is_lost: bool = False
    held: dict[LeaseId, set[ExecutionId]] = field(default_factory=dict)
    versions: dict[int, JobVersion] = field(default_factory=dict)
    saved: dict[ExecutionId, Saved] = field(default_factory=dict)
    losses: dict[ExecutionId, int] = field(default_factory=dict)
    numbers: dict[ExecutionId, int] = field(default_factory=dict)

    def begin(self, worker: WorkerId, about: WorkerAbout, ttl: Micros) -> None:
        """A new life: nothing is held. What is known of job versions stays true."""
        self.worker, self.pool, self.handlers, self.ttl, self.is_lost = worker, about.pool, about.handlers, ttl, False
        self.held.clear()
        self.saved.clear()
        self.losses.clear()
        self.numbers.clear()

    def take(self, lease: LeaseView) -> Claimed:
        """An answered lease as the role knows it."""
        if len(self.versions) > MOST_VERSIONS:
            self.versions.clear()
        for number, definition in (lease.definitions or {}).items():
            if int(number) not in self.versions and (version := _version(definition)) is not None:
                self.versions[int(number)] = version
        runs = lease.executions
        ids = [parse_execution_id(run.execution_id) for run in runs]
        self.held[lease.lease_id] = set(ids)
        for id, run in zip(ids, runs, strict=True):
            self.numbers[id] = run.job_version
            if run.checkpoint is not None:
                self.saved[id] = Saved(run.checkpoint.number, msgspec.json.encode(run.checkpoint.data).decode(), None)
            if run.losses:
                self.losses[id] = run.losses
        return Claimed(
            lease=lease.lease_id,
            ids=ids,
            attempts=[run.attempt for run in runs],
            failures=[run.failures for run in runs],
            job_versions=[run.job_version for run in runs],
            due_ats=[from_rfc3339(run.due_at) for run in runs],
            # Places are given back by the server, which knows who holds one.
            holds_place=[False] * len(runs),
            payloads=[run.payload for run in runs],
            scheduled_ats=[from_rfc3339(run.scheduled_at) for run in runs],
            traces={nth: run.traceparent for nth, run in enumerate(runs) if run.traceparent is not None},
        )

    def version_of(self, item: Finished) -> JobVersion | None:
        """The version under which it ran."""
        number = self.numbers.get(item.id)
        return None if number is None else self.versions.get(number)

    def settled(self, finished: list[Finished]) -> None:
        """These were reported: a lease in which nothing is left is no longer ours to know."""
        for item in finished:
            self.numbers.pop(item.id, None)
            self.saved.pop(item.id, None)
            self.losses.pop(item.id, None)
            left = self.held.get(item.lease)
            if left is not None:
                left.discard(item.id)
                if not left:
                    del self.held[item.lease]


def _version(definition: object) -> JobVersion | None:
    """A definition as the server has it; None when a newer release wrote what this one cannot read."""
    try:
        return msgspec.convert(definition, JobVersion)
    except msgspec.ValidationError:
        return None
