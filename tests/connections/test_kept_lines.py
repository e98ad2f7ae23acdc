"""A connection over HTTP that is kept, and breaks while nobody looks: on asyncio's loop and on uvloop, which tells it differently."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from duly.adapters.line import Line
from duly.adapters.remote.connection import Server
from duly.wire.workers import ReportShape, ReportView

LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
REQUEST = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n"


class Resetting:
    """A server that answers once on each connection and then resets it."""

    def __init__(self) -> None:
        self.served = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            yield server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        self.served += 1
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        await writer.drain()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


async def broken(line: Line) -> None:
    """Until the loop has heard of it."""
    async with asyncio.timeout(30):
        while not line._writer.is_closing():
            await asyncio.sleep(0.001)


@LOOPS
def test_what_is_sent_on_a_broken_connection_fails_as_a_broken_connection(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def scenario() -> None:
        async with Resetting().listening() as port:
            line = await Line.open("127.0.0.1", port, None)
            assert (await line.exchange(REQUEST))[0] == 204
            await broken(line)

            with pytest.raises(ConnectionError):
                await line.exchange(REQUEST)
            with pytest.raises(ConnectionError):
                await anext(line.stream(REQUEST))
            line.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())


@LOOPS
def test_a_report_takes_another_connection_when_the_kept_one_is_broken(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def scenario() -> None:
        resetting = Resetting()
        async with resetting.listening() as port:
            server = Server(f"http://127.0.0.1:{port}", "key", agent="test")

            await server.post("/v1/workers/1/report", ReportShape(), ReportView)
            [kept] = server._idle
            await broken(kept)
            await server.post("/v1/workers/1/report", ReportShape(), ReportView)

            assert resetting.served == 2
            await server.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scenario())
