"""The store transport on SQLite: a bell inside the process; between processes, a look at the file's change counter."""

from __future__ import annotations

import asyncio
import contextlib

from duly.adapters.sql.bell import Bell
from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.domain.errors import Unavailable

LOOK_EVERY = 0.05


class SqliteTransport(Bell):
    """Another process that commits changes `data_version`; asking for it costs microseconds, so we ask often."""

    def __init__(self, engine: SqliteEngine) -> None:
        super().__init__()
        self._engine = engine
        self._watcher: asyncio.Task[None] | None = None

    async def wait_ready(self, timeout: float) -> bool:
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._watch(), name="duly-sqlite-watch")
        return await super().wait_ready(timeout)

    async def _watch(self) -> None:
        seen = -1
        while True:
            with contextlib.suppress(Unavailable):
                version = await self._engine.data_version()
                if version != seen:
                    seen = version
                    self.ring()
            await asyncio.sleep(LOOK_EVERY)

    async def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
