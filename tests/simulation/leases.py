"""A simulated etcd: leases, keys and watches, on a machine with a clock of its own, behind a network that may fail.

The product's own adapter speaks to it, through a client that has the methods of the real one.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

from duly.adapters.etcd.client import DEADLINE, Change
from duly.adapters.etcd.leases import EtcdPresence
from duly.domain.errors import Unavailable
from duly.testing.loop import Node, SimulatedLoop

# How often it looks for leases that have ended, in its own seconds.
LOOKS = 0.5


@dataclass(slots=True)
class _Granted:
    """A lease: how long it lasts, until when by the service's clock, and its keys."""

    ttl: float
    until: float
    keys: set[str] = field(default_factory=set)


@dataclass(slots=True)
class LeaseServer:
    """The service. `rate` is how fast its clock runs, `latency` how long anything takes to get there or back."""

    loop: SimulatedLoop
    node: Node
    chance: random.Random
    latency: float = 0.002
    rate: float = 1.0
    is_up: bool = True
    # Nodes that cannot reach it, and that it cannot reach.
    cut_off: set[Node] = field(default_factory=set)
    revision: int = 1
    met: Counter[str] = field(default_factory=Counter)
    _leases: dict[int, _Granted] = field(default_factory=dict)
    _keys: dict[str, int] = field(default_factory=dict)
    _log: list[Change] = field(default_factory=list)
    _watches: list[tuple[Node, str, asyncio.Queue[list[Change] | None]]] = field(default_factory=list)
    _clock: float = 0.0
    _since: float = 0.0
    _next: int = 1

    def start(self) -> None:
        """Look for leases that have ended, on and on."""
        self.node.spawn(self._expire())

    def now(self) -> float:
        """Its own clock."""
        return self._clock + (self.loop.now - self._since) * self.rate

    def drift(self, rate: float) -> None:
        """Its clock runs at this rate from now on."""
        self._clock, self._since, self.rate = self.now(), self.loop.now, rate

    def crash(self) -> None:
        """It is away, and every watch has ended. Its data stay, and leases last anew when it is back."""
        self.is_up = False
        watches, self._watches = self._watches, []
        for node, _, queue in watches:
            self._tell(node, queue, None)

    def restart(self) -> None:
        """It is back."""
        self.is_up = True
        for lease in self._leases.values():
            lease.until = self.now() + lease.ttl

    def wipe(self) -> None:
        """It comes back empty, as another cluster."""
        self.met["lease service came back empty"] += bool(self._keys)
        self._leases, self._keys, self._log, self.revision = {}, {}, [], 1

    def forget(self) -> bool:
        """It revokes the lease of somebody, who knows nothing of it; whether there was one."""
        held = [id for id, lease in self._leases.items() if lease.keys]
        if held:
            self.end(self.chance.choice(held))
        return bool(held)

    def heal(self) -> None:
        """Everything works again."""
        self.restart()
        self.latency = 0.002
        self.drift(1.0)
        self.cut_off.clear()
        self.loop.resume(self.node)

    # ------------------------------------------------------------ what it is asked for

    def grant(self, ttl: int) -> int:
        self._next += 1
        self._leases[self._next] = _Granted(ttl, self.now() + ttl)
        return self._next

    def keep_alive(self, lease: int) -> bool:
        found = self._leases.get(lease)
        if found is None:
            return False
        found.until = self.now() + found.ttl
        return True

    def put(self, key: str, lease: int) -> None:
        if lease not in self._leases:
            raise Unavailable("DULY-E504", "The simulated etcd refuses: requested lease not found.")
        if key in self._keys:
            self._leases[self._keys[key]].keys.discard(key)
        self._keys[key] = lease
        self._leases[lease].keys.add(key)
        self._changed([Change(key, is_gone=False)])

    def keys(self, prefix: str) -> tuple[list[str], int]:
        return sorted(key for key in self._keys if key.startswith(prefix)), self.revision

    def watch(self, node: Node, prefix: str, revision: int) -> asyncio.Queue[list[Change] | None]:
        queue: asyncio.Queue[list[Change] | None] = asyncio.Queue()
        if revision > self.revision + 1:
            # Of another cluster: what it was told to start from is still to come here.
            self.met["watch from the future"] += 1
        self._watches.append((node, prefix, queue))
        self._tell(node, queue, [])
        past = self._log[max(revision - 2, 0) :]
        if past:
            self._tell(node, queue, past)
        return queue

    def end(self, lease: int) -> None:
        """A lease is over, and its keys are gone."""
        found = self._leases.pop(lease, None)
        if found is not None and found.keys:
            for key in found.keys:
                del self._keys[key]
            self._changed([Change(key, is_gone=True) for key in sorted(found.keys)])

    def _changed(self, changes: list[Change]) -> None:
        for change in changes:
            self.revision += 1
            self._log.append(change)
        for node, prefix, queue in self._watches:
            if some := [change for change in changes if change.key.startswith(prefix)]:
                self._tell(node, queue, some)

    def _tell(self, node: Node, queue: asyncio.Queue[list[Change] | None], changes: list[Change] | None) -> None:
        if node not in self.cut_off:
            # In order, as on one connection: all of it takes the same time.
            self.loop.add_timer(node, self.loop.now + self.latency, queue.put_nowait, (changes,))

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(LOOKS / self.rate)
            if self.is_up:
                for id in [id for id, lease in self._leases.items() if lease.until <= self.now()]:
                    self.end(id)


class SimulatedEtcd:
    """One node's client."""

    def __init__(self, server: LeaseServer, node: Node) -> None:
        self._server = server
        self._node = node

    async def grant(self, seconds: int) -> int:
        answer: int = await self._call(lambda: self._server.grant(seconds))
        return answer

    async def keep_alive(self, lease: int) -> bool:
        answer: bool = await self._call(lambda: self._server.keep_alive(lease))
        return answer

    async def revoke(self, lease: int) -> None:
        await self._call(lambda: self._server.end(lease))

    async def put(self, key: str, value: str, lease: int) -> None:
        await self._call(lambda: self._server.put(key, lease))

    async def keys(self, prefix: str) -> tuple[list[str], int]:
        answer: tuple[list[str], int] = await self._call(lambda: self._server.keys(prefix))
        return answer

    async def watch(self, prefix: str, revision: int) -> AsyncGenerator[list[Change], None]:
        queue: asyncio.Queue[list[Change] | None] = await self._call(lambda: self._server.watch(self._node, prefix, revision))
        while (changes := await queue.get()) is not None:
            yield changes
        raise Unavailable("DULY-E504", "The simulated etcd has ended the watch.")

    def use_next(self) -> None:
        """There is one member."""

    def drop(self) -> None:
        """No connections are kept."""

    async def _call(self, work: Callable[[], Any]) -> Any:
        """There, and back: each takes its time, and either may never arrive. What was asked for may be done all the same."""
        server, loop = self._server, self._server.loop
        reply: asyncio.Future[Any] = loop.create_future()
        draw = server.chance.random

        def arrive() -> None:
            if not server.is_up:
                return
            try:
                result: Any = work()
            except Unavailable as error:
                loop.add_timer(self._node, loop.now + server.latency, _refuse, (reply, error))
                return
            back = server.latency * (0.5 + draw())
            if server.latency + back > DEADLINE:
                server.met["lease service answered late"] += 1
            loop.add_timer(self._node, loop.now + back, _answer, (reply, result))

        if self._node not in server.cut_off:
            loop.add_timer(server.node, loop.now + server.latency * (0.5 + draw()), arrive, ())
        try:
            async with asyncio.timeout(DEADLINE):
                return await reply
        except TimeoutError:
            raise Unavailable("DULY-E504", "The simulated etcd does not answer.") from None


def _answer(reply: asyncio.Future[Any], result: Any) -> None:
    if not reply.done():
        reply.set_result(result)


def _refuse(reply: asyncio.Future[Any], error: Exception) -> None:
    if not reply.done():
        reply.set_exception(error)


class WatchedPresence(EtcdPresence):
    """The product's own, and who notes how often it was wrong."""

    def __init__(self, *parts: Any, lives: Callable[[str], bool], met: Counter[str]) -> None:
        super().__init__(*parts)
        self._lives = lives
        self._met = met
        self._told: set[str] = set()

    def left(self) -> frozenset[str]:
        left = super().left()
        for name in left - self._told:
            self._met["a living one was said to have left" if self._lives(name) else "a dead one was said to have left"] += 1
        self._told = set(left)
        return left
