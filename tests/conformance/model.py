"""The ledger as a few dictionaries: slow, single-minded, and short enough to be seen to be right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from duly.domain.decide import WAIT_AFTER_LOSS, Firing
from duly.domain.execution import Finished, Fire, NewExecution
from duly.domain.instants import Instant, Micros
from duly.domain.lifecycle import COSTS_AN_ATTEMPT, JobState, Outcome, State, is_final
from duly.domain.overlap import OverlapPolicy

STOPS_THE_PREVIOUS = (OverlapPolicy.CANCEL_PREVIOUS, OverlapPolicy.KILL_PREVIOUS)
WAITING = (State.SCHEDULED, State.BLOCKED, State.PENDING)


@dataclass
class Run:
    """An execution."""

    job: UUID
    state: State
    rank: int
    due_at: Instant
    has_place: bool = False
    wish: bool = False
    lease: int | None = None
    ends: list[Outcome] = field(default_factory=list)
    checkpoint: int = 0
    saved_under: int | None = None

    @property
    def attempt(self) -> int:
        """The attempt that runs or will; for what is final, the last one that was made."""
        return len(self.ends) + (not is_final(self.state))

    @property
    def failures(self) -> int:
        return sum(end in COSTS_AN_ATTEMPT for end in self.ends)

    @property
    def losses(self) -> int:
        return self.ends.count(Outcome.WORKER_LOST)


@dataclass
class Plan:
    """A job and its schedule."""

    version: int
    next_at: Instant | None
    state: JobState = JobState.ACTIVE


class Model:
    """Where everything stands."""

    def __init__(self, max_losses: int) -> None:
        self.max_losses = max_losses
        self.now: Instant = 0
        self.epoch: dict[int, int] = {}
        self.jobs: dict[UUID, Plan] = {}
        self.runs: dict[UUID, Run] = {}
        self.places: dict[UUID, UUID] = {}
        self.workers: dict[int, Instant] = {}
        self.lost: set[int] = set()
        self.leases: dict[int, tuple[int, set[UUID]]] = {}
        self.ended: set[tuple[int, UUID]] = set()

    # ------------------------------------------------------------ in

    def enqueue(self, batch: Sequence[NewExecution]) -> int:
        fresh = [new for new in batch if new.id not in self.runs]
        for new in fresh:
            self.runs[new.id] = Run(new.job_id, State.PENDING if new.due_at <= self.now else State.SCHEDULED, new.rank, new.due_at)
        return len(fresh)

    def fire(self, firing: Firing, epochs: dict[int, int]) -> tuple[int, int, int, int]:
        advanced = set()
        for move in firing.advances:
            job = self.jobs[move.job_id]
            stands = job.state is JobState.ACTIVE and (job.next_at, job.version) == (move.read_at, move.version)
            if stands and epochs[move.shard] == self.epoch[move.shard]:
                advanced.add(move.job_id)
                job.next_at = move.next_at
                job.state = JobState.COMPLETED if move.next_at is None else job.state
        states, stopped = [], []
        for fire in firing.fires:
            if fire.job_id in advanced and fire.id not in self.runs:
                state = self._fired(fire)
                has_place = fire.overlap.takes_a_place and state is State.PENDING
                self.runs[fire.id] = Run(fire.job_id, state, fire.rank, fire.at, has_place=has_place)
                if has_place:
                    self.places[fire.job_id] = fire.id
                states.append(state)
                if state is State.BLOCKED and fire.overlap.policy in STOPS_THE_PREVIOUS:
                    stopped.append(self.places[fire.job_id])
        # After all of them: of several at once only the last one waits, those between are skipped.
        self.cancel(dict.fromkeys(stopped))
        return len(advanced), len(states), states.count(State.SKIPPED), states.count(State.BLOCKED)

    def _fired(self, fire: Fire) -> State:
        if fire.skip is not None:
            return State.SKIPPED
        if not fire.overlap.takes_a_place or fire.job_id not in self.places:
            return State.PENDING
        if fire.overlap.policy in STOPS_THE_PREVIOUS:
            for waiter in self._queue(fire.job_id):
                self.runs[waiter].state = State.SKIPPED
            return State.BLOCKED
        room = {OverlapPolicy.QUEUE_ONE: 1, OverlapPolicy.QUEUE_ALL: fire.overlap.max_queued}.get(fire.overlap.policy, 0)
        return State.BLOCKED if len(self._queue(fire.job_id)) < room else State.SKIPPED

    def _queue(self, job: UUID) -> list[UUID]:
        return sorted(run_id for run_id, run in self.runs.items() if run.job == job and run.state is State.BLOCKED)

    def promote(self, epochs: dict[int, int]) -> int:
        if epochs != self.epoch:
            return 0
        due = [run_id for run_id, run in self.runs.items() if run.state is State.SCHEDULED and run.due_at <= self.now]
        for run_id in due:
            if self.runs[run_id].wish:
                self._end(run_id, State.CANCELLED)
            else:
                self.runs[run_id].state = State.PENDING
        return len(due)

    # ------------------------------------------------------------ work

    def ready(self, worker: int, quota: int) -> list[UUID]:
        """What a claim gets."""
        if worker in self.lost or self.workers[worker] <= self.now:
            return []
        pending = sorted((run.rank, run_id) for run_id, run in self.runs.items() if run.state is State.PENDING)
        return [run_id for _, run_id in pending[:quota]]

    def grant(self, worker: int, lease: int, ids: Sequence[UUID]) -> None:
        self.leases[lease] = (worker, set(ids))
        for run_id in ids:
            self.runs[run_id].state, self.runs[run_id].lease = State.RUNNING, lease

    def finish(self, worker: int, reports: Sequence[Finished]) -> set[UUID]:
        refused = set()
        for report in reports:
            holder, members = self.leases.get(report.lease, (None, set()))
            if holder == worker and report.id in members:
                members.discard(report.id)
                self.ended.add((report.lease, report.id))
                self._after(report)
            elif holder not in (worker, None) or (report.lease, report.id) not in self.ended:
                refused.add(report.id)
        return refused

    def _after(self, report: Finished) -> None:
        run = self.runs[report.id]
        run.ends.append(report.outcome)
        if report.state is State.SCHEDULED and not run.wish:
            self._wait(run, report.retry_at)
        else:
            self._end(report.id, State.CANCELLED if report.state is State.SCHEDULED else report.state)

    def save(self, worker: int, lease: int, run_id: UUID, number: int) -> bool:
        run = self.runs[run_id]
        holder, members = self.leases.get(lease, (None, set()))
        is_next = number > run.checkpoint or (number == run.checkpoint and run.saved_under == lease)
        if holder != worker or run_id not in members or not is_next:
            return False
        run.checkpoint, run.saved_under = number, lease
        return True

    def _wait(self, run: Run, until: Instant) -> None:
        run.rank += until - run.due_at
        run.state, run.due_at, run.lease = State.SCHEDULED, until, None

    def _end(self, run_id: UUID, state: State) -> None:
        """Final; whoever waited longest for its place gets it."""
        run = self.runs[run_id]
        run.state = state
        if not run.has_place:
            return
        run.has_place = False
        del self.places[run.job]
        for heir in self._queue(run.job)[:1]:
            self.places[run.job] = heir
            self.runs[heir].state, self.runs[heir].has_place = State.PENDING, True

    # ------------------------------------------------------------ losses and cancels

    def renew(self, worker: int, ttl: Micros) -> bool:
        if worker in self.lost or self.workers[worker] <= self.now:
            return False
        self.workers[worker] = self.now + ttl
        return True

    def lose(self) -> int:
        self.lost |= {worker for worker, expires in self.workers.items() if expires <= self.now}
        gone = [lease for lease, (worker, _) in self.leases.items() if worker in self.lost]
        lost = [run_id for lease in gone for run_id in self.leases.pop(lease)[1]]
        for run_id in lost:
            run = self.runs[run_id]
            run.ends.append(Outcome.WORKER_LOST)
            if run.wish or run.losses >= self.max_losses:
                self._end(run_id, State.CANCELLED if run.wish else State.DEAD)
            else:
                self._wait(run, self.now + WAIT_AFTER_LOSS)
        return len(lost)

    def cancel(self, ids: Iterable[UUID]) -> dict[UUID, State]:
        for run_id in ids:
            if not is_final(self.runs[run_id].state):
                self.runs[run_id].wish = True
            if self.runs[run_id].state in WAITING:
                self._end(run_id, State.CANCELLED)
        return {run_id: self.runs[run_id].state for run_id in ids}

    def carry_out_wishes(self) -> None:
        """Whoever asked died before the end: the sweeper does it."""
        self.cancel([run_id for run_id, run in sorted(self.runs.items()) if run.wish and run.state in WAITING])

    def wish(self, run_id: UUID) -> None:
        if not is_final(self.runs[run_id].state):
            self.runs[run_id].wish = True

    def change(self, job: UUID, version: int) -> None:
        self.jobs[job].version = version

    def set_state(self, job: UUID, state: JobState, next_at: Instant | None) -> bool:
        if self.jobs[job].state is JobState.CANCELLED:
            return False
        self.jobs[job].state, self.jobs[job].next_at = state, next_at
        return True
