"""A worker's inbox: what others have named to it, until it has room for it.

Names are shared out by the same rules as the queue itself, then asked for in the store. Between them the worker looks into the store
only every second, because whatever is ready is named to somebody; unless it was told that a queue is deep, or has seen work there itself:
then it takes from the store for as long as it finds some, as every worker does without a courier, and names would only be a longer way to
the same rows. Who has always found some since it began needs no mail at all: it joins those who share it when it first finds nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from duly.domain.announcements import Named
from duly.domain.execution import Claimed, WorkerId
from duly.domain.fairness import Ask, Work
from duly.domain.instants import SECOND, Micros
from duly.ports.clock import Clock
from duly.ports.named import NamedQueue
from duly.ports.transport import Courier

# A name that has waited for so long has been announced again, and perhaps to somebody with room.
WORTH_FOR: Micros = 3 * SECOND
# How many names may wait.
MOST_NAMES = 5_000
# A tenant whose weight was never seen: it is seen at the next look into the store.
USUAL_WEIGHT = 100
# How often the store is looked into while nobody says that it should be: the longest a lost message can matter.
LOOK_EVERY: Micros = SECOND


@dataclass(frozen=True, slots=True)
class Mail:
    """The way names come, the queue in which they are looked for, and with whom they are shared: those `alike` of the pool."""

    courier: Courier
    queue: NamedQueue
    pool: str
    alike: str


class Inbox:
    """One worker's. Nothing in it is true."""

    def __init__(self, mail: Mail, clock: Clock) -> None:
        self._courier = mail.courier
        self._queue = mail.queue
        self._pool, self._alike = mail.pool, mail.alike
        self._clock = clock
        # When each was received; in the order of receipt.
        self._names: dict[Named, Micros] = {}
        # Whether the store may have more than anybody has named: until a look finds nothing.
        self._may_be_more = False
        self._looked_at: Micros = -LOOK_EVERY

    def work(self, routes: Sequence[int], weights: Mapping[int, int]) -> list[Work]:
        """What was named and is served here, as the store would show it. What is not served is dropped: others of its kind heard it too."""
        now, served = self._clock.boottime(), set(routes)
        if not self._names:
            self._courier.settle()
        for announcement in self._courier.received():
            for name in announcement.named:
                if name.route in served:
                    self._names.setdefault(name, now)
            if not served.isdisjoint(announcement.deep):
                self._may_be_more = True
        if self._names:
            self._names = dict([item for item in self._names.items() if now - item[1] < WORTH_FOR][-MOST_NAMES:])
        queues: dict[tuple[int, int], list[int]] = defaultdict(list)
        for name in self._names:
            queues[name.route, name.tenant].append(name.rank)
        return [Work(route, tenant, weights.get(tenant, USUAL_WEIGHT), min(ranks), len(ranks)) for (route, tenant), ranks in queues.items()]

    def pick(self, asks: Sequence[Ask]) -> list[Named]:
        """Take so many names out, best rank first."""
        left = {(ask.route, ask.tenant): ask.quota for ask in asks}
        picked: list[Named] = []
        for name in sorted(self._names, key=lambda name: (name.rank, name.id)):
            if left.get((name.route, name.tenant), 0) > 0:
                left[name.route, name.tenant] -= 1
                picked.append(name)
        for name in picked:
            del self._names[name]
        return picked

    async def claim(self, worker: WorkerId, named: Sequence[Named], now: int) -> Claimed | None:
        """Ask the store for them. Only then need they not be said again."""
        claimed = await self._queue.claim_named(worker, named, now)
        if not self._names:
            self._courier.settle()
        return claimed

    def may_look(self) -> bool:
        """Whether it is time to look into the store itself."""
        return self._may_be_more or self._clock.boottime() - self._looked_at >= LOOK_EVERY

    def must_look(self) -> bool:
        """Whether that comes before what was named: names without an end would hide whatever nobody names."""
        return self._may_be_more or self._clock.boottime() - self._looked_at >= 2 * LOOK_EVERY

    def looked(self, *, found: bool) -> None:
        """It was looked into. As long as it has work that nobody named, it is the shorter way; once it has none, names are waited for."""
        self._looked_at = self._clock.boottime()
        self._may_be_more = found
        if not found:
            self._courier.listen(self._pool, self._alike)
