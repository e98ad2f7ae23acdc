"""Real HTTP servers on the loopback, scripted byte by byte."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Server:
    port: int = 0
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)


Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def answer(status: str = "200 OK", body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@asynccontextmanager
async def serve(reply: bytes | Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Answer every request with these bytes, or by the script once its head and body are read."""
    server = Server()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.split("\r\n")[:-2]
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            server.requests.append((first, headers, body))
            if isinstance(reply, bytes):
                writer.write(reply)
            else:
                await reply(reader, writer)
            writer.close()
            await writer.wait_closed()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            server.gone.set()
            writer.transport.abort()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()
