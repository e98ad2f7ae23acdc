"""Hand-overs beside the work: whoever reported the end of a step goes on, while what comes after it is made.

Waiting for them would cost twice. A worker that makes ten thousand items could run none of them meanwhile; and along a chain the next
step is there before its hand-over has looked whether somebody has cancelled the run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger("duly.workflows")

# More ends than that are not handed over at once: whoever brings the next waits for one of them.
MOST_AT_ONCE = 8
# Seconds.
LONGEST_GOODBYE = 10.0


class Beside:
    """Hand-overs that are under way in this process. One that is lost with it is found by the conductor's rounds, as ever."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        # Mapped steps whose items are looked at, and whether more of them have ended since.
        self._groups: dict[int, bool] = {}

    async def follow(self, hand_over: Coroutine[Any, Any, None]) -> None:
        """Let it go on by itself; waits only for room."""
        try:
            while len(self._tasks) >= MOST_AT_ONCE:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            hand_over.close()
            raise
        task = asyncio.create_task(hand_over, name="duly-hand-over")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def follow_items(self, group: int, look: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """The same for items of a mapped step, of which only is asked whether all have ended: one look serves all that ended before it."""
        if group in self._groups:
            self._groups[group] = True
            return
        self._groups[group] = False
        try:
            await self.follow(self._look(group, look))
        except BaseException:
            self._groups.pop(group, None)
            raise

    async def _look(self, group: int, look: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            is_new = True
            while is_new:
                self._groups[group] = False
                await look()
                is_new = self._groups[group]
        finally:
            # Nobody came in between: since the last question nothing was awaited.
            del self._groups[group]

    async def settle(self) -> None:
        """Wait for all of them, though not for ever: after that nobody may be there to make what comes next."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LONGEST_GOODBYE)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a hand-over failed and is left to the conductor", exc_info=error)
