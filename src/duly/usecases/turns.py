"""Long work beside other work on the same event loop."""

from __future__ import annotations

from duly.domain.instants import SECOND, Micros
from duly.ports.clock import Clock

# So long somebody works before others have their turn.
TURN: Micros = SECOND // 200


class Turns:
    """Those of one request; its first begins now."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.boottime()
        self._earlier: Micros = 0

    def spent(self) -> Micros:
        """How long it has worked, its own turns only."""
        return self._earlier + self._clock.boottime() - self._began

    async def give_way(self) -> None:
        """Others have their turn, if this one is over."""
        spent = self._clock.boottime() - self._began
        if spent >= TURN:
            # Not at the top: a schedule is explained on the command line without an event loop, and that loads in a fraction of the time.
            from asyncio import sleep

            self._earlier += spent
            await sleep(0)
            self._began = self._clock.boottime()
