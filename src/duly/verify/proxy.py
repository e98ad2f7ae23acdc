"""Doors between the nodes and what they talk to: a TCP proxy with one listener per link, which can be made to fail.

A link is a node and a service, such as `worker-1/store`: so a single node can be cut off, in one direction if need be.
The services are names with an address; the store and the API have links today, and whatever comes beside them gets its own.

    cut         nothing passes, up (to the service), down (to the node) or both ways; what was held arrives late, at the heal
    freeze      the connections that are open now say nothing any more and are never closed: half-open; new ones work
    reset       the connections that are open now end with a reset
    latency     every piece comes that much later
    slow_close  the end of a connection is told that much later
    limit_data  a connection ends after that many bytes

It runs as a process of its own (`python -m duly.verify.proxy`), so that whoever drives a test can be busy without slowing the
traffic. Commands are JSON documents, one per line of standard input, each answered by one line; at the end of the input it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

PIECE = 65_536
UP, DOWN = "up", "down"
_CONNECT_TIMEOUT = 5.0
# l_onoff, l_linger: closing with a reset instead of a farewell.
_AT_ONCE = struct.pack("ii", 1, 0)


class Pair:
    """One connection through a link: the node's side and the service's."""

    def __init__(self, node: asyncio.StreamWriter) -> None:
        self.node = node
        self.service: asyncio.StreamWriter | None = None
        self.frozen = False
        self.passed = 0

    def reset(self) -> None:
        """End both sides without a farewell."""
        for writer in (self.node, self.service):
            if writer is None:
                continue
            with contextlib.suppress(OSError):
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            writer.transport.abort()


class Link:
    """One listener, its connections, and what is wrong with it."""

    def __init__(self, name: str, host: str, port: int) -> None:
        self.name = name
        self.to = (host, port)
        self.port = 0
        self.pairs: set[Pair] = set()
        self._open = {UP: asyncio.Event(), DOWN: asyncio.Event()}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.heal()

    async def listen(self) -> None:
        """Take connections, on a free port of the loopback."""
        self._server = await asyncio.start_server(self._enter, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def set(self, *, cut: list[str] | None = None, latency: float = 0.0, slow_close: float = 0.0, limit_data: int | None = None) -> None:
        """What is wrong from now on; what is not named is well."""
        for way, is_open in self._open.items():
            if way in (cut or ()):
                is_open.clear()
            else:
                is_open.set()
        self.latency, self.slow_close, self.limit_data = latency, slow_close, limit_data

    def heal(self) -> None:
        """Nothing is wrong any more. What was frozen stays so until it is reset or closed."""
        self.set()

    def freeze(self) -> int:
        """The connections that are open now fall silent; how many."""
        for pair in self.pairs:
            pair.frozen = True
        return len(self.pairs)

    def reset(self) -> int:
        """The connections that are open now end; how many."""
        pairs = list(self.pairs)
        for pair in pairs:
            pair.reset()
        return len(pairs)

    async def close(self) -> None:
        """Take no more connections and end those that there are."""
        if self._server is not None:
            self._server.close()
        self.reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        pair = Pair(writer)
        self.pairs.add(pair)
        try:
            # A cut link takes the connection, as a network swallows it: the other side hears of it when the link is whole again.
            await self._open[UP].wait()
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                there, pair.service = await asyncio.open_connection(*self.to)
            await asyncio.gather(self._pass(pair, UP, reader, pair.service), self._pass(pair, DOWN, there, writer))
        except (OSError, TimeoutError):
            pair.reset()
        except asyncio.CancelledError:
            # The door is closed for good; Python 3.11 makes a noise about a handler that ends cancelled.
            return
        finally:
            self.pairs.discard(pair)
            for side in (pair.node, pair.service):
                if side is not None:
                    side.transport.abort()

    async def _pass(self, pair: Pair, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(PIECE):
            await self._may_pass(pair, way)
            if self.latency:
                await asyncio.sleep(self.latency * (0.5 + random.random()))  # noqa: S311 only spreads a delay
            pair.passed += len(data)
            writer.write(data)
            await writer.drain()
            if self.limit_data is not None and pair.passed >= self.limit_data:
                pair.reset()
                return
        await self._may_pass(pair, way)
        if self.slow_close:
            await asyncio.sleep(self.slow_close)
        with contextlib.suppress(OSError):
            writer.write_eof()

    async def _may_pass(self, pair: Pair, way: str) -> None:
        await self._open[way].wait()
        if pair.frozen:
            await asyncio.Event().wait()


class Doors:
    """All links of a test, by name."""

    def __init__(self) -> None:
        self.links: dict[str, Link] = {}

    async def obey(self, command: dict[str, Any]) -> Any:
        """Do what a command says."""
        do, name = command.pop("do"), command.pop("link", "")
        if do == "open":
            link = self.links[name] = Link(name, *command["to"])
            await link.listen()
            return link.port
        wanted = [self.links[name]] if name else list(self.links.values())
        if do in ("freeze", "reset"):
            return sum(link.freeze() if do == "freeze" else link.reset() for link in wanted)
        for link in wanted:
            match do:
                case "point":
                    link.to = (str(command["to"][0]), int(command["to"][1]))
                case "set":
                    link.set(**command)
                case "heal":
                    link.heal()
                case _:
                    raise ValueError(do)
        return len(wanted)

    async def close(self) -> None:
        """Close every door."""
        for link in self.links.values():
            await link.close()


async def serve(commands: asyncio.StreamReader, answer: Callable[[str], None]) -> None:
    """Obey until there are no more commands."""
    doors = Doors()
    try:
        while line := await commands.readline():
            answer(json.dumps(await doors.obey(json.loads(line))))
    finally:
        await doors.close()


async def _main() -> None:
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)

    def answer(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    await serve(commands, answer)


if __name__ == "__main__":
    asyncio.run(_main())
