"""The small ports, made unreliable: a transport that loses, repeats, delays and reorders, a hot index that forgets and lies."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from duly.adapters.sql.bell import Bell
from duly.domain.announcements import Announcement
from duly.domain.instants import SECOND, Instant
from duly.ports.hot_index import Coming
from duly.testing.loop import Node, SimulatedLoop


@dataclass(slots=True)
class Air:
    """What carries the hints of the fleet. Chances are per message and listener."""

    loop: SimulatedLoop
    chance: random.Random
    # Whether nothing is ready at this moment: a message that comes now comes after the work is done.
    is_idle: Callable[[], bool]
    delay: float = 0.002
    loses: float = 0.0
    repeats: float = 0.0
    lags: float = 0.0
    bells: dict[Node, Bell] = field(default_factory=dict)
    # Who receives names, and never again once he is gone.
    boxes: dict[Node, SimulatedTransport] = field(default_factory=dict)
    met: Counter[str] = field(default_factory=Counter)

    def say(self, ring: Callable[[Bell], None]) -> None:
        """Tell everybody, each in his own time, if at all."""
        draw = self.chance.random
        for node, bell in self.bells.items():
            if self.loses and draw() < self.loses:
                self.met["message lost"] += 1
                continue
            wait = self.delay * draw() + (self.lags * draw() if self.lags else 0.0)
            self.loop.add_timer(node, self.loop.now + wait, ring, (bell,))
            if self.repeats and draw() < self.repeats:
                self.loop.add_timer(node, self.loop.now + wait + 5 * draw(), self._repeat, (bell, ring))

    def carry(self, announcement: Announcement, *, to_all: bool = False) -> None:
        """Bring names to one worker, or to all. Some are lost, some come again, late, out of order, and to somebody else: a zombie that
        was thought gone, or whoever took its partitions over."""
        draw, boxes = self.chance.random, list(self.boxes.items())
        for node, box in boxes if to_all else boxes and [self.chance.choice(boxes)]:
            if self.loses and draw() < self.loses:
                self.met["message lost"] += 1
                continue
            wait = self.delay * draw() + (self.lags * draw() if self.lags else 0.0)
            self.loop.add_timer(node, self.loop.now + wait, box.put, (announcement,))
            if self.repeats and draw() < self.repeats:
                for other, again in [self.chance.choice(boxes), (node, box)]:
                    self.met["names repeated"] += 1
                    self.loop.add_timer(other, self.loop.now + wait + 5 * draw(), again.put, (announcement,))

    def _repeat(self, bell: Bell, ring: Callable[[Bell], None]) -> None:
        self.met["message repeated"] += 1
        if self.is_idle():
            self.met["redelivered after completion"] += 1
        ring(bell)


class SimulatedTransport(Bell):
    """One node's end of it: what it announces goes through the air, what it hears comes from there."""

    def __init__(self, air: Air, node: Node) -> None:
        super().__init__()
        self._air = air
        air.bells[node] = self

        self._node = node
        self._mail: list[Announcement] = []
        self._came = asyncio.Event()

    async def post(self, pool: str, announcements: Sequence[Announcement]) -> None:
        for announcement in announcements:
            self._air.carry(announcement)

    async def post_all(self, pool: str, announcement: Announcement) -> None:
        self._air.carry(announcement, to_all=True)

    def listen(self, pool: str, alike: str) -> None:
        self._air.boxes[self._node] = self

    def put(self, announcement: Announcement) -> None:
        """It has come."""
        self._mail.append(announcement)
        self._came.set()

    def received(self) -> list[Announcement]:
        mail, self._mail = self._mail, []
        return mail

    def settle(self) -> None:
        """Nothing is kept for anybody here: whatever is not taken is named again."""

    async def wait_mail(self, timeout: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._came.wait()
        heard = self._came.is_set()
        # Heard once: who has no room for the mail now must not be called again and again.
        self._came.clear()
        return heard

    async def announce(self, routes: Sequence[int]) -> None:
        self._air.say(Bell.ring)

    async def announce_due(self, at: Instant) -> None:
        self._air.say(lambda bell: bell.ring_due(at))

    async def announce_cancel(self) -> None:
        self._air.say(Bell.ring_cancel)


@dataclass(slots=True)
class IndexServer:
    """What a Redis would hold, and what becomes of it. Shared by the fleet, or one for each process, as in memory."""

    instants: set[Coming] = field(default_factory=set)
    # Who has filled which shard, by the stamp of the filling.
    stamps: set[tuple[int, str]] = field(default_factory=set)
    is_away: bool = False
    kept: tuple[set[Coming], set[tuple[int, str]]] = field(default_factory=lambda: (set(), set()))

    def keep(self) -> None:
        """A dump, for later."""
        self.kept = (set(self.instants), set(self.stamps))

    def lose(self) -> None:
        """Everything is gone: FLUSHALL, or a restart."""
        self.instants.clear()
        self.stamps.clear()

    def lose_half(self) -> None:
        """The later half is gone and nobody can tell: the stamps are still there."""
        self.instants = set(sorted(self.instants)[: len(self.instants) // 2])

    def restore(self) -> None:
        """It is as it was when the dump was made: instants that have passed or moved come back, newer ones are gone."""
        self.instants, self.stamps = set(self.kept[0]), set(self.kept[1])

    def lie(self, chance: random.Random, now: Instant, shards: int) -> None:
        """Instants at which nothing is due, in the past, near and far."""
        for _ in range(chance.choice((1, 20))):
            self.instants.add(Coming(now + round(chance.uniform(-5, 30) * SECOND), chance.randrange(shards)))


class SimulatedIndex:
    """One process's end of it."""

    def __init__(self, server: IndexServer, name: str) -> None:
        self.server = server
        self._name = name
        self._fillings = 0
        self._stamp = ""
        self._gap = asyncio.Event()

    async def add(self, coming: Iterable[Coming]) -> None:
        if not self.server.is_away:
            self.server.instants.update(coming)

    async def fill(self, shards: Collection[int], coming: Iterable[Coming], now: Instant) -> None:
        if self.server.is_away:
            return
        stamps = self.server.stamps
        stamps.difference_update([(shard, self._stamp) for shard in shards])
        self._fillings += 1
        self._stamp = f"{self._name}:{self._fillings}"
        stamps.update((shard, self._stamp) for shard in shards)
        await self.add(coming)

    async def take(self, shards: Collection[int], until: Instant) -> Instant | None:
        server = self.server
        if server.is_away:
            return None
        server.instants -= {one for one in server.instants if one.at <= until and one.shard in shards}
        if any((shard, self._stamp) not in server.stamps for shard in shards):
            self._gap.set()
        return min((one.at for one in server.instants if one.shard in shards), default=None)

    async def wait_gap(self, timeout: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._gap.wait()
        is_gap = self._gap.is_set()
        self._gap.clear()
        return is_gap
