"""Everybody who acts on the ledger, and every step that one of them can take next.

Two workers, two dispatchers, a sweeper, and whoever cancels. A step is one transaction of the store together with what its
author knows before and after it. Four things can go wrong with one, and each of them counts as a fault:

* *answer lost*: it was committed, and its author does not know. A worker sends a finish again, and asks for what it holds.
* *late*: it was sent, and arrives after any number of other steps. So does what a paused process sends when it wakes: it looked
  at its trust before it slept. What is sent again meanwhile makes it a repeated message.
* *answer late* (heartbeats): it was committed, and the answer comes turns later.
* *not seen* (failures): its snapshot is older than a wish that is committed by then.

Dispatchers trust their epochs for ever here, and anybody may take the shard at any time: more than `roles/ownership` allows,
because the epoch alone has to keep them apart. Which real code each step stands for:

| step | stands for |
|---|---|
| take | `Ownership.refresh`, `take_shard` |
| fire | `Dispatcher._fire`: `due_schedules`, `decide.fires`, then `fire` |
| promote | `Dispatcher.step`: `promote` |
| claim, adopt | `Worker._claim`, `claim`; `Worker._adopt`, `held_by` |
| finish | the handler ends, `Worker._send`, `finish` and `finish_mixed` |
| checkpoint | `CheckpointKeeper`, `save_checkpoint` |
| renew, answer | `Heartbeat.beat`, `renew_worker` |
| restart | `Worker.step` past its trust: it forgets all and registers anew (`Shift.run`) |
| bury, lose | `Sweeper.step`: `bury_workers`, `lose` |
| cancel, wish, settle | `cancel` in one transaction (SQLite), or its two (PostgreSQL; the sweeper's `unstick` is the second again) |
| tick | a second passes for everybody |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

from duly.domain.lifecycle import Outcome, is_final
from tests.model import ledger as store
from tests.model.ledger import LOST, MARGIN, SKEW, TTL, Event, Ledger, Row, Rules, state_of

Label = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a search goes. What lies beyond it is not looked at."""

    depth: int = 14
    targets: int = 2
    fences: int = 4
    epochs: int = 3
    registrations: int = 3
    checkpoints: int = 2
    cancels: int = 1
    faults: int = 1
    # Whose transactions go wrong, by the name of the step.
    faulty: frozenset[str] = frozenset({"take", "fire", "claim", "finish", "checkpoint", "renew"})


class Held(NamedTuple):
    """An attempt in a worker's hands. `report` is how it ended, if that was sent and not answered; `saved` its last checkpoint."""

    fence: int
    row: Row
    report: Outcome | None = None
    saved: int = 0


class Worker(NamedTuple):
    """A worker process: its number in the store, how many turns it still trusts itself, what it holds, and a heartbeat that
    was asked so many turns ago and is not answered yet (-1: none)."""

    number: int
    trust: int = TTL - MARGIN
    held: tuple[Held, ...] = ()
    asked: int = -1


class Late(NamedTuple):
    """A transaction that was sent and has not arrived."""

    kind: str
    by: int
    values: tuple[object, ...]
    age: int = 0


class World(NamedTuple):
    """The store, the processes around it, and what is on its way. `epochs` are those under which the dispatchers act."""

    ledger: Ledger
    workers: tuple[Worker, ...]
    epochs: tuple[int, ...] = (0, 1)
    late: Late | None = None
    faults: int = 0
    cancels: int = 0


Step = tuple[Label, World, tuple[Event, ...]]


def start() -> World:
    """Two workers have registered, one dispatcher owns the shard, and the first target is due."""
    return World(Ledger(lives=(TTL - SKEW,) * 2), (Worker(0), Worker(1)))


def steps(world: World, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    """Every step that somebody can take now. Steps that change nothing are left out by whoever searches."""
    yield from _dispatchers(world, rules, bounds)
    for nth in range(len(world.workers)):
        # Whoever is first to do something, it is the same: the other one's steps would only swap their names.
        if nth and _are_alike(world):
            break
        if world.workers[nth].trust > 0:
            yield from _work(world, rules, bounds, nth)
            yield from _beat(world, rules, bounds, nth)
        elif len(world.ledger.lives) < bounds.registrations:
            yield ("restart", nth), restarted(world, nth), ()
        if world.workers[nth].asked >= 0 and not _is_on_its_way(world, nth):
            yield ("answer", nth), answered(world, rules, nth), ()
    yield from _sweeper(world, rules)
    yield from _cancels(world, bounds)
    if world.late is not None:
        yield from _arrives(world, rules, bounds, world.late)
    yield ("tick",), ticked(world, bounds), ()


def _are_alike(world: World) -> bool:
    first, second = world.workers
    lives = world.ledger.lives
    return (
        first[1:] == second[1:]
        and not first.held
        and lives[first.number] == lives[second.number]
        and not world.ledger.leases
        and world.late is None
    )


def _is_on_its_way(world: World, nth: int) -> bool:
    """Whether the worker's heartbeat has not even arrived."""
    return world.late is not None and world.late.kind == "renew" and world.late.by == world.workers[nth].number


# ---------------------------------------------------------------- dispatchers


def _dispatchers(world: World, rules: Rules, bounds: Bounds) -> Iterator[Step]:
    ledger = world.ledger
    for epoch in dict.fromkeys(world.epochs):
        is_due = ledger.next_target <= ledger.clock
        if epoch != ledger.epoch and ledger.epoch < bounds.epochs:
            yield ("take", epoch), *taken(world, rules, epoch, ledger.epoch)
            if _may_be_late(world, bounds, "take"):
                yield ("take", epoch, "late"), _sent(world, "take", epoch, (ledger.epoch,)), ()
        if not epoch:
            continue
        if is_due:
            yield ("fire", epoch), *_done(world, store.fire(ledger, rules, epoch, ledger.next_target, ledger.clock, bounds.targets))
            if _may_be_late(world, bounds, "fire"):
                yield ("fire", epoch, "late"), _sent(world, "fire", epoch, (ledger.next_target, ledger.clock)), ()
        if ledger.timers:
            yield ("promote", epoch), *_done(world, store.promote(ledger, rules, epoch))


def taken(world: World, rules: Rules, epoch: int, seen: int) -> tuple[World, tuple[Event, ...]]:
    """The dispatcher that acted under `epoch` has read the shard at `seen`, and takes it."""
    ledger, events, new = store.take_shard(world.ledger, rules, seen)
    if new is None or epoch not in world.epochs:
        return world._replace(ledger=ledger), events
    others = list(world.epochs)
    others[others.index(epoch)] = new
    return world._replace(ledger=ledger, epochs=tuple(sorted(others))), events


# ---------------------------------------------------------------- workers


def _work(world: World, rules: Rules, bounds: Bounds, nth: int) -> Iterator[Step]:
    ledger, worker = world.ledger, world.workers[nth]
    if ledger.ready and ledger.fence < bounds.fences:
        for quota in range(1, len(ledger.ready) + 1):
            yield ("claim", nth, quota), *claimed(world, rules, nth, quota)
        if _may_fail(world, bounds, "claim"):
            after, events, _ = store.claim(ledger, rules, worker.number, len(ledger.ready))
            yield ("claim", nth, "answer lost"), _fault(world)._replace(ledger=after), events
        if _may_be_late(world, bounds, "claim"):
            yield ("claim", nth, "late"), _sent(world, "claim", worker.number, (len(ledger.ready),)), ()
    if rules.unknown_claims_are_adopted and (adopting := adopted(world, nth)) is not world:
        yield ("adopt", nth), adopting, ()
    for held in worker.held:
        run = held.row.run
        for outcome in (Outcome.SUCCEEDED, Outcome.FAILED) if held.report is None else (held.report,):
            yield ("finish", nth, run, outcome.name), *finished(world, rules, nth, held, outcome)
            after, events = store.finish(ledger, rules, worker.number, held.fence, held.row, outcome)
            if _may_fail(world, bounds, "finish"):
                if events:
                    known = _put(world, nth, worker._replace(held=_swap(worker.held, held, held._replace(report=outcome))))
                    yield ("finish", nth, run, outcome.name, "answer lost"), _fault(known)._replace(ledger=after), events
                if outcome is Outcome.FAILED and ledger.runs[run].wish:
                    blind = store.finish(ledger, rules, worker.number, held.fence, held.row, outcome, sees_wish=False)
                    done = _put(world, nth, worker._replace(held=_swap(worker.held, held, None)))
                    yield ("finish", nth, run, outcome.name, "wish not seen"), _fault(done)._replace(ledger=blind[0]), blind[1]
            if held.report is None and _may_be_late(world, bounds, "finish"):
                known = _put(world, nth, worker._replace(held=_swap(worker.held, held, held._replace(report=outcome))))
                yield ("finish", nth, run, outcome.name, "late"), _sent(known, "finish", worker.number, (held.fence, held.row, outcome)), ()
        if held.report is None and held.saved < bounds.checkpoints:
            number = held.saved + 1
            after, events = store.save_checkpoint(ledger, rules, worker.number, held.fence, held.row, number)
            kept = worker._replace(held=_swap(worker.held, held, held._replace(saved=number)))
            yield ("checkpoint", nth, run, number), _put(world, nth, kept)._replace(ledger=after), events
            if _may_be_late(world, bounds, "checkpoint"):
                values = (held.fence, held.row, number)
                yield ("checkpoint", nth, run, number, "late"), _sent(world, "checkpoint", worker.number, values), ()


def claimed(world: World, rules: Rules, nth: int, quota: int) -> tuple[World, tuple[Event, ...]]:
    """The worker claims, and knows what it has. It starts each with the last checkpoint."""
    worker = world.workers[nth]
    ledger, events, lease = store.claim(world.ledger, rules, worker.number, quota)
    if lease is None:
        return world, ()
    held = tuple(Held(lease.fence, row, saved=ledger.runs[row.run].checkpoint) for row in lease.members)
    return _put(world, nth, worker._replace(held=worker.held + held))._replace(ledger=ledger), events


def adopted(world: World, nth: int) -> World:
    """The worker asks what it holds, and takes in what it did not know."""
    worker = world.workers[nth]
    known = {(held.fence, held.row.run) for held in worker.held}
    unknown = tuple(
        Held(lease.fence, row, saved=world.ledger.runs[row.run].checkpoint)
        for lease in world.ledger.leases
        if lease.worker == worker.number
        for row in lease.members
        if (lease.fence, row.run) not in known
    )
    return _put(world, nth, worker._replace(held=worker.held + unknown)) if unknown else world


def finished(world: World, rules: Rules, nth: int, held: Held, outcome: Outcome) -> tuple[World, tuple[Event, ...]]:
    """The worker reports, and is answered: accepted now or before, or refused; either way it is out of its hands."""
    worker = world.workers[nth]
    ledger, events = store.finish(world.ledger, rules, worker.number, held.fence, held.row, outcome)
    return _put(world, nth, worker._replace(held=_swap(worker.held, held, None)))._replace(ledger=ledger), events


def _beat(world: World, rules: Rules, bounds: Bounds, nth: int) -> Iterator[Step]:
    worker = world.workers[nth]
    yield ("renew", nth), renewed(world, rules, nth), ()
    if worker.asked < 0 and _may_fail(world, bounds, "renew"):
        ledger, lives = store.renew(world.ledger, rules, worker.number, 0)
        if lives:
            yield ("renew", nth, "answer late"), _fault(_put(world, nth, worker._replace(asked=0)))._replace(ledger=ledger), ()
    if _may_be_late(world, bounds, "renew"):
        waiting = _put(world, nth, worker._replace(asked=0))
        yield ("renew", nth, "late"), _sent(waiting, "renew", worker.number, (nth,)), ()


def renewed(world: World, rules: Rules, nth: int) -> World:
    """A heartbeat that is answered at once. A worker that is lost trusts itself no more."""
    worker = world.workers[nth]
    ledger, lives = store.renew(world.ledger, rules, worker.number, 0)
    return _put(world, nth, worker._replace(trust=_trust(rules, 0) if lives else 0, asked=-1))._replace(ledger=ledger)


def answered(world: World, rules: Rules, nth: int) -> World:
    """The answer of a heartbeat arrives."""
    worker = world.workers[nth]
    return _put(world, nth, worker._replace(trust=max(_trust(rules, worker.asked), 0), asked=-1))


def _trust(rules: Rules, age: int) -> int:
    """For how long a worker trusts itself when its request of `age` turns ago is answered."""
    margin = MARGIN if rules.trust_ends_before_the_lease else 0
    return TTL - margin - (age if rules.trust_counts_from_the_request else 0)


def restarted(world: World, nth: int) -> World:
    """A worker past its trust stops its handlers, forgets what it held, and comes back as a new one."""
    ledger, number = store.register(world.ledger)
    return _put(world, nth, Worker(number))._replace(ledger=ledger)


# ---------------------------------------------------------------- the others


def _sweeper(world: World, rules: Rules) -> Iterator[Step]:
    ledger = world.ledger
    if 0 in ledger.lives or not rules.burial_waits_for_the_expiry:
        yield ("bury",), world._replace(ledger=store.bury(ledger, rules)), ()
    if any(ledger.lives[lease.worker] == LOST for lease in ledger.leases):
        yield ("lose",), *_done(world, store.lose(ledger, rules))


def _cancels(world: World, bounds: Bounds) -> Iterator[Step]:
    ledger = world.ledger
    for nth, run in enumerate(ledger.runs):
        if is_final(state_of(ledger, nth)):
            continue
        if not run.wish and world.cancels < bounds.cancels:
            asked = world._replace(ledger=store.wish(ledger, nth), cancels=world.cancels + 1)
            yield ("wish", nth), asked, ()
            yield ("cancel", nth), *_done(asked, store.settle(asked.ledger, nth))
        elif run.wish == 1:
            yield ("settle", nth), *_done(world, store.settle(ledger, nth))


def arrived(world: World, rules: Rules, bounds: Bounds, late: Late) -> tuple[World, tuple[Event, ...]]:
    """What was late is done. Nobody waits for its answer any more, unless it is a heartbeat."""
    ledger, values = world.ledger, late.values
    done = world._replace(late=None)
    make = {
        "fire": partial(store.fire, ledger, rules, late.by, *values, bounds.targets),
        "finish": partial(store.finish, ledger, rules, late.by, *values),
        "checkpoint": partial(store.save_checkpoint, ledger, rules, late.by, *values),
        "claim": lambda: store.claim(ledger, rules, late.by, *values)[:2],
    }
    if late.kind == "renew":
        return _heard(done, rules, late.by, *values, late.age), ()
    if late.kind == "take":
        return taken(done, rules, late.by, *values)
    return _done(done, make[late.kind]())


def _heard(world: World, rules: Rules, number: int, nth: int, age: int) -> World:
    """A late heartbeat arrives. Its worker hears the answer if it still waits for it, and has not sent another one meanwhile."""
    worker = world.workers[nth]
    ledger, lives = store.renew(world.ledger, rules, number, age)
    if worker.number == number and worker.asked >= 0:
        world = _put(world, nth, worker._replace(trust=max(_trust(rules, age), 0) if lives else 0, asked=-1))
    return world._replace(ledger=ledger)


def _arrives(world: World, rules: Rules, bounds: Bounds, late: Late) -> Iterator[Step]:
    if late.kind != "claim" or world.ledger.fence < bounds.fences:
        yield ("arrives", late.kind, late.by, *late.values), *arrived(world, rules, bounds, late)


def ticked(world: World, bounds: Bounds) -> World:
    """A turn of the clock for everybody."""
    workers = tuple(
        worker._replace(trust=max(worker.trust - 1, 0), asked=worker.asked if worker.asked < 0 else min(worker.asked + 1, TTL))
        for worker in world.workers
    )
    late = world.late
    if late is not None and late.kind == "renew":
        late = late._replace(age=min(late.age + 1, TTL))
    return world._replace(ledger=store.tick(world.ledger, bounds.targets), workers=workers, late=late)


# ---------------------------------------------------------------- small parts


def canonical(world: World, bounds: Bounds) -> World:
    """The same state without what can matter to nobody any more, so that states with the same future are one.

    A worker past its trust can only start anew, so what it holds and how long its number lives is nothing to it. A number that
    nobody uses is as good as lost. An execution in nobody's hands keeps how its attempts ended and not under which fences; a
    final one keeps its outcome alone.
    """
    ledger, late = world.ledger, world.late
    workers = tuple(
        worker if worker.trust or worker.asked >= 0 or not worker.held else worker._replace(held=()) for worker in world.workers
    )
    used = {worker.number for worker in workers if worker.trust or worker.asked >= 0}
    used.update(lease.worker for lease in ledger.leases)
    hands = {held.row.run for worker in workers for held in worker.held}
    if late is not None:
        if late.kind in ("finish", "checkpoint"):
            hands.add(late.values[1].run)
        elif late.kind in ("claim", "renew"):
            used.add(late.by)
    return World(
        ledger._replace(
            runs=tuple(run if nth in hands else _faded(run) for nth, run in enumerate(ledger.runs)),
            lives=tuple(life if nth in used else LOST for nth, life in enumerate(ledger.lives)),
            clock=ledger.clock if ledger.next_target < bounds.targets else bounds.targets - 1,
        ),
        workers,
        *world[2:],
    )


@cache
def _faded(run: store.Run) -> store.Run:
    if len(run.outcomes) == 1:
        return store.Run(run.target, outcomes=run.outcomes)
    return run._replace(ends=tuple(end._replace(fence=0) for end in run.ends))


def _may_fail(world: World, bounds: Bounds, kind: str) -> bool:
    return world.faults < bounds.faults and kind in bounds.faulty


def _may_be_late(world: World, bounds: Bounds, kind: str) -> bool:
    return world.late is None and _may_fail(world, bounds, kind)


def _fault(world: World) -> World:
    return world._replace(faults=world.faults + 1)


def _sent(world: World, kind: str, by: int, values: tuple[object, ...]) -> World:
    return world._replace(late=Late(kind, by, values), faults=world.faults + 1)


def _done(world: World, done: store.Done) -> tuple[World, tuple[Event, ...]]:
    return world._replace(ledger=done[0]), done[1]


def _put(world: World, nth: int, worker: Worker) -> World:
    return world._replace(workers=(*world.workers[:nth], worker, *world.workers[nth + 1 :]))


def _swap(held: tuple[Held, ...], old: Held, new: Held | None) -> tuple[Held, ...]:
    return tuple(new if item is old else item for item in held if item is not old or new is not None)
