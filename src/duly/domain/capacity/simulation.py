"""The run itself: fires, claims, runs and ends, in the order of time.

It follows parts of slices, not single executions, and knows three places where work waits: the dispatcher, who fires batch after batch; the
processors of the database and of the workers, which work off what they are given; and the slots of each pool. What is due comes in order
from a list; what follows from it (a batch that was fired, a run that ends, a retry) from a heap.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush

from duly.domain.capacity.chance import Chance
from duly.domain.capacity.costs import Fleet, PoolSize, UnitCosts, WriteCost
from duly.domain.capacity.figures import Minutes
from duly.domain.capacity.load import Expected, Progress, Slice
from duly.domain.capacity.stations import Fire, Part, Pool, Station
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import HEAD_STARTS
from duly.domain.overlap import OverlapPolicy
from duly.domain.retry import delay_before_retry

# As the dispatcher has it.
FIRE_BATCH = 500
# A handler that ends within this time never waits: workers fetch far more of such work than they have slots.
AT_ONCE: Micros = SECOND // 1000
TELL_EVERY = 8192
FOREVER: Micros = 1 << 60
_STOPPING = (OverlapPolicy.CANCEL_PREVIOUS, OverlapPolicy.KILL_PREVIOUS)


@dataclass(frozen=True, slots=True)
class Run:
    """What a simulation has seen."""

    begin: Instant
    end: Instant
    pools: dict[str, Pool]
    database: Station
    workers: Station
    dispatching: Minutes
    commits: Minutes
    log: Minutes
    attempts_failed: int
    # All that came up, in executions, and those of them that wait when the horizon ends.
    due: int
    waiting: int


class Simulation:
    """One run. The seed decides durations and failures; with the same one, the same happens."""

    def __init__(self, expected: Expected, fleet: Fleet, costs: UnitCosts, begin: Instant, end: Instant, seed: int) -> None:
        self._slices = expected.slices
        self._dues = expected.dues
        self._costs = costs
        self._begin, self._end = begin, end
        self._chance = Chance(seed ^ 0x5EED)
        self._database = Station(fleet.database_cores, begin)
        self._processors = self._database if fleet.one_machine else Station(fleet.worker_cores, begin)
        names = {slice.load.pool for slice in expected.slices} | fleet.pools.keys()
        self._pools = {name: Pool(fleet.pools.get(name, PoolSize(0, 0)), begin) for name in sorted(names)}
        self._dispatchers = fleet.servers
        self._to_fire: deque[Part] = deque()
        # When, in which order, what, and a mark: of a list, whether a dispatcher fired it; of a part, whether it comes again.
        self._events: list[tuple[float, int, Part | list[Part], bool]] = []
        self._order = 0
        self._commits, self._log, self._dispatching = Minutes(begin), Minutes(begin), Minutes(begin)
        self._failed = 0
        self._owed: dict[int, float] = {}

    def run(self, progress: Progress) -> Run:
        """From the beginning to the end of the horizon; what has not ended by then, waits or runs."""
        events, dues, end = self._events, self._dues, self._end
        nth, due = 0, 0
        while True:
            at = dues[nth][0] if nth < len(dues) else end
            if events and events[0][0] <= at and events[0][0] < end:
                now, _, what, is_again = heappop(events)
                if isinstance(what, list):
                    self._fired_batch(what, now, is_again)
                elif is_again:
                    self._to_fire.append(what)
                    self._fire_what_waits(now)
                else:
                    self._ended(what, now)
            elif nth < len(dues):
                # Everything that is due at this instant: who fires it finds all of it.
                while nth < len(dues) and dues[nth][0] == at:
                    slice = self._slices[dues[nth][1]]
                    due += slice.size
                    self._due(slice, at)
                    nth += 1
                    if nth % TELL_EVERY == 0:
                        progress(nth / len(dues))
                self._fire_what_waits(at)
            else:
                break
        waiting = self._wait_on()
        return Run(
            self._begin,
            end,
            self._pools,
            self._database,
            self._processors,
            self._dispatching,
            self._commits,
            self._log,
            self._failed,
            due,
            waiting,
        )

    # ------------------------------------------------------------ firing

    def _due(self, slice: Slice, now: Instant) -> None:
        part = self._part(slice, Fire(slice.size), slice.size, now, 1)
        self._pools[slice.load.pool].fires += slice.size
        if slice.load.schedule is None:
            self._enqueue(part, now)
        else:
            self._to_fire.append(part)

    def _part(self, slice: Slice, fire: Fire, size: int, due: Instant, attempt: int) -> Part:
        lasts = self._length(slice, size)
        part = Part(slice, fire, size, due, attempt, lasts, self._slots_for(slice, size, lasts))
        if slice.load.overlap.policy in _STOPPING:
            slice.parts.append(part)
        return part

    def _length(self, slice: Slice, size: int) -> Micros:
        """How long these run: by lot. Many that lie apart all run differently, and together they come to the mean."""
        if slice.width and size > 1:
            return round(slice.load.span.mean)
        lengths = slice.load.span.parts()
        return lengths[int(self._chance.draw() * len(lengths))]

    def _enqueue(self, part: Part, now: Instant) -> None:
        cost, load = self._costs.enqueue, part.owner.load
        batches = self._pools[load.pool].batches("enqueue", cost, now, part)
        self._write(cost, part.size, batches, now, load.payload_bytes)
        done = self._database.take(now, part.size * cost.row_database + batches * cost.batch_database, part.owner.width)
        self._push(max(now + cost.round, done), [part], False)

    def _fire_what_waits(self, now: float) -> None:
        while self._to_fire and self._dispatchers:
            self._fire(now)

    def _fire(self, now: float) -> None:
        """Start a batch: everything that is due, up to as much as one takes."""
        batch: list[Part] = []
        size, width = 0, FOREVER
        while self._to_fire and (not batch or size + self._to_fire[0].size <= FIRE_BATCH):
            batch.append(part := self._to_fire.popleft())
            size += part.size
            width = min(width, part.owner.width)
        self._dispatchers -= 1
        cost, least = self._costs.fire, -(-size // FIRE_BATCH)
        batches = max(least, min(size, width / cost.round))
        in_turn = least * cost.round + size * (cost.row_database + cost.row_process)
        self._write(cost, size, batches, now, 0)
        # One after the other: it decides, then waits for the database. What came over a time was done meanwhile, but for the last of it.
        alone = now + max(in_turn - width, cost.round)
        on_database = self._database.take(now, size * cost.row_database + batches * cost.batch_database, width)
        in_process = self._processors.take(now, size * cost.row_process + batches * cost.batch_process, width)
        done = max(alone, on_database, in_process)
        self._dispatching.spend(now, done, done - now)
        self._push(done, batch, True)

    def _fired_batch(self, batch: list[Part], now: float, by_dispatcher: bool) -> None:
        self._dispatchers += by_dispatcher
        for part in batch:
            if not part.is_stopped and (part.attempt > 1 or self._may_run(part, now)):
                self._ready(part, now)
        for name in dict.fromkeys(part.owner.load.pool for part in batch):
            self._serve(self._pools[name], now)
        self._fire_what_waits(now)

    def _may_run(self, part: Part, now: float) -> bool:
        """What the overlap policy says to a fire that meets others of its job."""
        slice, overlap = part.owner, part.owner.load.overlap
        if not overlap.takes_a_place:
            return True
        if slice.live >= overlap.places and overlap.policy in _STOPPING:
            self._stop_all_but(part, now)
        if slice.live < overlap.places:
            slice.live += 1
            return True
        if len(slice.queue) < overlap.queue_depth:
            slice.queue.append(part)
        else:
            self._pools[slice.load.pool].skipped += part.size
        return False

    def _stop_all_but(self, new: Part, now: float) -> None:
        """Everything else of these jobs ends now, whether it runs or waits."""
        slice, pool = new.owner, self._pools[new.owner.load.pool]
        for part in slice.parts:
            if part is new:
                continue
            part.is_stopped = True
            pool.stopped += part.size
            if part.started >= 0:
                self._release(part, now)
            elif part.is_ready:
                pool.depth -= part.size
            part.fire.left -= part.size
        slice.parts, slice.queue, slice.barred = [new], [], []
        slice.live = 0

    # ------------------------------------------------------------ running

    def _ready(self, part: Part, now: float) -> None:
        load = part.owner.load
        part.is_ready = True
        self._order += 1
        self._pools[load.pool].add(now, part.due - HEAD_STARTS[load.priority], self._order, part)

    def _serve(self, pool: Pool, now: float) -> None:
        """Give slots to who is next, as long as there are some."""
        self._start_all(pool, now)
        pool.depths.see(pool.depth, now)

    def _start_all(self, pool: Pool, now: float) -> None:
        while (part := pool.first()) is not None:
            if (part.slots if pool.size.total else 1) > 0 >= pool.free:
                return
            share = min(part.size, part.size * pool.free // part.slots or 1) if part.slots > pool.free else part.size
            if (most := part.owner.load.max_concurrent) is not None:
                share = min(share, most * part.owner.size - part.owner.running)
                if share <= 0:
                    # The limit holds it back, and nobody behind it: it comes again when one of them ends.
                    pool.remove_first()
                    part.is_ready = False
                    part.owner.barred.append(part)
                    continue
            if share < part.size:
                pool.depth -= share
                part = self._cut_off(part, share, pool.free)
            else:
                pool.remove_first()
                part.slots = min(part.slots, pool.free)
            self._start(pool, part, now)

    def _slots_for(self, slice: Slice, size: int, lasts: Micros) -> int:
        """How many slots they have at once. Of many that come over a longer time than they run, as many as there are at any instant of it,
        by lot; of others all: by lot, a full pool would be charged for the lucky ones only."""
        if slice.load.span.p95 < AT_ONCE:
            return 0
        if size == 1 or lasts >= slice.width:
            return size
        return self._chance.number(size * min((lasts + self._costs.claim.round) / slice.width, 1.0))

    def _cut_off(self, part: Part, size: int, most: int) -> Part:
        """So many of them go first, with no more slots than there are."""
        slots = min(max(part.slots * size // part.size, 1 if part.slots else 0), most)
        part.size, part.slots = part.size - size, part.slots - slots
        made = Part(part.owner, part.fire, size, part.due, part.attempt, part.lasts, slots)
        if part.owner.load.overlap.policy in _STOPPING:
            part.owner.parts.append(made)
        return made

    def _start(self, pool: Pool, part: Part, now: float) -> None:
        load, size, slots, width, cost = part.owner.load, part.size, part.slots, part.owner.width, self._costs.claim
        batches = pool.batches("claim", cost, now, part)
        self._write(cost, size, batches, now, 0)
        in_process = size * (cost.row_process + load.cpu) + batches * cost.batch_process
        begun = max(
            now + cost.round,
            self._database.take(now, size * cost.row_database + batches * cost.batch_database, width),
            self._processors.take(now, in_process, width),
            pool.loop.take(now, in_process, width),
        )
        part.started = now
        part.owner.running += size
        pool.running += size
        pool.note_late(part.due, max(round(min(begun, self._end)) - part.due, 0), size)
        # Who came over a time leaves over a time.
        held = max(begun + part.lasts - now, width)
        if slots:
            pool.free -= slots
            pool.busy += slots
            pool.slots_used.see(pool.busy, now)
            pool.asked.append((now, held, slots))
        self._push(now + held, part, False)

    def _ended(self, part: Part, now: float) -> None:
        if part.is_stopped:
            return
        load, cost, pool, width = part.owner.load, self._costs.finish, self._pools[part.owner.load.pool], part.owner.width
        if part.owner.parts:
            part.owner.parts.remove(part)
        self._release(part, now)
        batches = pool.batches("finish", cost, now, part)
        self._write(cost, part.size, batches, now, 0)
        self._database.take(now, part.size * cost.row_database + batches * cost.batch_database, width)
        in_process = part.size * cost.row_process + batches * cost.batch_process
        self._processors.take(now, in_process, width)
        pool.loop.take(now, in_process, width)
        failed = self._how_many_fail(part)
        self._failed += failed
        pool.done += part.size - failed
        if failed and part.attempt < load.retry.max_attempts:
            pool.retries += failed
            again = now + delay_before_retry(load.retry, part.attempt, self._chance.draw())
            self._push(again, self._part(part.owner, part.fire, failed, round(again), part.attempt + 1), True)
            part.size -= failed
        else:
            pool.dead += failed
        if part.size:
            self._final(part, now)
        self._serve(pool, now)

    def _release(self, part: Part, now: float) -> None:
        """Its slots are free again, and so is its share of the job's limit."""
        slice, pool = part.owner, self._pools[part.owner.load.pool]
        pool.running -= part.size
        slice.running -= part.size
        if part.slots:
            pool.free += part.slots
            pool.busy -= part.slots
            pool.slot_time.spend(part.started, now, (now - part.started) * part.slots)
        if slice.barred:
            self._ready(slice.barred.pop(0), now)

    def _how_many_fail(self, part: Part) -> int:
        """By lot, for one; of many, their share, and what that leaves over counts for the next."""
        share = part.owner.load.failures
        if share <= 0.0:
            return 0
        if part.size == 1:
            return 1 if self._chance.draw() < share else 0
        owed = self._owed.get(id(part.owner.load), 0.0) + part.size * share
        failed = min(int(owed), part.size)
        self._owed[id(part.owner.load)] = owed - failed
        return failed

    def _final(self, part: Part, now: float) -> None:
        """They have ended for good; with the last of a fire, its place goes to the next in line."""
        part.fire.left -= part.size
        slice = part.owner
        if part.fire.left or not slice.load.overlap.takes_a_place:
            return
        if slice.queue:
            self._ready(slice.queue.pop(0), now)
        else:
            slice.live -= 1

    # ------------------------------------------------------------ the rest

    def _wait_on(self) -> int:
        """Those that have not started when the horizon ends are late by then, at least. How many are there?"""
        parts: list[Part] = [part for pool in self._pools.values() for _, _, part in pool.waiting]
        parts += [part for slice in self._slices for part in (*slice.queue, *slice.barred)]
        parts += [*self._to_fire, *(part for _, _, what, _ in self._events if isinstance(what, list) for part in what)]
        parts = [part for part in parts if not part.is_stopped]
        for part in parts:
            self._pools[part.owner.load.pool].note_late(part.due, max(self._end - part.due, 0), part.size)
        again = [what for _, _, what, is_again in self._events if is_again and isinstance(what, Part) and not what.is_stopped]
        return sum(part.size for part in parts + again)

    def _write(self, cost: WriteCost, rows: int, batches: float, now: float, more: int) -> None:
        self._commits.add(now, batches)
        self._log.add(now, rows * (cost.row_log + more) + batches * cost.batch_log)

    def _push(self, at: float, what: Part | list[Part], is_again: bool) -> None:
        self._order += 1
        heappush(self._events, (at, self._order, what, is_again))
