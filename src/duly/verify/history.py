"""What happened, from four sources that do not trust one another; the checker joins them.

    calls     C   the clients: what was asked, when, and what came back (the driver's clock)
    events    S   the store: every change of its tables, written in the same transaction by `recording` (the store's clock)
    effects   E   the handlers: what they really did, written outside of Duly (the driver's clock)
    faults    N   the nemesis: what was broken, from when to when (the driver's clock)

In tests and in `duly verify` all run on one host, so the clocks are one unless a fault says otherwise. Instants are
microseconds since 1970 UTC. Ids are the public ones: `job_…` and `run_…`. A fence is a lease's number.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

SECOND = 1_000_000

Status = Literal["ok", "fail", "info"]
"""ok: it was done. fail: it was not. info: nobody knows (the answer was lost)."""


class Call(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One request of a client.

    Operations and what `body` and `answer` hold: `job.create`, `job.update` (the job as it was sent; the job as it was answered),
    `job.pause`, `job.resume`, `job.delete`, `run.enqueue` (`delaySec`, `runAt`, `count`), `run.cancel`, `run.read`, `job.read`.
    """

    op: str
    status: Status
    invoked_at: int
    ended_at: int
    client: str = ""
    tenant: str = "default"
    job: str | None = None
    runs: list[str] = []
    key: str | None = None
    body: dict[str, Any] = {}
    answer: dict[str, Any] = {}


class Event(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One change in the store. `actor` is the node that wrote it, where the store can tell.

    The kinds, with what stands in `data`:

        job.created       name, state, version
        job.changed       state, version, pausedAt, pausedUntil
        version.created   version, maxAttempts                                (`versionId` numbers it for fires)
        schedule.set      next, paused
        schedule.advanced from, to, paused, versionId, owner                  (shard, epoch and owner as they stand in this transaction)
        schedule.removed
        shard.taken       owner, before                                       (shard, epoch)
        fire.created      trigger, nominal, due, skip, versionId, holdsPlace  (every execution, whatever made it)
        run.scheduled     due                                                 (attempt; waits for a time)
        timer.changed     due                                                 (attempt; still waits, for another time)
        run.ready         rank                                                (attempt; waits for a worker)
        run.blocked       reason                                              (attempt; waits for a place or a limit)
        block.changed     reason                                              (attempt; still waits, for something else)
        lease.granted     granted                                             (run, attempt, fence, worker)
        attempt.ended     outcome, retryAt                                    (unsuccessful ones; attempt, fence, worker)
        attempt.changed   outcome, retryAt                                    (the same attempt, after somebody hastened its retry)
        run.ended         state                                               (attempt, fence, worker; fence None: no worker wrote it)
        worker.registered / worker.renewed   expires
        worker.lost
        cancel.asked      by
        checkpoint.saved  number                                              (attempt)
        place.taken / place.left
        slot.taken / slot.left               gate, until
        slot.changed      gate, until                                         (a rate's slot: from when on it is free again)

    Codes are the store's (`duly.domain.lifecycle`): a checker that asked the product for their names would trust it too far,
    so it has its own table of them. Events of one transaction may stand in any order among themselves; between writers
    that touch the same row, the order is that of their commits.
    """

    seq: int
    at: int
    kind: str
    actor: str | None = None
    tenant: int | None = None
    job: str | None = None
    run: str | None = None
    attempt: int | None = None
    fence: int | None = None
    worker: int | None = None
    shard: int | None = None
    epoch: int | None = None
    data: dict[str, Any] = {}


Phase = Literal["start", "end", "effect"]


class Effect(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a handler did. `effect` is a write to the fenced sink, which keeps the highest fence per run and refuses lower ones."""

    phase: Phase
    at: int
    job: str
    run: str
    attempt: int
    fence: int
    nominal: int
    node: str = ""
    pid: int = 0
    accepted: bool | None = None
    checkpoint: int | None = None


class Refusal(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A write that the store refused because its fence or its epoch was no longer current, as its writer was told."""

    at: int
    what: str
    actor: str = ""
    run: str | None = None
    fence: int | None = None
    count: int = 1


class Fault(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Something was broken, here, from then to then. `until` is None while it lasts: a history with an open fault cannot be judged.

    One whose `about` says `harmless` may delay nothing, so it excuses nothing.
    """

    kind: str
    since: int
    until: int | None = None
    nodes: list[str] = []
    about: dict[str, Any] = {}


class Stands(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where an execution stood in the final read."""

    run: str
    job: str
    state: str
    attempt: int = 0
    nominal: int = 0


class Final(msgspec.Struct, kw_only=True):
    """What a client read at the end, when everything was healed and quiet: all jobs that are there, all executions, the counters."""

    at: int
    jobs: list[str] = []
    executions: list[Stands] = []
    counts: dict[str, int] = {}


class Timing(msgspec.Struct, kw_only=True, frozen=True):
    """The parameters that the bounds follow from, in microseconds."""

    lease_ttl: int = 15 * SECOND
    heartbeat: int = 5 * SECOND
    margin: int = 2 * SECOND
    sweep: int = 3 * SECOND
    poll: int = SECOND
    leader_ttl: int = 6 * SECOND
    restart: int = 5 * SECOND
    forgiveness: int = SECOND
    # How exact the store's clock is: SQLite counts milliseconds.
    store_clock: int = 0

    @property
    def recovery(self) -> int:
        """R: how long after the last fault has healed everything that was due must have started."""
        return self.lease_ttl + self.sweep + self.poll + self.leader_ttl + self.restart


class History(msgspec.Struct, kw_only=True):
    """Everything that is known about one run. `about` names the store, the versions and the seed.

    What the checker reads in `about`, all of it optional:

        skew          how far the clocks of nodes and handlers may be from the store's, in microseconds; nothing without it
        epsilon       how late a start may be in calm times, in microseconds; two seconds more than a poll without it
        slots         how many handlers can run at once: while all are busy, nobody is late
        owners        the node of each dispatcher, by the name under which it owns shards
        dispatchers   the nodes that run one: from the only one nobody can take over
        hints         which faults of hints were injected, and how often; `indexDiffers`: what the index had wrong in the end
        ownWaits      handlers name the time of their retries themselves; `ownDeaths`: they give up before their tries are used up
        reached       nasty states that only the harness can see, with how often it saw them
        canaries      secrets that must stand nowhere; `texts`: logs, pages and dumps that are looked through for them as well
        samples       numbers over time, each with its `at`; `slopes`: by how much each may grow in an hour

    and in that of a fault: `by`, the microseconds by which the store's clock was set on (or back, when negative); `grace`, the
    microseconds that a drained worker has to give back what it holds; `harmless`, when it excuses no lateness.
    """

    started_at: int
    ended_at: int
    timing: Timing = Timing()
    calls: list[Call] = []
    events: list[Event] = []
    effects: list[Effect] = []
    refusals: list[Refusal] = []
    faults: list[Fault] = []
    final: Final | None = None
    about: dict[str, Any] = {}


def save(history: History, path: Path) -> None:
    """Keep a history as one JSON document."""
    path.write_bytes(msgspec.json.encode(history))


def load(path: Path) -> History:
    """Read what `save` wrote."""
    return msgspec.json.decode(path.read_bytes(), type=History)


def read_lines(text: str, shape: type[Any]) -> list[Any]:
    """The lines that handlers and other writers appended, one JSON document each. A torn last line was never said."""
    lines = text.split("\n")
    return [msgspec.json.decode(line, type=shape) for line in lines[:-1] if line]


def as_line(entry: msgspec.Struct) -> bytes:
    """One entry as a line to append."""
    return msgspec.json.encode(entry) + b"\n"


def by_run(events: Iterable[Event]) -> dict[str, list[Event]]:
    """The events about each execution, in order."""
    found: dict[str, list[Event]] = {}
    for event in events:
        if event.run is not None:
            found.setdefault(event.run, []).append(event)
    return found
