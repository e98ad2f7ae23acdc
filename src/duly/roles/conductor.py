"""The conductor: begins runs of workflows, and finds what was lost between the end of a step and what comes after it."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.instants import SECOND, Instant, Micros
from duly.ports.transport import Transport
from duly.roles.loop import Step
from duly.usecases.conduct.conductor import Conductor


@dataclass(frozen=True, slots=True)
class ConductorSettings:
    """How many runs it begins at once, how many it looks at in a round, how often, and how long it rests: hints only make it earlier."""

    begin: int = 100
    look: int = 100
    look_every: Micros = SECOND
    poll: float = 0.5


class ConductorRole:
    """Any number of them may run: of two that take the same run one gets it, and of two that look at one nothing is made twice."""

    name = "conductor"

    def __init__(self, conductor: Conductor, transport: Transport, settings: ConductorSettings | None = None) -> None:
        self._conductor = conductor
        self._transport = transport
        self._settings = settings or ConductorSettings()
        self._look_at: Instant = 0

    async def step(self, now: Instant) -> Step:
        """Begin what is ready; now and then look at what nobody has touched for a while."""
        settings = self._settings
        begun = await self._conductor.begin(now, settings.begin)
        looked = 0
        if now >= self._look_at:
            looked = await self._conductor.look(now, settings.look)
            self._look_at = now + settings.look_every
        is_full = begun >= settings.begin or looked >= settings.look
        return Step(0.0 if is_full else settings.poll, {"begun": begun, "looked": looked})

    async def wait(self, seconds: float) -> None:
        """Rest until something may be ready."""
        await self._transport.wait_flow(seconds)
