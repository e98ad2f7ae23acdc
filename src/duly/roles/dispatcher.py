"""The dispatcher: fires due schedules and due timers of the shards it owns, and announces what is ready."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from duly.domain import decide
from duly.domain.execution import DueSchedule
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import JobVersion
from duly.domain.recent import Recent
from duly.ports.clock import Clock
from duly.ports.hot_index import Coming, HotIndex
from duly.ports.store import Definitions, PromoteReport, Schedules
from duly.ports.transport import Transport
from duly.roles import loop
from duly.roles.loop import Step, both
from duly.roles.ownership import Ownership
from duly.usecases.quotas import Directory

# So many due schedules are read, decided and written before the next ones.
AT_ONCE = 2_000
# Fewer are one batch.
FEW = 20


@dataclass(frozen=True, slots=True)
class DispatcherSettings:
    """How much is fired in one batch, and how long to rest at most: the poll is the truth, hints only make it earlier."""

    batch: int = 500
    poll: float = 1.0
    # What comes later than this is the hydrator's: he reads it from the store in time.
    near: Micros = 60 * SECOND
    announced: Micros = 5 * SECOND


class Dispatcher:
    """Reads what is due, decides, writes under its epochs. Two of them on one shard are harmless."""

    name = "dispatcher"

    def __init__(
        self,
        ownership: Ownership,
        schedules: Schedules,
        definitions: Definitions,
        quotas: Directory,
        hot_index: HotIndex,
        transport: Transport,
        clock: Clock,
        settings: DispatcherSettings,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._ownership = ownership
        self._schedules = schedules
        self._definitions = definitions
        self._quotas = quotas
        self._hot_index = hot_index
        self._transport = transport
        self._clock = clock
        self._settings = settings
        self._sleep = sleep
        self._recent: Recent[JobVersion] = Recent()
        # Instants that others announced. They do not say whose shard it is, so they are reminders of our own, and short ones: the
        # hydrator hears of the same and puts what is ours into the index.
        self._announced: list[Instant] = []

    async def step(self, now: Instant) -> Step:
        """Fire and promote once; rest until the next known instant or the poll."""
        await self._ownership.refresh(now)
        epochs = self._ownership.epochs()
        if not epochs:
            return Step(self._poll())
        while self._announced and self._announced[0] <= now:
            heapq.heappop(self._announced)
        # Side by side: whoever waits for a timer need not wait for the look at the schedules, nor for a herd of them.
        promoted, (fired, behind, is_busy) = await both(self._promote(epochs, now), self._fire(epochs, now))
        did = {"fired": fired, "promoted": promoted.promoted, "cancelled": promoted.cancelled}
        is_full = promoted.promoted >= self._settings.batch
        await self._ownership.stir(epochs if is_full else behind, now)
        # What has come up to now was looked at. After the firing, not before: nobody waits for the index then.
        next_due = await self._hot_index.take(epochs, now)
        return Step(0.0 if is_busy or is_full else self._rest(next_due), did)

    async def _fire(self, epochs: dict[int, int], now: Instant) -> tuple[int, set[int], bool]:
        """How much it fired, the shards that had something due, and whether they may have more."""
        due = await self._schedules.due_schedules(sorted(epochs), now, self._settings.batch)
        behind = {item.shard for item in due}
        if not due:
            return 0, behind, False
        fired, is_busy = 0, False
        async with contextlib.aclosing(self._decided(due, now)) as decided:
            firing = await anext(decided, None)
            while firing is not None:
                is_busy = True
                if len(due) < FEW:
                    fired += await self._write(firing, behind, epochs, now)
                    firing = await anext(decided, None)
                    continue
                # While the store writes the one, the next is decided. A task is worth it only where there is a next one.
                firing, written = await both(_following(decided), self._write(firing, behind, epochs, now))
                fired += written
        return fired, behind, is_busy

    async def _decided(self, due: Sequence[DueSchedule], now: Instant) -> AsyncGenerator[decide.Firing, None]:
        """Part by part: of a herd the first are run while the last are still being read. What nobody here can read stays due, and must
        not keep us from resting."""
        for first in range(0, len(due), AT_ONCE):
            part = due[first : first + AT_ONCE]
            versions = await self._versions({item.version for item in part}, now)
            quotas = await self._quotas.all(max([version.tenant for version in versions.values()], default=0))
            for firing in decide.firings(part, versions, now, quotas):
                yield firing

    async def _promote(self, epochs: dict[int, int], now: Instant) -> PromoteReport:
        """Make due timers ready, and say so."""
        promoted = await self._schedules.promote(epochs, now, self._settings.batch)
        if promoted.routes:
            await self._transport.announce(promoted.routes)
        return promoted

    async def _write(self, firing: decide.Firing, behind: set[int], epochs: dict[int, int], now: Instant) -> int:
        """Fire a batch, and say so to whoever waits for it."""
        await self._ownership.stir(behind, self._clock.now())
        report = await self._schedules.fire(firing, epochs, now)
        if report.fired > report.skipped:
            await self._transport.announce(sorted({fire.route for fire in firing.fires if fire.skip is None}))
        if report.stopped:
            await self._transport.announce_cancel()
        near = now + self._settings.near
        soon = {Coming(move.next_at, move.shard) for move in firing.advances if move.next_at is not None and move.next_at < near}
        if soon:
            await self._hot_index.add(soon)
        return report.fired

    async def _versions(self, numbers: set[int], now: Instant) -> dict[int, JobVersion]:
        if unknown := self._recent.unknown(numbers, now):
            self._recent.learn(await self._definitions.versions(unknown))
        return self._recent.known(numbers)

    def _rest(self, next_due: Instant | None) -> float:
        if self._announced:
            next_due = self._announced[0] if next_due is None else min(next_due, self._announced[0])
        if next_due is None:
            return self._poll()
        until: Micros = next_due - self._clock.now()
        return min(max(until / SECOND, 0.0), self._poll())

    def _poll(self) -> float:
        longest = self._ownership.longest_rest()
        return self._settings.poll if longest is None else min(longest / SECOND, self._settings.poll)

    async def wait(self, seconds: float) -> None:
        """Rest, and take in what others announce meanwhile: an instant that is known before it comes is met in time.

        Also until somebody is said to have come or gone.
        """
        # The transport counts roughly, so it is not the one that ends the rest.
        until = self._clock.now() + round(seconds * SECOND)
        announced = asyncio.ensure_future(self._transport.wait_due(until, seconds + loop.SLACK))
        news = asyncio.ensure_future(self._ownership.news())
        over = asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait((announced, news, over), return_when=asyncio.FIRST_COMPLETED)
            if announced.done():
                now = self._clock.now()
                for at in {at for at in announced.result() if at < now + self._settings.announced}:
                    heapq.heappush(self._announced, at)
                if self._announced and self._announced[0] <= now:
                    # Due already, and nobody has come to it: perhaps because its shard is given up.
                    self._ownership.look_at_once()
        finally:
            for waiter in (announced, news, over):
                waiter.cancel()

    async def stop(self) -> None:
        """The clean stop: others take over at once, and are told so."""
        now = self._clock.now()
        await self._ownership.leave(now)
        await self._transport.announce_due(now)


async def _following(decided: AsyncGenerator[decide.Firing, None]) -> decide.Firing | None:
    return await anext(decided, None)
