"""A door before PostgreSQL that can be shut at the worst moment: when a client says COMMIT."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Literal
from urllib.parse import urlsplit

# Where the line breaks: before the server hears of the COMMIT, after it has answered, or so that it hears of it long afterwards.
Where = Literal["before", "after", "late"]


class Door:
    """Passes bytes on until the first COMMIT. `heard` lets a late one through."""

    def __init__(self, dsn: str, where: Where) -> None:
        parts = urlsplit(dsn)
        self._host, self._port = parts.hostname or "", parts.port or 5432
        self._where = where
        self._parts = parts
        self.heard = asyncio.Event()
        self.is_cut = False
        self.dsn = ""
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def standing(self) -> AsyncIterator[Door]:
        """Open for as long as the block lasts; `dsn` leads through it."""
        server = await asyncio.start_server(self._enter, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.dsn = self._parts._replace(netloc=f"{self._parts.username}@127.0.0.1:{port}").geturl()
        try:
            yield self
        finally:
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        there_reader, there_writer = await asyncio.open_connection(self._host, self._port)
        back = asyncio.create_task(_pass_on(there_reader, writer))
        try:
            while data := await reader.read(65_536):
                if data.startswith(b"Q") and b"COMMIT" in data and not self.is_cut:
                    self.is_cut = True
                    await self._cut(data, back, writer, there_writer)
                    return
                there_writer.write(data)
        except ConnectionError:
            pass
        finally:
            back.cancel()
            writer.transport.abort()
            there_writer.transport.abort()

    async def _cut(self, data: bytes, back: asyncio.Task[None], writer: asyncio.StreamWriter, there: asyncio.StreamWriter) -> None:
        back.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await back
        if self._where == "late":
            writer.transport.abort()
            await self.heard.wait()
        if self._where != "before":
            there.write(data)
            await there.drain()
            # The server ends the session when it has done what was said before.
            there.write(b"X\x00\x00\x00\x04")
            await there.drain()
            there.write_eof()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
