"""One request to the outside: the address is judged, the name is looked up once, and everything that comes back is bounded."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from ipaddress import IPv4Address, ip_address

from duly.executors.addresses import Address, AllowList, Url, check_addresses, check_url, refused
from duly.executors.exchange import LONGEST_LINE, Answer, MalformedAnswer, read_answer
from duly.ports.endings import Failure

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """Every address of a name, as the operating system resolves it."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for _, _, _, _, sockaddr in found]


class Outbound:
    """Reaches the public internet, and what the operator lists."""

    def __init__(
        self, allow: AllowList, allow_http: bool, timeout: float, resolver: Resolver = system_resolver, tls: ssl.SSLContext | None = None
    ) -> None:
        self.allow = allow
        self.allow_http = allow_http
        self._timeout = timeout
        self._resolver = resolver
        self._tls = tls or default_tls()

    def checked(self, url: str) -> Url:
        """The URL, judged. Raises a Failure that is not retried."""
        return check_url(url, self.allow, self.allow_http)

    async def exchange(self, url: Url, method: str, request: bytes) -> Answer:
        """Send a request and read its answer, within the timeout, the name's resolution included. Raises a Failure that says why not."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self._exchange(url, method, request)
        except TimeoutError:
            raise Failure(f"No answer from {url.authority} within {self._timeout:g} s.", type="Timeout") from None
        except MalformedAnswer as exc:
            raise Failure(f"The answer of {url.authority} cannot be read: {exc}.", type="MalformedAnswer") from None
        except OSError as exc:
            raise Failure(f"The connection to {url.authority} broke: {exc}.", type="ConnectionLost") from None

    async def _exchange(self, url: Url, method: str, request: bytes) -> Answer:
        addresses = await self.resolve(url)
        reader, writer = await self._connect(url, addresses)
        try:
            writer.write(request)
            # Not drained first: a server may answer, and close, before it has read everything.
            return await read_answer(reader, method)
        finally:
            # No polite goodbye: the answer is complete, and a peer that does not close must not keep us.
            writer.transport.abort()

    async def resolve(self, url: Url) -> list[Address]:
        """Every address of the URL's host, each of them judged."""
        if url.address is not None:
            addresses = [url.address]
        else:
            try:
                found = await self._resolver(url.host, url.port)
            except OSError as exc:
                raise Failure(f"{url.host} cannot be resolved: {exc.strerror or exc}.", type="NameNotResolved") from None
            addresses = [ip_address(text) for text in dict.fromkeys(found)]
            if not addresses:
                raise Failure(f"{url.host} has no address.", type="NameNotResolved")
            check_addresses(url, addresses, self.allow, self.allow_http)
        if not self.allow.has_host(url.host, url.port):
            for address in addresses:
                if not self.allow.has_address(address) and is_own(address):
                    raise refused(
                        f"{url.host} leads to {address}, an address of this worker. The operator can allow it in DULY_WEBHOOK_ALLOW."
                    )
        return addresses

    async def _connect(self, url: Url, addresses: list[Address]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        error: OSError | None = None
        for nth, address in enumerate(addresses):
            # A dead address may use up its share of the time, not all of it.
            share = self._timeout / (len(addresses) - nth + 1) if nth + 1 < len(addresses) else None
            try:
                async with asyncio.timeout(share):
                    if url.scheme == "http":
                        return await asyncio.open_connection(str(address), url.port, limit=LONGEST_LINE)
                    return await asyncio.open_connection(
                        str(address), url.port, limit=LONGEST_LINE, ssl=self._tls, server_hostname=url.host
                    )
            except ssl.SSLError as exc:
                reason = exc.verify_message if isinstance(exc, ssl.SSLCertVerificationError) else exc.reason
                raise Failure(f"No secure connection to {url.authority}: {reason or exc}.", type="TlsFailed") from None
            except OSError as exc:  # a TimeoutError is one
                error = exc
        reason = str(error) or "it does not answer"
        raise Failure(f"No connection to {url.authority}: {reason}.", type="ConnectionFailed") from None


def is_own(address: Address) -> bool:
    """Whether packets to this address would stay on this host: the route's own source is the address itself. Sends nothing."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return ip_address(probe.getsockname()[0]) == address
    except OSError:
        return False


def default_tls() -> ssl.SSLContext:
    """The system's trust, for HTTP/1.1."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def agent() -> str:
    """What we call ourselves."""
    try:
        return f"duly/{version('duly')}"
    except PackageNotFoundError:
        return "duly/0"
