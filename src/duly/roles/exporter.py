"""The exporter: brings finished executions to where they are analysed. At least once; who reads counts each id once."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.instants import SECOND, Instant, Micros
from duly.ports.records import Records, RecordSink
from duly.roles.loop import Step


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """How many go at once, how often it looks, and for how long it is the one who exports without saying so again."""

    batch: int = 10_000
    every: float = 2.0
    ttl: Micros = 30 * SECOND


class Exporter:
    """Any number may run: the store lets one at a time export, and another takes over when that one is gone."""

    name = "exporter"

    def __init__(self, exporter: str, records: Records, sink: RecordSink, settings: ExporterSettings) -> None:
        self._exporter = exporter
        self._records = records
        self._sink = sink
        self._settings = settings
        self._is_prepared = False
        self._has_history = True

    async def step(self, now: Instant) -> Step:
        """Export a batch of what has just ended and, until there is none left, one of what had ended before."""
        settings = self._settings
        if not await self._records.take(self._exporter, now, settings.ttl):
            # Whoever exports now may lapse before it is our turn again.
            self._has_history = True
            return Step(settings.every, {"exported": 0})
        if not self._is_prepared:
            await self._sink.prepare()
            self._is_prepared = True
        fresh = await self._export_fresh()
        old = await self._export_history() if self._has_history else 0
        is_more = fresh >= settings.batch or self._has_history
        return Step(0.0 if is_more else settings.every, {"exported": fresh + old, "history": old})

    async def _export_fresh(self) -> int:
        noted = await self._records.unexported(self._settings.batch)
        if noted.records:
            await self._sink.write(noted.records)
        # Only now: whatever ends us before it, they are exported again by whoever comes next.
        if noted.places:
            await self._records.drop(noted.places)
        return len(noted.records)

    async def _export_history(self) -> int:
        past = await self._records.history(self._settings.batch)
        if past.records:
            await self._sink.write(past.records)
            await self._records.reach(past.reached)
        self._has_history = past.reached is not None
        return len(past.records)

    async def stop(self) -> None:
        """The clean stop: another may go on at once."""
        await self._records.leave(self._exporter)


@dataclass(frozen=True, slots=True)
class LapseSettings:
    """How long executions are noted for an exporter that does not come back."""

    patience: Micros = 7 * 24 * 3600 * SECOND
    every: float = 60.0


class Lapse:
    """Runs where nothing is exported: notes that nobody takes away must not grow for ever."""

    name = "lapse"

    def __init__(self, records: Records, settings: LapseSettings) -> None:
        self._records = records
        self._settings = settings

    async def step(self, now: Instant) -> Step:
        """Look once."""
        lapsed = await self._records.lapse(now - self._settings.patience)
        return Step(self._settings.every, {"lapsed": int(lapsed)})
