"""What is known about an execution or a fire at one moment: a snapshot of the store, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from duly.domain.execution import Attempt, Execution, WorkerId
from duly.domain.fairness import Work
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant, Micros
from duly.domain.job import JobVersion
from duly.domain.lifecycle import JobState, State
from duly.domain.serving import Needs

# Counting a queue ends here: "that many or more".
COUNTED_TO = 10_000


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """A worker: what it offers, how busy it is, and until when it is believed alive. `tenant` None: it serves everybody."""

    id: WorkerId
    name: str
    pool: str
    labels: dict[str, str]
    handlers: list[str]
    slots: int
    running: int
    started_at: Instant
    expires_at: Instant
    lost_at: Instant | None = None
    ttl: Micros = 0
    draining: bool = False
    tenant: int | None = None

    def is_live(self, now: Instant) -> bool:
        """Whether it may still hold work."""
        return self.lost_at is None and self.expires_at > now

    @property
    def heard_at(self) -> Instant:
        """When it was last heard of."""
        return self.expires_at - self.ttl


@dataclass(frozen=True, slots=True)
class OtherRun:
    """Another execution of the same job."""

    id: ExecutionId
    due_at: Instant
    created_at: Instant
    state: State
    started_at: Instant | None = None
    finished_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A ready execution's queue: how many of its tenant are ahead on its route, and how fast the route has ended work lately."""

    ahead: int
    ended: int
    ended_within: Micros
    work: tuple[Work, ...] = ()
    # Whether there are other tenants than the first.
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class LineFacts:
    """Who stands in the job's one place, and how many wait for it: ahead of this one, and in all."""

    holder: OtherRun | None
    ahead: int
    waiting: int


@dataclass(frozen=True, slots=True)
class AwaitedFacts:
    """The job that a gate waits for; `state` None: there is none of that name. At the deadline it runs all the same, or is skipped."""

    job: str
    state: JobState | None
    deadline: Instant
    runs: bool


@dataclass(frozen=True, slots=True)
class GateFacts:
    """A limit that a blocked execution waits at. `lasts` None: of how many run; else the period of a rate."""

    gate: UUID
    capacity: int
    lasts: Micros | None
    about: Mapping[str, Any]
    taken: int
    ahead: int
    holders: tuple[ExecutionId, ...]
    frees_at: Instant | None
    awaited: AwaitedFacts | None = None


@dataclass(frozen=True, slots=True)
class HeldFacts:
    """What a step waits for that somebody must give: an approval, or the signal of this name; and until when."""

    is_approval: bool
    name: str
    until: Instant | None


@dataclass(frozen=True, slots=True)
class FlowFacts:
    """A run whose steps are under way: some that are live, what of them waits for somebody, and whether it is paused."""

    live: tuple[ExecutionId, ...]
    held: tuple[HeldFacts, ...]
    paused_by: str | None


@dataclass(frozen=True, slots=True)
class Wish:
    """Somebody asked it to stop; at `kill_at` asking ends."""

    asked_at: Instant
    by: str
    kill_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """What somebody did about a dead letter; `replay` is the execution that it was replayed as."""

    at: Instant
    by: str
    replay: ExecutionId | None


@dataclass(frozen=True, slots=True)
class Overseer:
    """Who dispatches the job's shard."""

    shard: int
    owner: str | None
    lease_until: Instant


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job as it stands: its state, its pause, the fire that it waits for and the one that is to be skipped."""

    id: JobId
    name: str
    state: JobState
    created_at: Instant
    version: JobVersion
    next_fire_at: Instant | None = None
    paused_at: Instant | None = None
    paused_until: Instant | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    skip_at: Instant | None = None
    skip_by: str | None = None
    overseer: Overseer | None = None

    def is_paused(self, at: Instant) -> bool:
        """Whether its pause, as far as it is known, covers this instant."""
        if self.paused_at is None or self.paused_at > at:
            return False
        return self.state is JobState.PAUSED if self.paused_until is None else at < self.paused_until


# Who asks a run to stop when the next fire may not wait for it.
BY_OVERLAP = "overlap"


@dataclass(frozen=True, slots=True)
class ExecutionFacts:
    """Everything that explains where one execution stands. `people` names the keys that somebody used."""

    now: Instant
    execution: Execution
    attempts: list[Attempt]
    job: JobFacts
    version: JobVersion
    needs: Needs
    workers: list[WorkerFacts] = field(default_factory=list)
    queue: QueueFacts | None = None
    line: LineFacts | None = None
    gates: list[GateFacts] = field(default_factory=list)
    held: HeldFacts | None = None
    flow: FlowFacts | None = None
    wish: Wish | None = None
    settlement: Settlement | None = None
    outage_from: Instant | None = None
    live_then: OtherRun | None = None
    people: Mapping[str, str] = field(default_factory=dict)

    def who(self, key: str) -> str:
        """A person as people know them: the name of the key, or its id."""
        return "the next fire (overlap)" if key == BY_OVERLAP else self.people.get(key, key)


@dataclass(frozen=True, slots=True)
class FireFacts:
    """Everything that explains why a job made no execution at one instant. `version` is the one that was current then."""

    now: Instant
    at: Instant
    job: JobFacts
    version: JobVersion | None
    kept_since: Instant
    people: Mapping[str, str] = field(default_factory=dict)

    def who(self, key: str) -> str:
        """A person as people know them: the name of the key, or its id."""
        return self.people.get(key, key)
