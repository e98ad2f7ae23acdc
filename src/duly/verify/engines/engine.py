"""What every engine under test can do, and which there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from duly.domain.errors import Invalid
from duly.services import ServiceMissing
from duly.verify.faults import Kind
from duly.verify.links import Links

T = TypeVar("T")
NAMES = ("etcd", "kafka", "redis")


class Engine(Protocol):
    """One engine. Its faults are on top of all the others."""

    name: str
    kinds: Sequence[Kind]

    async def open(self) -> None:
        """Start it. Raises Invalid (DULY-E611) when it is not installed here."""

    async def settings(self, node: str, kind: str, links: Links) -> dict[str, str]:
        """What a node of this kind is given, so that it reaches the engine through a link of its own."""

    async def close(self) -> None:
        """Let everything go."""


class Server(Protocol):
    """A server of `duly.services`."""

    def start(self) -> None: ...

    def close(self) -> None: ...


S = TypeVar("S", bound=Server)


class Private(Generic[S]):
    """A server of our own, on a thread that lasts: the kernel ends it with the thread that started it. One fault of it at a time."""

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._server: S | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="verify-engine")
        self.turn = asyncio.Lock()

    @property
    def server(self) -> S:
        """The one that was started."""
        assert self._server is not None, "it has not been opened"
        return self._server

    async def open(self) -> None:
        """Start it. Raises Invalid (DULY-E611) when it is not installed here."""
        try:
            self._server = await self.on_thread(self._make)
        except ServiceMissing as missing:
            raise Invalid("DULY-E611", str(missing), field="--with") from missing
        await self.on_thread(self._server.start)

    async def on_thread(self, work: Callable[[], T]) -> T:
        """Do something with the server."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def close(self) -> None:
        """Stop it and remove every trace."""
        if self._server is not None:
            await self.on_thread(self._server.close)
        self._thread.shutdown()


def engines_named(names: str | None) -> list[Engine]:
    """Those that `--with` names. Raises Invalid for one that there is not."""
    words = [word.strip() for word in (names or "").split(",") if word.strip()]
    for word in words:
        if word not in NAMES:
            raise Invalid("DULY-E604", f"There is no engine {word!r}.", field="--with", hint=f"There are {', '.join(NAMES)}.")
    return [engine_of(word) for word in dict.fromkeys(words)]


def engine_of(name: str) -> Engine:
    """The engine of this name, which is not started yet."""
    from duly.verify.engines.etcd import EtcdEngine
    from duly.verify.engines.kafka import KafkaEngine
    from duly.verify.engines.redis import RedisEngine

    makers: dict[str, Callable[[], Engine]] = {"etcd": EtcdEngine, "kafka": KafkaEngine, "redis": RedisEngine}
    return makers[name]()
