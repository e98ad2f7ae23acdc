"""The way to Redis of one process: a deadline on every call, and quiet while it is away.

A call that fails or takes too long makes Redis away: from then on calls are answered at once, as by an index that knows nothing, and a
task of its own asks whether it is back. So a Redis that hangs costs one deadline, not one for each step. Both are said in the log once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    from redis.asyncio import Redis

T = TypeVar("T")
log = logging.getLogger("duly.redis")

# Whatever takes longer on its way between a dispatcher and its hints is no help.
DEADLINE = 0.1
CONNECT_TIMEOUT = 2.0
FIRST_PROBE, LONGEST_PROBE = 0.25, 5.0
# One that was back for so long is not flapping: the next absence is asked after as soon as the first.
STEADY = 10.0
PORT = 6379
DEFAULT_PREFIX = "duly"


@dataclass(frozen=True, slots=True)
class Address:
    """Where Redis is and under which names we keep things there."""

    host: str
    port: int
    database: int
    username: str | None
    password: str | None
    is_encrypted: bool
    ca: str | None
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """redis://user:password@host:6379/0?prefix=duly, or rediss:// with ?ca=file. Raises ValueError."""
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        database = parts.path.strip("/") or "0"
        if parts.scheme not in ("redis", "rediss") or not parts.hostname or parts.fragment:
            raise ValueError("expected memory, or redis://host:6379/0, or rediss:// for TLS")
        if not database.isascii() or not database.isdigit():
            raise ValueError("expected the number of a database after the host, such as /0")
        if unknown := set(options) - {"prefix", "ca"}:
            raise ValueError(f"there is no option {min(unknown)!r}: only prefix and ca")
        prefix = options.get("prefix", DEFAULT_PREFIX)
        if not prefix.isascii() or not prefix.replace("-", "").replace("_", "").isalnum() or len(prefix) > 40:
            raise ValueError("expected letters, digits, - and _ as the prefix")
        if "ca" in options and parts.scheme != "rediss":
            raise ValueError("a ca is for rediss:// only")
        return cls(
            parts.hostname,
            parts.port or PORT,
            int(database),
            unquote(parts.username) if parts.username else None,
            unquote(parts.password) if parts.password else None,
            parts.scheme == "rediss",
            options.get("ca"),
            prefix,
        )


class RedisLink:
    """One process's way to Redis, shared by its index and its hints. Belongs to one event loop."""

    def __init__(self, url: str, *, deadline: float = DEADLINE) -> None:
        self.address = Address.parse(url)
        self._deadline = deadline
        self._client: Redis | None = None
        self._away_since: float | None = None
        self._back_since = 0.0
        self._pause = FIRST_PROBE
        self._said = ""
        self._is_told = False
        self._prober: asyncio.Task[None] | None = None
        # What must work before it counts as back: each does what its owner does.
        self.probes: list[Callable[[Redis], Awaitable[object]]] = []
        # Called when it is back: what was there may not be there any more.
        self.when_back: list[Callable[[], None]] = []

    @property
    def is_away(self) -> bool:
        """Whether the last that was heard of it was trouble."""
        return self._away_since is not None

    @property
    def prefix(self) -> str:
        """What the names of our keys and channels begin with. The braces keep all of them in one slot of a Redis cluster."""
        return f"{{{self.address.prefix}}}"

    def connect(self, *, timeout: float | None) -> Redis:
        """A client of its own; `timeout` is how long it waits for an answer."""
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        address = self.address
        tls: dict[str, Any] = {"ssl": True, "ssl_ca_certs": address.ca} if address.is_encrypted else {}
        return Redis(
            host=address.host,
            port=address.port,
            db=address.database,
            username=address.username,
            password=address.password,
            socket_timeout=timeout,
            socket_connect_timeout=CONNECT_TIMEOUT,
            retry=Retry(NoBackoff(), 0),
            # The plain protocol, and no word about the client: who may little need not be allowed CLIENT.
            protocol=2,
            driver_info=None,
            **tls,
        )

    async def ask(self, call: Callable[[Redis], Awaitable[T]]) -> T | None:
        """The answer; None when there is none in time. Never raises for a Redis that is away."""
        if self.is_away:
            return None
        return await self._ask(call)

    async def close(self) -> None:
        """Ask no more."""
        if self._prober is not None:
            self._prober.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._prober
        if self._client is not None:
            with contextlib.suppress(Exception):
                await self._client.aclose()

    async def _ask(self, call: Callable[[Redis], Awaitable[T]]) -> T | None:
        if self._client is None:
            self._client = self.connect(timeout=self._deadline)
        try:
            async with asyncio.timeout(self._deadline):
                return await call(self._client)
        except Exception as error:
            # Whatever it is, refused rights and a full memory included: it was a hint, and the store is asked anyway.
            self._lost(error)
            return None

    def _lost(self, error: Exception) -> None:
        if self._away_since is not None:
            return
        now = time.monotonic()
        self._away_since = now
        if now - self._back_since > STEADY:
            self._pause = FIRST_PROBE
        words = str(error) or f"no answer within {self._deadline:g} s"
        self._is_told = words != self._said or now - self._back_since > STEADY
        if self._is_told:
            self._said = words
            log.warning("Redis is away, hints are late until it is back: %s", words)
        self._prober = asyncio.create_task(self._until_back(), name="duly-redis-probe")

    async def _until_back(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            self._pause = min(self._pause * 2, LONGEST_PROBE)
            if await self._is_back():
                break
        assert self._away_since is not None
        lasted, self._away_since, self._back_since = time.monotonic() - self._away_since, None, time.monotonic()
        if self._is_told:
            log.info("Redis is back after %.1f s", lasted)
        for tell in self.when_back:
            tell()

    async def _is_back(self) -> bool:
        """Asked over a connection of its own: those that were open may hang."""
        client = self.connect(timeout=CONNECT_TIMEOUT)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                for probe in self.probes:
                    await probe(client)
        except Exception as error:
            log.debug("Redis is still away: %s", error)
            return False
        finally:
            with contextlib.suppress(Exception):
                await client.aclose()
        if self._client is not None:
            with contextlib.suppress(Exception):
                await self._client.aclose()
            self._client = None
        return True
