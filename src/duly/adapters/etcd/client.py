"""As much of etcd as we need, through the HTTP/JSON gateway that every member has: leases, keys under them, and a watch.

Calls go to one member until it fails; then to the next. Every call has a deadline, and every fault is Unavailable.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from duly.adapters.etcd.address import Address
from duly.adapters.line import FAULTS, Line, reason
from duly.domain.errors import Unavailable

# Seconds that a member has for an answer, and for a connection.
DEADLINE = 1.0
# The same for a password: etcd compares it slowly on purpose, a tenth of a second of its processor, and more where others want it too.
PASSWORD_DEADLINE = 5.0
LONGEST_LINE = 1 << 20
_UNAUTHENTICATED = 16
_NO_LEASE = 5


@dataclass(frozen=True, slots=True)
class Change:
    """A key was put, or is there no more."""

    key: str
    is_gone: bool


class _Refused(Exception):
    """An answer that says no, with the code of gRPC."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Etcd:
    """One cluster. Not to be shared by several event loops."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None = None) -> None:
        self._address = address
        self._tls = tls
        self._member = 0
        self._token: str | None = None
        self._idle: list[Line] = []
        # Whether connections are kept for the next call: whoever sets it lets them go with `drop`.
        self.keeps = False

    @property
    def member(self) -> str:
        """Who is asked at present."""
        host, port = self._endpoint()
        return f"{host}:{port}"

    async def grant(self, seconds: int) -> int:
        """A new lease, which ends after so many seconds unless it is kept alive."""
        answer = await self._call("/v3/lease/grant", {"TTL": seconds})
        return int(answer["ID"])

    async def keep_alive(self, lease: int) -> bool:
        """Lengthen it; False when it is gone."""
        answer = await self._call("/v3/lease/keepalive", {"ID": lease})
        return int(answer.get("result", {}).get("TTL", 0)) > 0

    async def revoke(self, lease: int) -> None:
        """End it, and its keys with it."""
        await self._call("/v3/lease/revoke", {"ID": lease}, ignoring=_NO_LEASE)

    async def leases(self) -> list[int]:
        """All that are granted."""
        answer = await self._call("/v3/lease/leases", {})
        return [int(lease["ID"]) for lease in answer.get("leases", ())]

    async def put(self, key: str, value: str, lease: int) -> None:
        """Keep a key for as long as the lease lives."""
        await self._call("/v3/kv/put", {"key": _encoded(key), "value": _encoded(value), "lease": lease})

    async def keys(self, prefix: str) -> tuple[list[str], int]:
        """All keys that begin so, in order, and the revision at which that was true."""
        answer = await self._call("/v3/kv/range", _range(prefix) | {"keys_only": True})
        return [_decoded(item["key"]) for item in answer.get("kvs", ())], int(answer["header"]["revision"])

    async def watch(self, prefix: str, revision: int) -> AsyncGenerator[list[Change], None]:
        """Every change of keys that begin so from that revision on, as it happens; first an empty list, when the watch stands.

        Raises Unavailable when it ends. A server that falls silent does not end it: who needs to know asks for something else.
        """
        await self._authenticate()
        request = {"create_request": _range(prefix) | {"start_revision": revision}}
        line = None
        try:
            line = await Line.open(*self._endpoint(), self._tls, timeout=DEADLINE)
            rest = b""
            async with contextlib.aclosing(line.stream(self._request("/v3/watch", request))) as pieces:
                async for status, piece in pieces:
                    *lines, rest = (rest + piece).split(b"\n")
                    if status != 200 or len(rest) > LONGEST_LINE:
                        raise EOFError(f"status {status}")
                    for text in filter(None, lines):
                        yield _changes(msgspec.json.decode(text))
            raise EOFError("the watch has ended")
        except (*FAULTS, msgspec.DecodeError, KeyError) as error:
            self._fail(error)
        finally:
            if line is not None:
                line.close()

    def use_next(self) -> None:
        """Ask another member from now on."""
        self._member += 1
        self.drop()

    def drop(self) -> None:
        """Let all kept connections go."""
        idle, self._idle = self._idle, []
        for line in idle:
            line.close()

    async def _call(self, path: str, body: dict[str, Any], *, ignoring: int | None = None) -> dict[str, Any]:
        for is_last in (False, True):
            await self._authenticate()
            try:
                return await self._exchange(path, body)
            except _Refused as refused:
                if refused.code == ignoring:
                    return {}
                # Tokens last for minutes, and not over a restart.
                if refused.code != _UNAUTHENTICATED or self._token is None or is_last:
                    raise Unavailable("DULY-E504", f"etcd at {self.member} refuses: {refused}.") from refused
                self._token = None
            except (*FAULTS, msgspec.DecodeError) as error:
                self._fail(error)
        raise AssertionError("unreachable")

    async def _authenticate(self) -> None:
        if self._address.user is None or self._token is not None:
            return
        try:
            who = {"name": self._address.user, "password": self._address.password}
            answer = await self._exchange("/v3/auth/authenticate", who, PASSWORD_DEADLINE)
        except _Refused as refused:
            raise Unavailable("DULY-E504", f"etcd at {self.member} does not let us in: {refused}.") from refused
        except (*FAULTS, msgspec.DecodeError) as error:
            self._fail(error)
        self._token = answer["token"]

    async def _exchange(self, path: str, body: dict[str, Any], deadline: float = DEADLINE) -> dict[str, Any]:
        async with asyncio.timeout(deadline):
            while True:
                was_kept = bool(self._idle)
                line = self._idle.pop() if was_kept else await Line.open(*self._endpoint(), self._tls)
                try:
                    status, _, content = await line.exchange(self._request(path, body))
                except BaseException as error:
                    line.close()
                    # A kept connection may have been closed meanwhile; all that we ask for may be asked twice.
                    if was_kept and isinstance(error, FAULTS) and not isinstance(error, TimeoutError):
                        continue
                    raise
                break
        if line.is_reusable and self.keeps:
            self._idle.append(line)
        else:
            line.close()
        answer = msgspec.json.decode(content)
        if status != 200 or not isinstance(answer, dict):
            told = answer if isinstance(answer, dict) else {}
            raise _Refused(int(told.get("code", -1)), str(told.get("message") or told.get("error") or f"status {status}"))
        return answer

    def _request(self, path: str, body: dict[str, Any]) -> bytes:
        content = msgspec.json.encode(body)
        token = "" if self._token is None else f"Authorization: {self._token}\r\n"
        host, port = self._endpoint()
        named = f"[{host}]" if ":" in host else host
        head = f"POST {path} HTTP/1.1\r\nHost: {named}:{port}\r\n{token}Content-Type: application/json\r\n"
        return f"{head}Content-Length: {len(content)}\r\n\r\n".encode("ascii") + content

    def _endpoint(self) -> tuple[str, int]:
        return self._address.endpoints[self._member % len(self._address.endpoints)]

    def _fail(self, error: BaseException) -> NoReturn:
        where = self.member
        raise Unavailable("DULY-E504", f"etcd at {where} does not answer: {reason(error)}.") from error


def _changes(message: dict[str, Any]) -> list[Change]:
    result = message.get("result")
    if result is None or result.get("canceled"):
        raise EOFError("the watch was refused")
    return [Change(_decoded(event["kv"]["key"]), event.get("type") == "DELETE") for event in result.get("events", ())]


def _range(prefix: str) -> dict[str, str]:
    """All keys with the prefix: up to the first that is greater than each of them."""
    return {"key": _encoded(prefix), "range_end": _encoded(prefix[:-1] + chr(ord(prefix[-1]) + 1))}


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode("ascii")


def _decoded(text: str) -> str:
    return b64decode(text).decode(errors="replace")
