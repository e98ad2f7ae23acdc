"""The store transport on SQLite: a bell inside the process; between processes, a look at the file's change counter."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3

from duly.adapters.sql.bell import Bell
from duly.adapters.sql.engine_sqlite import SqliteEngine

LOOK_EVERY = 0.02


class SqliteTransport(Bell):
    """Whoever commits changes `data_version`. Asking for it reads shared memory and costs microseconds, so we ask often,
    on a connection of our own: a turn through the reader's thread would cost more than the question."""

    def __init__(self, engine: SqliteEngine) -> None:
        super().__init__()
        self._path = engine.path
        self._watcher: asyncio.Task[None] | None = None

    async def wait_ready(self, timeout: float) -> bool:
        self._keep_watching()
        return await super().wait_ready(timeout)

    async def wait_flow(self, timeout: float) -> bool:
        self._keep_watching()
        return await super().wait_flow(timeout)

    async def wait_cancel(self, timeout: float) -> bool:
        self._keep_watching()
        return await super().wait_cancel(timeout)

    async def wait_scheduled(self, timeout: float) -> bool:
        self._keep_watching()
        return await super().wait_scheduled(timeout)

    def _keep_watching(self) -> None:
        if self._watcher is None and self._path != ":memory:":
            self._watcher = asyncio.create_task(self._watch(), name="duly-sqlite-watch")

    async def _watch(self) -> None:
        seen, wishes = -1, None
        with contextlib.closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            while True:
                with contextlib.suppress(sqlite3.Error):
                    version = connection.execute("PRAGMA data_version").fetchone()[0]
                    if version != seen:
                        seen = version
                        # Ready or scheduled: the counter does not say, so both who wait look.
                        self.ring()
                        self.ring_scheduled()
                        # Whoever hears of a stop writes to find out more, so this one rings only when there is a new wish.
                        asked = connection.execute("SELECT count(*), max(asked_at) FROM cancels").fetchone()
                        if asked != wishes:
                            wishes = asked
                            self.ring_cancel()
                await asyncio.sleep(LOOK_EVERY)

    async def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
