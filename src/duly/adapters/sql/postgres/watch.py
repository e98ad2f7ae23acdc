"""Half-open connections, found and cut within five seconds.

A statement may take long because the server works, waits for a lock, or because the line is dead: the other end is gone, or
something between swallows what is sent. The kernel notices a dead machine (wire/sockets.py), not a box in the middle that goes on
confirming. So whoever has waited for a moment is looked up over another line: a server that works on the statement is left
to it, one that waits for us to say something has not heard us, or we have not heard it. Such a line is cut, and its session
ended, so that its locks are free; idle lines beside it are let go as well, since each would cost the next caller the same wait.

A server that does not even answer the second line is taken to be away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

import asyncpg

from duly.adapters.sql.postgres.lines import AWAY, Line, Way
from duly.adapters.sql.statements import statements

log = logging.getLogger("duly.store")

# Together they stay under five seconds: a wait that is worth a look, the time between looks, that of the look, and a last moment.
SUSPICIOUS = 1.2
EVERY = 0.5
LOOK_TIMEOUT = 2.0
LAST_MOMENT = 0.3
# Whoever waits this long beside one that is suspicious is looked at with it: lines fall silent together, and one look is enough for all.
BESIDE = 0.5
# Whoever was found at work is left alone for so long.
TRUSTED_FOR = 2.0


class Watch:
    """Looks at the lines in use for as long as there are any. `on_cut` hears that at least one was dead."""

    def __init__(self, way: Way, on_cut: Callable[[], None]) -> None:
        self._way = way
        self._on_cut = on_cut
        self._lines: set[Line] = set()
        self._trusted: dict[Line, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._look: asyncio.Task[None] | None = None
        self._endings: set[asyncio.Task[None]] = set()

    def add(self, line: Line) -> None:
        """This one is in use now."""
        self._lines.add(line)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY, self._tick)

    def remove(self, line: Line) -> None:
        """It no longer is."""
        self._lines.discard(line)

    def distrust_idle(self) -> None:
        """Somebody has found a line dead by himself."""
        self._on_cut()

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._look is not None:
            self._look.cancel()
            self._look = None
        for ending in self._endings:
            ending.cancel()

    def _tick(self) -> None:
        self._timer = None
        if not self._lines:
            self._trusted.clear()
            return
        self._timer = asyncio.get_running_loop().call_later(EVERY, self._tick)
        if self._look is None or self._look.done():
            suspects = self._suspects(time.monotonic())
            if suspects:
                self._look = asyncio.create_task(self._examine(suspects), name="duly-look")

    def _suspects(self, now: float) -> dict[Line, float]:
        """Who waits for too long, those who wait beside them, and since when."""
        waiting = {line: line.asked for line in self._lines if line.asked is not None and self._trusted.get(line, 0.0) < now}
        if all(now - asked <= SUSPICIOUS for asked in waiting.values()):
            return {}
        return {line: asked for line, asked in waiting.items() if now - asked > BESIDE}

    async def _examine(self, suspects: dict[Line, float]) -> None:
        dead = dict(suspects)
        try:
            async with asyncio.timeout(LOOK_TIMEOUT):
                look = await self._way.open("duly-look", {})
                try:
                    busy = await self._at_work(look, suspects)
                finally:
                    look.terminate()
        except asyncpg.InsufficientResourcesError:
            # It has no room for us, so it is there; who is at work cannot be told.
            busy = set(suspects)
        except AWAY as error:
            log.debug("the store does not answer a second line: %s", error)
            busy = set()
        now = time.monotonic()
        for line in busy:
            self._trusted[line] = now + TRUSTED_FOR
            del dead[line]
        if dead:
            await asyncio.sleep(LAST_MOMENT)
            self._cut([line for line, asked in dead.items() if line.asked == asked])

    async def _at_work(self, look: Line, suspects: dict[Line, float]) -> set[Line]:
        """Those whose session works, waits for a lock, or whatever else is not waiting for us."""
        statement = statements("postgres")["lines_at_work"]
        rows = await look.fetch(statement.text, *(_known(suspects)[name] for name in statement.names))
        pids, marks = {row["pid"] for row in rows}, {row["mark"] for row in rows}
        return {line for line in suspects if (line.mark in marks if line.mark else line.get_server_pid() in pids)}

    def _cut(self, dead: list[Line]) -> None:
        if not dead:
            return
        log.warning("%d connection(s) to the store were silent and are cut", len(dead))
        # Asked for before they are cut, since a line that has ended has no number any more.
        known = _known(dict.fromkeys(dead, 0.0))
        for line in dead:
            line.terminate()
        self._on_cut()
        # Beside the next look: whoever falls silent meanwhile does not wait for it.
        ending = asyncio.create_task(self._end_sessions(known), name="duly-end-silent")
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def _end_sessions(self, known: dict[str, list[int] | list[str]]) -> None:
        statement = statements("postgres")["end_silent_lines"]
        with contextlib.suppress(*AWAY, asyncpg.InsufficientPrivilegeError):
            async with asyncio.timeout(LOOK_TIMEOUT):
                look = await self._way.open("duly-look", {})
                try:
                    await look.fetch(statement.text, *(known[name] for name in statement.names))
                finally:
                    look.terminate()


def _known(lines: dict[Line, float]) -> dict[str, list[int] | list[str]]:
    """What the server knows them by: their numbers, or where a pooler hides those, what their transactions are called."""
    return {
        "pids": [line.get_server_pid() for line in lines if not line.mark],
        "marks": [line.mark for line in lines if line.mark],
    }
