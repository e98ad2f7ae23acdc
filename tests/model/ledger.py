"""The ledger of the model: a few tables as tuples, and the transactions of the real store on them.

Each function is one transaction. Its guard can be switched off by a rule, so that the search can show what the guard is for.
What happened is told as events; `checks` judges them by what it remembers itself, not by the guards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple
from uuid import UUID

from duly.domain import decide
from duly.domain.catchup import CatchUp, CatchUpPolicy
from duly.domain.execution import DueSchedule, Lost, Verdict
from duly.domain.instants import DAY, HOUR, SECOND, Instant
from duly.domain.job import JobSpec, JobType, JobVersion, Target, Timing
from duly.domain.lifecycle import COSTS_AN_ATTEMPT, Outcome, State
from duly.domain.overlap import Overlap, OverlapPolicy
from duly.domain.retry import Backoff, RetryPolicy

# One turn of the model's clock is a second, so the real decisions can be asked: losses wait a second, and so do retries.
TICK = SECOND
# A worker's life in turns. The clock by which others bury it may be ahead of its own, by no more than the margin.
TTL, MARGIN, SKEW = 3, 1, 1
LOST = -1

JOB = UUID(int=1)
START: Instant = 20_000 * DAY
RETRY = RetryPolicy(max_attempts=2, max_losses=2, backoff=Backoff.FIXED, initial_delay=TICK, jitter=0.0)


@dataclass(frozen=True, slots=True)
class Rules:
    """What keeps the protocol right. Each can be switched off."""

    fire_compares_the_schedule: bool = True
    fire_checks_the_epoch: bool = True
    fire_ids_are_computed: bool = True
    promotion_checks_the_epoch: bool = True
    promotion_reads_the_wishes: bool = True
    promotion_waits_for_its_time: bool = True
    take_raises_the_epoch: bool = True
    take_compares_the_epoch: bool = True
    claim_takes_from_ready: bool = True
    fences_only_grow: bool = True
    finish_checks_the_fence: bool = True
    finish_leaves_the_lease: bool = True
    checkpoint_checks_the_fence: bool = True
    checkpoints_only_grow: bool = True
    loss_takes_the_lease_away: bool = True
    loss_counts_on_its_own: bool = True
    burial_is_final: bool = True
    burial_waits_for_the_expiry: bool = True
    a_late_renewal_shortens_nothing: bool = True
    trust_counts_from_the_request: bool = True
    trust_ends_before_the_lease: bool = True
    unknown_claims_are_adopted: bool = True


class Row(NamedTuple):
    """An execution in `ready` or `timers` (`due_in` turns), or a member of a lease."""

    run: int
    attempt: int
    failures: int
    due_in: int = 0


class Lease(NamedTuple):
    """A claimed batch; its number is the fence."""

    fence: int
    worker: int
    members: tuple[Row, ...]


class Ended(NamedTuple):
    """An attempt that ended, with the fence under which it did: a row of `attempts`, or the success in `outcomes`."""

    outcome: Outcome
    fence: int


class Run(NamedTuple):
    """What the wide tables know of one execution.

    `outcomes` has more than one only when the protocol is broken. `wish`: 1 when somebody asked it to stop, 2 when they were answered.
    """

    target: int
    ends: tuple[Ended, ...] = ()
    outcomes: tuple[State, ...] = ()
    wish: int = 0
    checkpoint: int = 0
    saved_by: int = 0


class Ledger(NamedTuple):
    """The store. Times are turns from now, so that states which differ only by when they happen are the same."""

    runs: tuple[Run, ...] = ()
    ready: tuple[Row, ...] = ()
    timers: tuple[Row, ...] = ()
    leases: tuple[Lease, ...] = ()
    # `schedules.next_fire_at` as the number of the next target, and the last target whose time has come.
    next_target: int = 0
    clock: int = 0
    epoch: int = 1
    fence: int = 0
    # What is left of each registered worker's life by the clock that buries; LOST once it is buried.
    lives: tuple[int, ...] = ()


class Event(NamedTuple):
    """What a transaction did: the kind, the execution or target it is about, and the fence, epoch or number that it carried."""

    kind: str
    about: int
    number: int
    detail: object = None


Done = tuple[Ledger, tuple[Event, ...]]


# ---------------------------------------------------------------- decisions, asked of the domain


@cache
def version(targets: int) -> JobVersion:
    """A job that fires once a turn, so many times, and loses no target to lateness."""
    timing = Timing(type=JobType.INTERVAL, every=TICK, anchor=START, end_at=START + targets * TICK - TICK // 2)
    spec = JobSpec(
        name="model",
        timing=timing,
        target=Target(pool="default", handler="noop"),
        retry=RETRY,
        overlap=Overlap(policy=OverlapPolicy.ALLOW),
        catch_up=CatchUp(policy=CatchUpPolicy.ALL, grace=HOUR),
    )
    return JobVersion(number=1, job_id=JOB, version=1, tenant=1, tenant_name="default", route=1, spec=spec, created_at=START)


@cache
def decide_fires(next_target: int, clock: int, targets: int) -> tuple[tuple[int, ...], int]:
    """Which targets a dispatcher fires that reads the schedule there at that time, and where it moves it."""
    due = DueSchedule(JOB, 0, START + next_target * TICK, 1)
    firing = decide.fires([due], {1: version(targets)}, START + clock * TICK)
    moved = firing.advances[0].next_at
    fired = tuple((fire.at - START) // TICK for fire in firing.fires if fire.skip is None)
    return fired, targets if moved is None else (moved - START) // TICK


@cache
def after_failure(failures: int) -> tuple[State, int]:
    """What becomes of an attempt that failed, and how many turns it waits."""
    return _turns(decide.after_failure(RETRY, failures, START, 0.5, error="{}"))


@cache
def after_loss(failures: int, losses: int, cancelled: bool) -> tuple[State, int]:
    """What becomes of an attempt whose worker is gone."""
    lost = Lost(JOB, 1, 1, START, 1, failures, losses, cancelled, JOB, 1, False)
    return _turns(decide.after_loss(lost, RETRY, START))


def _turns(verdict: Verdict) -> tuple[State, int]:
    return verdict.state, 0 if verdict.retry_at is None else (verdict.retry_at - START) // TICK


# ---------------------------------------------------------------- dispatching


def take_shard(ledger: Ledger, rules: Rules, seen_epoch: int) -> tuple[Ledger, tuple[Event, ...], int | None]:
    """`take_shard`: a new owner under a new epoch. At any time, which is more than the store allows."""
    if rules.take_compares_the_epoch and ledger.epoch != seen_epoch:
        return ledger, (), None
    epoch = (seen_epoch if not rules.take_compares_the_epoch else ledger.epoch) + rules.take_raises_the_epoch
    return ledger._replace(epoch=epoch), (Event("epoch", 0, epoch),), epoch


def fire(ledger: Ledger, rules: Rules, epoch: int, read: int, clock: int, targets: int) -> Done:
    """`fire`: the schedule moves on from where it was read, under the epoch, and its targets become executions."""
    if (rules.fire_checks_the_epoch and epoch != ledger.epoch) or (rules.fire_compares_the_schedule and read != ledger.next_target):
        return ledger, ()
    fired, moved = decide_fires(read, clock, targets)
    runs, ready = ledger.runs, ledger.ready
    events: list[Event] = []
    for target in fired:
        if rules.fire_ids_are_computed and any(run.target == target for run in runs):
            continue
        events.append(Event("fired", target, epoch))
        ready = (*ready, Row(len(runs), 1, 0))
        runs = (*runs, Run(target))
    events.append(Event("moved", moved, epoch))
    return ledger._replace(runs=runs, ready=ready, next_target=moved), tuple(events)


def promote(ledger: Ledger, rules: Rules, epoch: int) -> Done:
    """`promote`: due timers become ready; those that somebody asked to stop become final."""
    if rules.promotion_checks_the_epoch and epoch != ledger.epoch:
        return ledger, ()
    due = [row for row in ledger.timers if row.due_in == 0 or not rules.promotion_waits_for_its_time]
    if not due:
        return ledger, ()
    runs, ready = ledger.runs, ledger.ready
    events = [Event("promoted", row.run, epoch, row.due_in) for row in due]
    for row in due:
        if rules.promotion_reads_the_wishes and runs[row.run].wish:
            runs = _final(runs, row.run, State.CANCELLED)
        else:
            ready = (*ready, row._replace(due_in=0))
    left = tuple(row for row in ledger.timers if row not in due)
    return ledger._replace(runs=runs, ready=tuple(sorted(ready)), timers=left), tuple(events)


# ---------------------------------------------------------------- work


def claim(ledger: Ledger, rules: Rules, worker: int, quota: int) -> tuple[Ledger, tuple[Event, ...], Lease | None]:
    """`claim`: ready rows leave for one new lease; only for a worker that is not buried."""
    if ledger.lives[worker] == LOST or not ledger.ready:
        return ledger, (), None
    members = ledger.ready[:quota]
    fence = ledger.fence + 1 if rules.fences_only_grow else max((lease.fence for lease in ledger.leases), default=0) + 1
    lease = Lease(fence, worker, members)
    left = ledger.ready[quota:] if rules.claim_takes_from_ready else ledger.ready
    events = tuple(Event("granted", row.run, fence, row.attempt) for row in members)
    return ledger._replace(ready=left, leases=(*ledger.leases, lease), fence=max(ledger.fence, fence)), events, lease


def finish(ledger: Ledger, rules: Rules, worker: int, fence: int, row: Row, outcome: Outcome, *, sees_wish: bool = True) -> Done:
    """`finish`: under the lease, or nothing. Repeated, it changes nothing.

    `sees_wish` is false for a failure that took its snapshot before a wish was committed.
    """
    lease = next((lease for lease in ledger.leases if lease.fence == fence and lease.worker == worker), None)
    member = None if lease is None else next((member for member in lease.members if member.run == row.run), None)
    if member is None:
        if rules.finish_checks_the_fence or Ended(outcome, fence) in ledger.runs[row.run].ends:
            return ledger, ()
        member = row
    event = Event("ended", row.run, fence, outcome)
    runs = _end(ledger.runs, row.run, Ended(outcome, fence))
    timers = ledger.timers
    if outcome is Outcome.SUCCEEDED:
        runs = _final(runs, row.run, State.SUCCEEDED)
    else:
        state, wait = after_failure(member.failures)
        if state is State.SCHEDULED and runs[row.run].wish and sees_wish:
            state = State.CANCELLED
        if state is State.SCHEDULED:
            again = Row(row.run, member.attempt + 1, member.failures + (outcome in COSTS_AN_ATTEMPT), wait)
            timers = tuple(sorted((*timers, again)))
        else:
            runs = _final(runs, row.run, state)
    leases = _leave(ledger.leases, fence, row.run) if rules.finish_leaves_the_lease else ledger.leases
    return ledger._replace(runs=runs, timers=timers, leases=leases), (event,)


def save_checkpoint(ledger: Ledger, rules: Rules, worker: int, fence: int, row: Row, number: int) -> Done:
    """`save_checkpoint`: under the lease; the number only grows, the same one again is the same."""
    run = ledger.runs[row.run]
    if rules.checkpoint_checks_the_fence and not _holds(ledger, worker, fence, row.run):
        return ledger, ()
    if rules.checkpoints_only_grow and not (number > run.checkpoint or (number, row.attempt) == (run.checkpoint, run.saved_by)):
        return ledger, ()
    runs = _change(ledger.runs, row.run, run._replace(checkpoint=number, saved_by=row.attempt))
    return ledger._replace(runs=runs), (Event("saved", row.run, fence, number),)


# ---------------------------------------------------------------- life and loss


def register(ledger: Ledger) -> tuple[Ledger, int]:
    """`register_worker`: a new number at every start."""
    return ledger._replace(lives=(*ledger.lives, TTL - SKEW)), len(ledger.lives)


def renew(ledger: Ledger, rules: Rules, worker: int, age: int) -> tuple[Ledger, bool]:
    """`renew_worker`, asked `age` turns ago: the life it asks for counts from then. False: the worker is lost."""
    life = ledger.lives[worker]
    if (life == LOST or life + age <= 0) and rules.burial_is_final:
        return ledger, False
    if life == LOST:
        return ledger, True
    renewed = max(TTL - SKEW - age, 0)
    if rules.a_late_renewal_shortens_nothing:
        renewed = max(renewed, life)
    return ledger._replace(lives=(*ledger.lives[:worker], renewed, *ledger.lives[worker + 1 :])), True


def bury(ledger: Ledger, rules: Rules) -> Ledger:
    """`bury_workers`: who is past his time is lost for good."""
    gone = 0 if rules.burial_waits_for_the_expiry else TTL
    return ledger._replace(lives=tuple(LOST if life <= gone else life for life in ledger.lives))


def lose(ledger: Ledger, rules: Rules) -> Done:
    """`lose`: the leases of buried workers are taken away; what had not ended in them waits again, or is dead."""
    runs, timers, leases = ledger.runs, ledger.timers, ledger.leases
    events: list[Event] = []
    for lease in ledger.leases:
        if ledger.lives[lease.worker] != LOST:
            continue
        for row in lease.members:
            run = runs[row.run]
            losses = sum(end.outcome is Outcome.WORKER_LOST for end in run.ends)
            state, wait = after_loss(row.failures, losses, run.wish > 0)
            events.append(Event("ended", row.run, lease.fence, Outcome.WORKER_LOST))
            runs = _end(runs, row.run, Ended(Outcome.WORKER_LOST, lease.fence))
            if state is State.SCHEDULED:
                failures = row.failures + (not rules.loss_counts_on_its_own)
                timers = tuple(sorted((*timers, Row(row.run, row.attempt + 1, failures, wait))))
            else:
                runs = _final(runs, row.run, state)
        if rules.loss_takes_the_lease_away:
            leases = tuple(other for other in leases if other is not lease)
    return ledger._replace(runs=runs, timers=timers, leases=leases), tuple(events)


def wish(ledger: Ledger, run: int) -> Ledger:
    """`ask_cancel`: the wish is committed before anything is looked at."""
    return ledger._replace(runs=_change(ledger.runs, run, ledger.runs[run]._replace(wish=1)))


def settle(ledger: Ledger, run: int) -> Done:
    """`cancel_waiting`: what was asked to stop and waits becomes final; whoever asked is answered."""
    waits = [row for row in (*ledger.ready, *ledger.timers) if row.run == run]
    runs = _change(ledger.runs, run, ledger.runs[run]._replace(wish=2))
    if waits:
        runs = _final(runs, run, State.CANCELLED)
    ready = tuple(row for row in ledger.ready if row.run != run)
    timers = tuple(row for row in ledger.timers if row.run != run)
    return ledger._replace(runs=runs, ready=ready, timers=timers), (Event("answered", run, 0),)


def tick(ledger: Ledger, targets: int) -> Ledger:
    """A turn of the clock."""
    return ledger._replace(
        clock=min(ledger.clock + 1, targets - 1),
        timers=tuple(sorted(row._replace(due_in=max(row.due_in - 1, 0)) for row in ledger.timers)),
        lives=tuple(life if life <= 0 else life - 1 for life in ledger.lives),
    )


# ---------------------------------------------------------------- reading


def state_of(ledger: Ledger, run: int) -> State:
    """Where an execution stands: the table it stands in, as `execution_state` reads it."""
    if ledger.runs[run].outcomes:
        return ledger.runs[run].outcomes[-1]
    if any(row.run == run for lease in ledger.leases for row in lease.members):
        return State.RUNNING
    if any(row.run == run for row in ledger.ready):
        return State.PENDING
    return State.SCHEDULED


def _holds(ledger: Ledger, worker: int, fence: int, run: int) -> bool:
    return any(lease.fence == fence and lease.worker == worker and any(row.run == run for row in lease.members) for lease in ledger.leases)


def _leave(leases: tuple[Lease, ...], fence: int, run: int) -> tuple[Lease, ...]:
    """The execution leaves its lease, and the lease goes with its last one."""
    left = (
        lease if lease.fence != fence else lease._replace(members=tuple(row for row in lease.members if row.run != run)) for lease in leases
    )
    return tuple(lease for lease in left if lease.members)


def _change(runs: tuple[Run, ...], run: int, changed: Run) -> tuple[Run, ...]:
    return (*runs[:run], changed, *runs[run + 1 :])


def _end(runs: tuple[Run, ...], run: int, end: Ended) -> tuple[Run, ...]:
    return _change(runs, run, runs[run]._replace(ends=(*runs[run].ends, end)))


def _final(runs: tuple[Run, ...], run: int, state: State) -> tuple[Run, ...]:
    return _change(runs, run, runs[run]._replace(outcomes=(*runs[run].outcomes, state)))
