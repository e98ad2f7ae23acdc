"""The dispatcher: fires due schedules and due timers of the shards it owns, and announces what is ready."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain import decide
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import JobVersion
from duly.domain.recent import Recent
from duly.ports.clock import Clock
from duly.ports.hot_index import HotIndex
from duly.ports.store import Definitions, Schedules
from duly.ports.transport import Transport
from duly.roles.loop import Step
from duly.roles.ownership import Ownership
from duly.usecases.quotas import Directory


@dataclass(frozen=True, slots=True)
class DispatcherSettings:
    """How much is fired in one batch, and how long to rest at most: the poll is the truth, hints only make it earlier."""

    batch: int = 500
    poll: float = 1.0


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
    ) -> None:
        self._ownership = ownership
        self._schedules = schedules
        self._definitions = definitions
        self._quotas = quotas
        self._hot_index = hot_index
        self._transport = transport
        self._clock = clock
        self._settings = settings
        self._recent: Recent[JobVersion] = Recent()

    async def step(self, now: Instant) -> Step:
        """Fire and promote once; rest until the next known instant or the poll."""
        if await self._ownership.refresh(now):
            await self._hot_index.clear()
        epochs = self._ownership.epochs()
        if not epochs:
            return Step(self._settings.poll)
        await self._hot_index.take_due(now)
        fired, busy = await self._fire(epochs, now)
        promoted = await self._schedules.promote(epochs, now, self._settings.batch)
        if promoted.routes:
            await self._transport.announce(promoted.routes)
        did = {"fired": fired, "promoted": promoted.promoted, "cancelled": promoted.cancelled}
        if busy or promoted.promoted >= self._settings.batch:
            return Step(0.0, did)
        return Step(await self._rest(), did)

    async def _fire(self, epochs: dict[int, int], now: Instant) -> tuple[int, bool]:
        due = await self._schedules.due_schedules(sorted(epochs), now, self._settings.batch)
        if not due:
            return 0, False
        fired = 0
        versions = await self._versions({item.version for item in due}, now)
        quotas = await self._quotas.all(max((version.tenant for version in versions.values()), default=0))
        for firing in decide.firings(due, versions, now, quotas):
            report = await self._schedules.fire(firing, epochs, now)
            fired += report.fired
            routes = sorted({fire.route for fire in firing.fires if fire.skip is None})
            if report.fired > report.skipped:
                await self._transport.announce(routes)
            if report.stopped:
                await self._transport.announce_cancel()
            await self._hot_index.add(
                [advance.next_at for advance in firing.advances if advance.next_at is not None and advance.next_at < now + 60 * SECOND]
            )
        # What nobody here can read stays due; it must not keep us from resting.
        return fired, any(item.version in versions for item in due)

    async def _versions(self, numbers: set[int], now: Instant) -> dict[int, JobVersion]:
        if unknown := self._recent.unknown(numbers, now):
            self._recent.learn(await self._definitions.versions(unknown))
        return self._recent.known(numbers)

    async def _rest(self) -> float:
        next_due = await self._hot_index.next_due()
        if next_due is None:
            return self._settings.poll
        # Half a millisecond past the instant: a timer that rings early would only find that nothing is due yet.
        until: Micros = next_due - self._clock.now() + 500
        return min(max(until / SECOND, 0.0), self._settings.poll)

    async def wait(self, seconds: float) -> None:
        """Rest, and take in what others announce meanwhile: an instant that is known before it comes is met in time."""
        announced = await self._transport.wait_due(self._clock.now() + round(seconds * SECOND), seconds)
        await self._hot_index.add(announced)

    async def stop(self) -> None:
        """The clean stop: others take over at once."""
        await self._ownership.leave(self._clock.now())
