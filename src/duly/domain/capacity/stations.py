"""Where work is done in turn: processors, and the workers of a pool."""

from __future__ import annotations

from heapq import heappop, heappush

from duly.domain.capacity.costs import PoolSize, WriteCost
from duly.domain.capacity.figures import Lateness, Minutes, Peak
from duly.domain.capacity.load import Slice
from duly.domain.instants import Instant, Micros


class Station:
    """Processors that work off what they are given, first come, first served; `rate` of them.

    What they are given flows: nobody waits for a whole processor, and what is asked for while they are busy ends when everything before
    it has ended. So demand beyond their rate shows as a growing wait.
    """

    __slots__ = ("free_at", "minutes", "rate", "spent")

    def __init__(self, rate: float, begin: Instant) -> None:
        self.rate = rate
        self.free_at: float = begin
        self.spent = 0.0
        self.minutes = Minutes(begin)

    def take(self, now: float, work: float, width: float = 0.0) -> float:
        """Do so many microseconds of work; returns when it is done. With a width, it came evenly in the time before now."""
        if not work:
            return now
        came = now - width
        since = max(came, self.free_at)
        self.free_at = since + work / self.rate
        self.spent += work
        self.minutes.spend(since, self.free_at, work)
        return max(now, self.free_at)


class Fire:
    """One fire of a slice, or so many enqueued executions: how many of them are not final yet."""

    __slots__ = ("left",)

    def __init__(self, size: int) -> None:
        self.left = size


class Part:
    """Some executions of one fire that go the same way: they wait, run and end together. `lasts` is how long each of them runs."""

    __slots__ = ("attempt", "due", "fire", "is_ready", "is_stopped", "lasts", "owner", "size", "slots", "started")

    def __init__(self, owner: Slice, fire: Fire, size: int, due: Instant, attempt: int, lasts: Micros, slots: int) -> None:
        self.owner = owner
        self.fire = fire
        self.size = size
        self.due = due
        self.attempt = attempt
        self.lasts = lasts
        # How many slots it needs or has, and since when.
        self.slots = slots
        self.started: float = -1.0
        self.is_ready = self.is_stopped = False


class Pool:
    """The workers of one pool: what waits for them, how many slots are free, and what is remembered."""

    def __init__(self, size: PoolSize, begin: Instant) -> None:
        self.size = size
        self.free = size.total
        self.begin = begin
        # A worker is one process with one event loop: it has one processor at most.
        self.loop = Station(max(size.workers, 1), begin)
        self.waiting: list[tuple[Instant, int, Part]] = []
        self.depth = 0
        self.busy = 0
        self.running = 0
        self.lateness = Lateness()
        self.late_by_minute: dict[int, Micros] = {}
        self.depths = Peak(begin)
        self.slots_used = Peak(begin)
        self.slot_time = Minutes(begin)
        self.fires = self.done = self.dead = self.skipped = self.stopped = self.retries = 0
        # What every part asked for: when it was ready, for how long it had slots, and how many.
        self.asked: list[tuple[float, float, int]] = []
        self._last_batch: dict[str, float] = {}

    def add(self, now: float, rank: Instant, order: int, part: Part) -> None:
        """It is ready, and waits for a slot."""
        heappush(self.waiting, (rank, order, part))
        self.depth += part.size
        # Who came over a time does not wait together, unless nobody takes them.
        if not part.owner.width:
            self.depths.see(self.depth, now)

    def first(self) -> Part | None:
        """Who is next and still wanted. It stays where it is."""
        while self.waiting and self.waiting[0][2].is_stopped:
            heappop(self.waiting)
        return self.waiting[0][2] if self.waiting else None

    def remove_first(self) -> None:
        """Who is next goes."""
        self.depth -= heappop(self.waiting)[2].size

    def note_late(self, due: Instant, late: Micros, times: int) -> None:
        """So many that were due then were that late, or have waited that long."""
        self.lateness.add(late, times)
        minute = (due - self.begin) // 60_000_000
        if late > self.late_by_minute.get(minute, -1):
            self.late_by_minute[minute] = late

    def batches(self, kind: str, cost: WriteCost, now: float, part: Part) -> float:
        """How many transactions this takes. What comes while the last one of each worker is under way goes into the next."""
        since = now - self._last_batch.get(kind, 0.0)
        self._last_batch[kind] = now
        return min(float(part.size) if part.owner.width else 1.0, since * max(self.size.workers, 1) / cost.round)
