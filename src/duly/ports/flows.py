"""Where runs of workflows stand, and how their steps come to be.

A step is an execution whose id is computed, so making it is a conditional write: whoever comes second writes nothing. Nothing is counted
and nothing is locked across steps; whether a join is complete is read, by a snapshot younger than the end that may have completed it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from duly.domain.audit import Deed
from duly.domain.execution import Execution, NewExecution
from duly.domain.ids import ExecutionId, JobId
from duly.domain.instants import Instant
from duly.domain.lifecycle import State

# Why a step stands in `blocked`, beside overlap (0) and limits (1).
BY_APPROVAL, BY_SIGNAL = 2, 3


class Flow(NamedTuple):
    """A run that is under way, or a mapped step whose items are (`width`: how many)."""

    run: ExecutionId
    tenant: int
    job_version: int
    width: int | None
    depth: int
    is_paused: bool
    is_cancelled: bool


class Placed(NamedTuple):
    """A step's execution: which step of which flow it is, and of a mapped step which item."""

    id: ExecutionId
    flow: Flow
    place: int
    nth: int | None


class Ended(NamedTuple):
    """An execution that is there: how it ended; no state: it has not."""

    state: State | None
    error: str | None = None


class Header(NamedTuple):
    """What a flow knows of its own execution: the payload (JSON text; None: its version's), and the step of another run that it is."""

    payload: str | None
    tenant: int
    run: ExecutionId | None
    place: int | None


class StepVersion(NamedTuple):
    """Under which job, version and route the executions of a step are made."""

    job_id: JobId
    number: int
    route: int


@dataclass(frozen=True, slots=True)
class NewStep:
    """A step to be made: its header, and where it stands first.

    It is ready, or waits for its time or a limit as every execution does, unless it `waits` for somebody (a reason of `blocked`,
    with the name and the end of the wait), is `skipped` with a reason, has `ended` before it began (state, result, error), or is a
    mapped step with items.
    """

    execution: NewExecution
    run: ExecutionId
    place: int
    nth: int | None = None
    waits: int | None = None
    name: str = ""
    until: Instant | None = None
    skipped: str | None = None
    ended: tuple[State, str | None, str | None] | None = None
    width: int | None = None
    depth: int = 0
    flow_version: int = 0


class Added(NamedTuple):
    """How many steps are new, and on which routes something is ready."""

    new: int
    routes: set[int]


class Taken(NamedTuple):
    """What the conductor took from its queue: a run that begins, or a step whose wait is over."""

    id: ExecutionId
    is_run: bool


class Wait(NamedTuple):
    """A step that waits for somebody."""

    id: ExecutionId
    run: ExecutionId
    tenant: int
    reason: int
    name: str
    until: Instant | None


class Signal(NamedTuple):
    """What came from outside for a run."""

    name: str
    payload: str | None
    sent_at: Instant
    sent_by: str


class Flows(Protocol):
    """The store's side of workflows. What a method writes, it writes in one transaction; what it frees is passed on after the commit."""

    async def take(self, now: Instant, look_at: Instant, limit: int) -> list[Taken]:
        """Runs whose turn has come leave the queue and are under way from now on; steps that waited for a time succeed."""

    async def placed(self, ids: Sequence[ExecutionId]) -> list[Placed]:
        """Those of these that are steps of something under way."""

    async def flow(self, run: ExecutionId) -> Flow | None:
        """A run that is under way; None when it is not."""

    async def header(self, run: ExecutionId) -> Header:
        """What a flow knows of its own execution."""

    async def version_of(self, run: ExecutionId) -> int | None:
        """Of which version a run is or was; None when it is not known any more."""

    async def step_versions(self, job_version: int) -> dict[int, StepVersion]:
        """Those of a workflow's version, by the places of its steps. They never change."""

    async def ends(self, ids: Sequence[ExecutionId]) -> dict[ExecutionId, Ended]:
        """Those of these that are there."""

    async def results(self, ids: Sequence[ExecutionId]) -> dict[ExecutionId, str | None]:
        """The results, as JSON, of those of these that have ended."""

    async def ended_between(self, first: ExecutionId, last: ExecutionId, limit: int) -> list[tuple[ExecutionId, State]]:
        """What has ended from one id to another, in their order."""

    async def add(self, steps: Sequence[NewStep], now: Instant, look_at: Instant) -> Added:
        """Make steps that are not there yet, each where it stands first."""

    async def finish(self, run: ExecutionId, state: State, result: str | None, error: str | None, now: Instant) -> bool:
        """A flow has come to its end; False: it had before. What it held is passed on."""

    async def live_steps(self, run: ExecutionId, limit: int) -> list[ExecutionId]:
        """Its steps that have not ended."""

    async def overdue(self, now: Instant, limit: int) -> list[ExecutionId]:
        """Flows that nobody has looked at for a while: a hand-over may have been lost. Each is answered less and less often."""

    async def waits(self, run: ExecutionId) -> list[Wait]:
        """Its steps that wait for somebody."""

    async def overdue_waits(self, now: Instant, limit: int) -> list[Wait]:
        """Those whose time is over."""

    async def settle_wait(
        self, id: ExecutionId, state: State | None, result: str | None, error: str | None, now: Instant, *, deed: Deed | None = None
    ) -> bool:
        """A wait is over: the step is ready (no state), or final. False: it was over before, and the deed is not recorded."""

    async def add_signal(self, tenant: int, run: ExecutionId, signal: Signal, *, deed: Deed | None = None) -> bool:
        """Keep a signal; False: the run has one of that name."""

    async def signals(self, run: ExecutionId) -> list[Signal]:
        """What came for the run, in order."""

    async def seed(self, tenant: int, run: ExecutionId, former: ExecutionId, redo: Collection[str]) -> None:
        """The run, which is not there yet, takes over what another came to, but for these steps."""

    async def unseed(self, run: ExecutionId) -> None:
        """There will be no such run."""

    async def seed_of(self, run: ExecutionId) -> tuple[ExecutionId, frozenset[str]] | None:
        """What it takes over, if anything."""

    async def pause(self, run: ExecutionId, by: str | None, now: Instant, *, deed: Deed | None = None) -> bool:
        """No step begins until `by` is None again. False: it is not under way, or it is so already."""

    async def steps(self, tenant: int, run: ExecutionId, after: ExecutionId | None, limit: int) -> list[Execution]:
        """The executions of its steps (of a mapped step: of its items), in the order of their ids."""
