"""Connections to PostgreSQL that are known to be well, or cut.

A `Line` is a connection that notes since when it waits for an answer, and whose socket is watched by the kernel. A `Way` opens
lines: to whichever of several hosts takes writes, around what a pooler does not let through, and with a bound on every wait.
"""

from __future__ import annotations

import secrets
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from duly.adapters.sql.postgres.address import Address, Host, Pooler, read_address
from duly.domain.errors import Invalid, Unavailable
from duly.wire.sockets import keep_alive

CONNECT_TIMEOUT = 5.0
# With several hosts to try each gets less: one that swallows everything must not take the time of the one that is well.
HOST_TIMEOUT = 2.0
DEADLINE = 30.0
STATEMENTS_KEPT = 200
# What the kernel does for our end (wire/sockets.py), for the server's, so that the locks of a client that vanished are not held for hours.
_SERVER_KEEPALIVES = {"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3", "tcp_user_timeout": "20000"}
# PgBouncer follows these for each client; whatever else a startup packet says it refuses, or is told to ignore.
_FOLLOWED = ("application_name", "timezone")

# The server is away, going away or coming up; or it refused us for want of room. The outcome of what was sent is unknown.
AWAY = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)

if TYPE_CHECKING:
    _Connection = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection


class NoHost(OSError):
    """None of several hosts would have us; the text says of each why."""


class ReadOnly(OSError):
    """The server takes no writes: it is a standby, or was told so."""


# Numbers of types that PostgreSQL has given by hand: below this they are the same on every server for ever.
FIRST_UNSURE_TYPE = 10_000
_known_types: dict[frozenset[int], Any] = {}


@dataclass(frozen=True, slots=True)
class _NotAsked:
    """Stands for the statement that would have asked. It has a name, so nothing was prepared over."""

    name: str = "known"


class Line(_Connection):
    """A connection. `asked` is when the answer it waits for was asked for; `local` what each of its transactions must set itself."""

    def __init__(self, protocol: Any, transport: Any, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        keep_alive(transport.get_extra_info("socket"))
        self.asked: float | None = None
        # By this a pooled line is found among the server's sessions: the number it was given is the pooler's.
        self.mark = ""
        self.local = ""
        # The texts that it was sent: parsed and planned here, and nowhere else.
        self.texts: set[str] = set()

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float) -> tuple[Any, Any]:
        """What the driver asks at the first use of an array on each line, answered once for all: it takes four round trips and tens
        of milliseconds, and whatever is due waits behind it. (The driver's own name; where it has none, it asks as it does.)"""
        wanted = frozenset(typeoids)
        if wanted in _known_types:
            return _known_types[wanted], _NotAsked()
        types, statement = await super()._introspect_types(typeoids, timeout)  # type: ignore[misc]
        if all(number < FIRST_UNSURE_TYPE for number in wanted):
            _known_types[wanted] = types
        return types, statement

    async def execute(self, *words: Any, **more: Any) -> str:
        self.asked = time.monotonic()
        try:
            return await super().execute(*words, **more)
        finally:
            self.asked = None

    async def executemany(self, *words: Any, **more: Any) -> None:
        self.asked = time.monotonic()
        try:
            await super().executemany(*words, **more)
        finally:
            self.asked = None

    async def fetch(self, *words: Any, **more: Any) -> list[Any]:
        self.asked = time.monotonic()
        try:
            rows: list[Any] = await super().fetch(*words, **more)
            return rows
        finally:
            self.asked = None

    async def fetchval(self, *words: Any, **more: Any) -> Any:
        self.asked = time.monotonic()
        try:
            return await super().fetchval(*words, **more)
        finally:
            self.asked = None


@contextmanager
def _cut_unless_well(line: Line) -> Iterator[None]:
    """Nobody else knows of a line that is being opened: if that fails, or is given up, it must not stay open."""
    try:
        yield
    except BaseException:
        line.terminate()
        raise


class Way:
    """How to get to the server of a URL. It remembers who answered last, and what it has found to stand between."""

    def __init__(self, url: str) -> None:
        self.address: Address = read_address(url)
        self._first = 0
        # Known once somebody has asked.
        self.pooler = self.address.pooler

    async def open(self, name: str, settings: Mapping[str, str], *, deadline: float | None = DEADLINE) -> Line:
        """A line with these settings of the server: for the session, or where a pooler shares sessions, in `local`."""
        hosts = self.address.hosts
        patience = CONNECT_TIMEOUT if len(hosts) == 1 else HOST_TIMEOUT
        faults: list[tuple[Host, Exception]] = []
        for nth in range(len(hosts)):
            index = (self._first + nth) % len(hosts)
            try:
                line = await self._open(hosts[index], name, settings, patience, deadline)
            except AWAY as error:
                faults.append((hosts[index], error))
                continue
            self._first = index
            return line
        if len(faults) == 1 or all(isinstance(error, ssl.SSLError) for _, error in faults):
            raise faults[0][1]
        raise NoHost("; ".join(f"{host.name}: {words(error)}" for host, error in faults))

    async def _open(self, host: Host, name: str, settings: Mapping[str, str], patience: float, deadline: float | None) -> Line:
        if self.pooler is None:
            line = await self._try_unpooled(host, name, settings, patience, deadline)
            if line is not None:
                return line
        if self.pooler is Pooler.NONE:
            return await self._connect(host, name, {**_SERVER_KEEPALIVES, **settings}, patience, deadline)
        line = await self._connect(host, name, {key: settings[key] for key in _FOLLOWED if key in settings}, patience, deadline)
        missing = {key: value for key, value in settings.items() if key not in _FOLLOWED}
        if self.pooler is Pooler.SESSION:
            with _cut_unless_well(line):
                await line.execute(" ".join(f"SET {key} = '{value}';" for key, value in missing.items()))
        else:
            line.mark = f"{name} {secrets.token_hex(6)}"
            local = {**missing, "application_name": line.mark}
            line.local = " ".join(f"SET LOCAL {key} = '{value}';" for key, value in local.items())
        return line

    async def _try_unpooled(
        self, host: Host, name: str, settings: Mapping[str, str], patience: float, deadline: float | None
    ) -> Line | None:
        """A line as there is nothing between, or None: then a pooler has shown itself. It refuses what it does not follow, or gives
        its clients numbers of its own."""
        try:
            line = await self._connect(host, name, {**_SERVER_KEEPALIVES, **settings}, patience, deadline)
        except asyncpg.ProtocolViolationError:
            self.pooler = Pooler.TRANSACTION
            return None
        with _cut_unless_well(line):
            # Without parameters, so that nothing is prepared: somebody else's session might keep it.
            told = await line.execute(f"SELECT 1 WHERE pg_backend_pid() = {line.get_server_pid():d}")
        if told == "SELECT 1":
            self.pooler = Pooler.NONE
            return line
        line.terminate()
        self.pooler = Pooler.TRANSACTION
        return None

    async def _connect(self, host: Host, name: str, settings: Mapping[str, str], patience: float, deadline: float | None) -> Line:
        line: Line = await asyncpg.connect(
            host.dsn,
            ssl=host.tls,
            timeout=patience,
            command_timeout=deadline,
            # A prepared statement stays with the session, and a pooler gives the session to somebody else.
            statement_cache_size=0 if self.pooler is Pooler.TRANSACTION else STATEMENTS_KEPT,
            # As long as the line itself: by itself the driver forgets each of them, and its plan, after five minutes.
            max_cached_statement_lifetime=0,
            server_settings={"application_name": self.address.application or name, **settings},
            target_session_attrs=SessionAttribute.any,
            connection_class=Line,
        )
        with _cut_unless_well(line):
            if self.address.wants_writable and not await self._takes_writes(line):
                raise ReadOnly("takes no writes (a standby?)")
        return line

    async def _takes_writes(self, line: Line) -> bool:
        """As the server said when it greeted us; one that did not is asked, where there is a choice."""
        told = line.get_settings()
        if getattr(told, "default_transaction_read_only", "off") == "on":
            return False
        standby = getattr(told, "in_hot_standby", None)
        if standby is not None:
            return bool(standby == "off")
        return len(self.address.hosts) == 1 or await line.execute("SELECT 1 WHERE NOT pg_is_in_recovery()") == "SELECT 1"


def translation(error: BaseException) -> Unavailable | Invalid:
    """What a fault of the driver that means "away" is to everybody else."""
    if isinstance(error, asyncpg.ClientConfigurationError):
        return Invalid("DULY-E601", f"{words(error)}.", field="DULY_STORE")
    if isinstance(error, ssl.SSLError) or (isinstance(error, ConnectionError) and "SSL upgrade" in str(error)):
        return Unavailable(
            "DULY-E521",
            f"The server of the store is not to be trusted: {words(error)}",
            hint="Name its authority with sslrootcert=FILE in DULY_STORE, or say with sslmode=… that this network needs no proof.",
            retry_after=5.0,
        )
    return Unavailable("DULY-E501", f"PostgreSQL does not answer: {words(error)}", hint="Check DULY_STORE, and that the server runs.")


def words(error: BaseException) -> str:
    """A driver's fault in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason})"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = str(error).strip().split("\n")[0]
    return text or type(error).__name__
