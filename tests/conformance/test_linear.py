"""One execution, eight sessions: whatever they do at once, their answers are those of some order, one after the other."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from duly.domain.execution import Claimed
from duly.domain.fairness import Ask
from duly.domain.instants import SECOND, Instant
from duly.domain.job import Job
from duly.domain.lifecycle import Outcome, State, is_final
from duly.domain.retry import Backoff, RetryPolicy
from tests.conformance.linear import Operation, Search
from tests.conformance.test_races import Opener, lighter_on_sqlite, worlds
from tests.conformance.world import START, World

RETRY = RetryPolicy(max_attempts=3, backoff=Backoff.FIXED, initial_delay=5 * SECOND, jitter=0.0, max_losses=4)
LIFE = 20 * SECOND
WAITING = (State.SCHEDULED, State.PENDING)


# ---------------------------------------------------------------- one execution, alone


@dataclass(frozen=True)
class Alone:
    """All that can be said about one execution while nobody else is there."""

    state: State = State.PENDING
    due_at: Instant = START
    lease: int = 0
    holder: int = 0
    # When somebody had been told that his wish to stop it is known.
    wished: int | None = None
    checkpoint: int = 0
    # (worker, lives until), and who is lost for good.
    lives: frozenset[tuple[int, Instant]] = frozenset()
    lost: frozenset[int] = frozenset()
    ends: tuple[Outcome, ...] = ()
    # Leases under which it has ended, and the one whose checkpoint is the last.
    reported: frozenset[int] = frozenset()
    saved_under: int = 0

    def life(self, worker: int) -> Instant:
        return dict(self.lives)[worker]

    def is_live(self, worker: int, now: Instant) -> bool:
        return worker not in self.lost and self.life(worker) > now

    def runs_under(self, worker: int, lease: int) -> bool:
        return self.state is State.RUNNING and (self.holder, self.lease) == (worker, lease)

    def ended(self, op: Operation, outcome: Outcome, state: State, retry_at: Instant | None) -> Iterable[Alone]:
        """A wish that comes while an attempt ends may not be noticed: what waits once more is stopped there."""
        ended = replace(self, state=state, lease=0, holder=0, ends=(*self.ends, outcome))
        waits = state is State.SCHEDULED
        obeys = waits or outcome is Outcome.WORKER_LOST
        if self.wished is None or self.wished > op.begun or not obeys:
            yield replace(ended, due_at=retry_at) if waits and retry_at is not None else ended
        if self.wished is not None and obeys:
            yield replace(ended, state=State.CANCELLED)


def is_beyond_sense(until: Instant, now: Instant) -> bool:
    """No worker is given so long a life: the clock was set back since."""
    return until > now + 2 * LIFE


def renewed(until: Instant, now: Instant) -> Instant:
    """A renewal that comes late shortens nothing that makes sense."""
    return now + LIFE if is_beyond_sense(until, now) else max(until, now + LIFE)


def step(now_is: Alone, op: Operation) -> Iterable[Alone]:
    """Where the operation leaves it, if it may answer so here. Whoever skips a locked row may also have done nothing."""
    match op.name, op.arguments:
        case "claim", (worker, now):
            if op.answer is None:
                yield now_is
            elif now_is.state is State.PENDING and now_is.is_live(worker, now):
                yield replace(now_is, state=State.RUNNING, lease=op.answer, holder=worker)
        case "finish", (worker, lease, outcome, state, retry_at):
            if now_is.runs_under(worker, lease):
                if not op.answer:
                    yield from replace(now_is, reported=now_is.reported | {lease}).ended(op, outcome, state, retry_at)
            elif op.answer == (lease not in now_is.reported):
                yield now_is
        case "save", (worker, lease, number):
            fits = number > now_is.checkpoint or (number == now_is.checkpoint and now_is.saved_under == lease)
            if op.answer == (now_is.runs_under(worker, lease) and fits):
                yield replace(now_is, checkpoint=number, saved_under=lease) if op.answer else now_is
        case "renew", (worker, now):
            if op.answer == now_is.is_live(worker, now):
                lives = frozenset((one, renewed(until, now) if one == worker else until) for one, until in now_is.lives)
                yield replace(now_is, lives=lives) if op.answer else now_is
        case "bury", (now,):
            gone = {worker for worker, until in now_is.lives if until <= now or is_beyond_sense(until, now)}
            yield replace(now_is, lost=now_is.lost | gone)
        case "lose", (now,):
            yield now_is
            if now_is.state is State.RUNNING and now_is.holder in now_is.lost:
                dies = now_is.ends.count(Outcome.WORKER_LOST) + 1 >= RETRY.max_losses
                # When it waits again is for the product to say; the final look does not depend on it, a promotion may.
                yield from now_is.ended(op, Outcome.WORKER_LOST, State.DEAD if dies else State.SCHEDULED, now)
        case "promote", (now,):
            yield now_is
            if now_is.state is State.SCHEDULED and now_is.due_at <= now:
                yield replace(now_is, state=State.PENDING if now_is.wished is None else State.CANCELLED)
        case "wish", ():
            is_new = now_is.wished is None and not is_final(now_is.state)
            yield replace(now_is, wished=op.ended) if is_new else now_is
        case "act", ():
            yield replace(now_is, state=State.CANCELLED) if now_is.wished is not None and now_is.state in WAITING else now_is
        case "read", ():
            if op.answer is now_is.state:
                yield now_is
        case "look", ():
            if op.answer == (now_is.state, now_is.ends, now_is.checkpoint):
                yield now_is


# ---------------------------------------------------------------- eight sessions


@dataclass
class Sessions:
    """What they do, and what each was told."""

    job: Job
    run_id: Any
    workers: list[int]
    chance: random.Random
    operations: list[Operation] = field(default_factory=list)
    ticks: Any = field(default_factory=itertools.count)

    async def noted(self, name: str, arguments: tuple[Any, ...], call: Any, told: Callable[[Any], Any] = lambda answer: answer) -> Any:
        begun = next(self.ticks)
        answer = await call
        self.operations.append(Operation(begun, next(self.ticks), name, arguments, told(answer)))
        return answer

    def now(self) -> Instant:
        """Whatever the session's clock says: they do not agree."""
        return START + self.chance.randrange(40 * SECOND)

    async def breathe(self) -> None:
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)

    async def work(self, world: World, worker: int, rounds: int) -> None:
        for _ in range(rounds):
            await self.breathe()
            now = self.now()
            claim = world.store.ready.claim(worker, [_ask(self.job)], now)
            claimed = await self.noted("claim", (worker, now), claim, lambda got: None if got is None else got.lease)
            if claimed is None:
                continue
            await self._run(world, worker, claimed)

    async def _run(self, world: World, worker: int, claimed: Claimed) -> None:
        saved = await world.store.checkpoints.saved([self.run_id])
        number = saved[self.run_id].number if self.run_id in saved else 0
        for _ in range(self.chance.randrange(3)):
            number = max(number + self.chance.choice((0, 1, 1)), 1)
            save = world.store.checkpoints.save(worker, claimed.lease, self.run_id, number, "{}", START)
            await self.noted("save", (worker, claimed.lease, number), save)
            await self.breathe()
        outcome = self.chance.choice((Outcome.SUCCEEDED, Outcome.FAILED, Outcome.FAILED, Outcome.RELEASED))
        [report] = await world.ended(claimed, outcome)
        for _ in range(self.chance.choice((0, 1, 1, 2))):
            finish = world.store.outcomes.finish(worker, [report], [claimed.lease], START)
            arguments = (worker, claimed.lease, outcome, report.state, report.retry_at)
            await self.noted("finish", arguments, finish, bool)
            await self.breathe()

    async def sweep(self, world: World) -> None:
        for _ in range(3):
            await self.breathe()
            now = self.now()
            await self.noted("bury", (now,), world.store.losses.bury_workers(now), lambda _: None)
            await self.noted("lose", (START,), world.store.losses.lose(world.after_loss, START, 1000), lambda _: None)

    async def promote(self, world: World) -> None:
        for _ in range(4):
            await self.breathe()
            now = self.now()
            await self.noted("promote", (now,), world.store.schedules.promote(world.epochs, now, 1000), lambda _: None)

    async def renew(self, world: World) -> None:
        for _ in range(3):
            await self.breathe()
            worker, now = self.chance.choice(self.workers), self.now()
            await self.noted("renew", (worker, now), world.store.liveness.renew(worker, now, LIFE), lambda stops: stops is not None)

    async def cancel(self, world: World) -> None:
        """Three commits: the wish, what it does to what waits, and the look at what came of it."""
        for _ in range(self.chance.choice((0, 0, 1, 2))):
            await self.breathe()
            begun = next(self.ticks)
            state = (await world.cancel(self.run_id))[self.run_id]
            ended = next(self.ticks)
            wish = Operation(begun, ended, "wish")
            act = Operation(begun, ended, "act", after=wish)
            self.operations += [wish, act, Operation(begun, ended, "read", answer=state, after=act)]

    async def look(self, world: World) -> None:
        """When all is quiet."""
        shown = await world.execution(self.run_id)
        attempts = await world.store.insights.attempts(self.run_id)
        ends = tuple(attempt.outcome for attempt in attempts if attempt.outcome is not None)
        saved = await world.store.checkpoints.saved([self.run_id])
        number = saved[self.run_id].number if self.run_id in saved else 0
        tick = next(self.ticks)
        self.operations.append(Operation(tick, next(self.ticks), "look", answer=(shown.state, ends, number)))


def _ask(job: Job) -> Ask:
    return Ask(job.version.route, job.version.tenant, 1)


async def eight_at_once(all_worlds: list[World], nth: int) -> list[Operation]:
    """One round on an execution of its own."""
    first, *others = all_worlds
    job = await first.job(retry=RETRY, pool=f"pool-{nth}")
    [run_id] = await first.enqueue(job)
    workers = [await first.worker(ttl=LIFE) for _ in range(3)]
    sessions = Sessions(job, run_id, workers, random.Random(nth))
    hands = itertools.cycle((first, *others))
    await asyncio.gather(
        *(sessions.work(next(hands), worker, 3) for worker in workers),
        sessions.sweep(next(hands)),
        sessions.sweep(next(hands)),
        sessions.promote(next(hands)),
        sessions.renew(next(hands)),
        sessions.cancel(next(hands)),
    )
    await sessions.look(first)
    return sessions.operations


def start_of(operations: list[Operation]) -> Alone:
    workers = {op.arguments[0] for op in operations if op.name in ("claim", "renew", "save", "finish")}
    return Alone(lives=frozenset((worker, START + LIFE) for worker in workers))


# Which of the sessions comes first is the machine's choice: rounds go on until each of these was met, or were never.
MET = ("claim", "refused", "WORKER_LOST", "FAILED")
ROUNDS_AT_MOST = 4_000


@pytest.mark.slow
async def test_eight_sessions_on_one_execution_are_explained_by_one_order(open_engine: Opener, long_form: bool) -> None:
    search, seen = Search(step), Counter[str]()
    async with worlds(open_engine, 4) as opened:
        await opened[0].own_shards()
        for world in opened[1:]:
            world.epochs = opened[0].epochs
        rounds = lighter_on_sqlite(opened[0], 150, 25) * (20 if long_form else 1)
        for nth in range(ROUNDS_AT_MOST):
            if nth >= rounds and all(seen[name] for name in MET):
                break
            operations = await eight_at_once(opened, nth)
            assert search.order(start_of(operations), operations) is not None, "\n".join(map(str, operations))
            seen.update(op.name for op in operations if op.name == "claim" and op.answer)
            seen.update("refused" for op in operations if op.name == "finish" and op.answer)
            seen.update(end.name for op in operations if op.name == "look" for end in op.answer[1])

    assert all(seen[name] for name in MET), f"the sessions hardly met: {seen}"


W1, W2 = 1, 2
LONG_GONE = START + LIFE


def told(*answers: tuple[str, tuple[Any, ...], Any], at_once: bool = False) -> list[Operation]:
    """One after the other, or all between the same two instants."""
    return [Operation(0 if at_once else 2 * nth, 99 if at_once else 2 * nth + 1, *one) for nth, one in enumerate(answers)]


CLAIM_1 = ("claim", (W1, START), 1)
CLAIM_2 = ("claim", (W2, START), 2)
SUCCEEDED_1 = ("finish", (W1, 1, Outcome.SUCCEEDED, State.SUCCEEDED, None))
SUCCEEDED_2 = ("finish", (W2, 2, Outcome.SUCCEEDED, State.SUCCEEDED, None))
RENEW_1 = ("renew", (W1, LONG_GONE - SECOND), True)
LOST_1 = (("bury", (LONG_GONE,), None), ("lose", (START,), None), ("promote", (START,), None))
CLAIM_2_LATER = (("renew", (W2, START + SECOND), True), *LOST_1, CLAIM_2)


@pytest.mark.parametrize(
    ("answers", "at_once", "is_explained"),
    [
        ((CLAIM_1, CLAIM_2), False, False),
        ((CLAIM_1, ("claim", (W2, START), None)), False, True),
        ((CLAIM_1, (*SUCCEEDED_1, False)), False, True),
        ((CLAIM_1, (*SUCCEEDED_1, True)), False, False),
        # A finish that is repeated is accepted; one that comes after the loss is refused.
        ((CLAIM_1, (*SUCCEEDED_1, False), (*SUCCEEDED_1, False)), False, True),
        ((CLAIM_1, *LOST_1, (*SUCCEEDED_1, True)), False, True),
        ((CLAIM_1, *CLAIM_2_LATER, (*SUCCEEDED_1, True), (*SUCCEEDED_2, False)), False, True),
        ((CLAIM_1, *CLAIM_2_LATER, (*SUCCEEDED_1, False), (*SUCCEEDED_2, False)), False, False),
        # At once, the order is free; but each is done once.
        (((*SUCCEEDED_1, False), CLAIM_1), True, True),
        (((*SUCCEEDED_1, False), CLAIM_1), False, False),
        ((CLAIM_1, CLAIM_2), True, False),
        # Checkpoints only grow, and only under the lease that runs.
        ((CLAIM_1, ("save", (W1, 1, 2), True), ("save", (W1, 1, 1), False)), False, True),
        ((CLAIM_1, ("save", (W1, 1, 2), True), ("save", (W1, 1, 1), True)), False, False),
        ((CLAIM_1, *CLAIM_2_LATER, ("save", (W1, 1, 3), True)), False, False),
        # A worker past its time gets nothing, and does not come back.
        ((("claim", (W1, LONG_GONE), 1),), False, False),
        ((("bury", (LONG_GONE,), None), ("renew", (W1, START), True)), False, False),
        ((("bury", (LONG_GONE - 1,), None), ("renew", (W1, START), True)), False, True),
        # A renewal that comes late shortens nothing; a life that no clock can have given is not believed.
        ((RENEW_1, ("renew", (W1, START), True), ("claim", (W1, LONG_GONE), 1)), False, True),
        ((CLAIM_1, RENEW_1, ("bury", (START,), None), ("renew", (W1, START), True)), False, True),
        ((CLAIM_1, RENEW_1, ("bury", (START - 2 * SECOND,), None), ("renew", (W1, START), False)), False, True),
        ((CLAIM_1, RENEW_1, ("bury", (START - 2 * SECOND,), None), ("renew", (W1, START), True)), False, False),
        ((RENEW_1, ("renew", (W1, START - 2 * SECOND), True), ("claim", (W1, LONG_GONE), 1)), False, False),
        ((("wish", (), None), ("act", (), None), CLAIM_1), False, False),
        ((CLAIM_1, ("wish", (), None), ("act", (), None), ("read", (), State.RUNNING)), False, True),
        # A wish that is known when the attempt ends is obeyed; one that comes meanwhile may be obeyed later.
        ((CLAIM_1, ("wish", (), None), *LOST_1[:2], ("look", (), (State.CANCELLED, (Outcome.WORKER_LOST,), 0))), False, True),
        ((CLAIM_1, ("wish", (), None), *LOST_1[:2], ("look", (), (State.SCHEDULED, (Outcome.WORKER_LOST,), 0))), False, False),
        ((CLAIM_1, ("wish", (), None), *LOST_1[:2], ("look", (), (State.SCHEDULED, (Outcome.WORKER_LOST,), 0))), True, True),
    ],
)
def test_the_search_tells_what_can_be_from_what_cannot(answers: Any, at_once: bool, is_explained: bool) -> None:
    start = Alone(lives=frozenset({(W1, START + LIFE), (W2, START + LIFE)}))

    assert (Search(step).order(start, told(*answers, at_once=at_once)) is not None) is is_explained
