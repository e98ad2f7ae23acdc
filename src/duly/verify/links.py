"""The proxy's remote control, and the other small process beside the fleet: who drives a test holds both here."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any


class Links:
    """The links of all nodes, by `node/service`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()
        self.names: list[str] = []

    @classmethod
    async def open(cls, environment: dict[str, str]) -> Links:
        """Start the proxy."""
        return cls(await _start("duly.verify.proxy", environment=environment))

    async def add(self, node: str, service: str, address: tuple[str, int]) -> int:
        """A new link; the port that leads through it."""
        name = f"{node}/{service}"
        port: int = await self._say("open", link=name, to=list(address))
        self.names.append(name)
        return port

    async def point(self, service: str, address: tuple[str, int]) -> None:
        """Lead all links of a service elsewhere, and end what is open on them."""
        for name in self.names:
            if name.endswith(f"/{service}"):
                await self._say("point", link=name, to=list(address))
                await self._say("reset", link=name)

    async def set(self, name: str, **toxics: Any) -> None:
        """Break a link: see the proxy for what can be wrong with it."""
        await self._say("set", link=name, **toxics)

    async def heal(self, name: str) -> None:
        """Mend a link."""
        await self._say("heal", link=name)

    async def freeze(self, name: str) -> int:
        """Its open connections fall silent for good; how many."""
        return int(await self._say("freeze", link=name))

    async def reset(self, name: str) -> int:
        """Its open connections end; how many."""
        return int(await self._say("reset", link=name))

    async def close(self) -> None:
        """End the proxy."""
        await _end(self._process)

    async def _say(self, do: str, **more: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._turn:
            self._process.stdin.write(json.dumps({"do": do, **more}).encode() + b"\n")
            answer = await self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the proxy has ended")
        return json.loads(answer)


class SinkProcess:
    """The fenced sink, running."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.port = port

    @classmethod
    async def open(cls, log: Path, environment: dict[str, str]) -> SinkProcess:
        """Start it, with its log there."""
        process = await _start("duly.verify.sink", str(log), environment=environment)
        assert process.stdout is not None
        return cls(process, int(await process.stdout.readline()))

    async def close(self) -> None:
        """End it."""
        await _end(self._process)


async def _start(module: str, *words: str, environment: dict[str, str]) -> asyncio.subprocess.Process:
    # A group of its own: a Ctrl-C at the terminal is for who drives the test, and both end with their input.
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", module, *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
        process_group=0,
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(5):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
