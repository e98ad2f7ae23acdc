"""What the jobs under test write to: a tiny service that keeps the highest fence per execution and refuses lower ones.

It is what the documentation asks of a user's own service. Its log is the truth about effects: a line per write, with its verdict,
on the disk before the writer is answered. It is never broken by a fault.

It runs as a process of its own (`python -m duly.verify.sink FILE`), prints its port, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from pathlib import Path

import msgspec

from duly.verify.history import Effect, as_line

ACCEPTED, REFUSED = b"1\n", b"0\n"
_TIMEOUT = 30.0


class Sink:
    """The fences that were seen, and the log."""

    def __init__(self, log: Path) -> None:
        self._fences: dict[str, int] = {}
        self._log = os.open(log, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)

    def write(self, effect: Effect) -> bool:
        """Take a write unless a higher fence was here before. The same fence may write again: it is the same attempt."""
        effect.accepted = effect.fence >= self._fences.get(effect.run, 0)
        if effect.accepted:
            self._fences[effect.run] = effect.fence
        effect.at = time.time_ns() // 1000
        os.write(self._log, as_line(effect))
        os.fsync(self._log)
        return effect.accepted

    def close(self) -> None:
        """Let the log go."""
        os.close(self._log)


async def serve(sink: Sink) -> asyncio.Server:
    """Listen on a free port of the loopback: a line in, a verdict out."""

    async def enter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                if not line.endswith(b"\n"):
                    break
                effect = msgspec.json.decode(line, type=Effect)
                writer.write(ACCEPTED if sink.write(effect) else REFUSED)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    return await asyncio.start_server(enter, "127.0.0.1", 0)


def send(port: int, effect: Effect) -> bool:
    """Write to the sink and wait for its verdict."""
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT) as connection, connection.makefile("rb") as answers:
        connection.sendall(as_line(effect))
        return answers.readline() == ACCEPTED


async def _main(log: Path) -> None:
    sink = Sink(log)
    server = await serve(sink)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    server.close()
    sink.close()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
