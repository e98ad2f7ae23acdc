"""Which addresses a webhook may reach: the public internet, and what the operator lists.

A URL is judged twice by the same rules: `check_url` says what can be known from its text,
`check_addresses` judges every address that its name resolved to. The connection then goes
to those very addresses; the name is never looked up again, so an answer that changes
between the check and the use (DNS rebinding) changes nothing.

The text is taken apart here and not by urllib, which drops tabs and newlines, takes user
names, and leaves `127.1` to the resolver: what two parsers read differently is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from duly.ports.endings import Failure

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PORTS = frozenset({80, 443, 8443})
DEFAULT_PORTS = {"http": 80, "https": 443}
LONGEST_URL = 8 << 10
LONGEST_HOST = 253

URL = re.compile(r"(https?)://([^/?]*)([/?].*)?\Z", re.IGNORECASE)
LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
NUMERIC = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
PORT = re.compile(r"[1-9][0-9]{0,4}\Z")

# Names that are local by definition (RFC 6761, 6762, 8375, 9476), or by the habit of clouds and routers.
LOCAL_NAMES = ("localhost", "local", "internal", "arpa", "test", "invalid", "onion", "lan", "home", "corp", "intranet", "private")

REFUSED_IPV4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT, and one cloud's metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's host agent, a public number that is not public
        "169.254.0.0/16",  # link-local, metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)

# Outside it: loopback, unspecified, IPv4-mapped and -compatible, NAT64, ULA, link-local, site-local, multicast, discard.
GLOBAL_IPV6 = IPv6Network("2000::/3")
REFUSED_IPV6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: Teredo, benchmarking, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)


@dataclass(frozen=True, slots=True)
class Url:
    """A URL that passed `check_url`: the host in ASCII and lower case, `target` as it stands in the request line."""

    scheme: str
    host: str
    port: int
    target: str
    address: Address | None

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class AllowList:
    """What the operator lists: reachable although it is private, on any port (unless one is named), over http too."""

    hosts: frozenset[str]
    endpoints: frozenset[tuple[str, int]]
    networks: tuple[Network, ...]

    def has_host(self, host: str, port: int) -> bool:
        """Whether this host is listed by its name or number, with this port or without one."""
        return host in self.hosts or (host, port) in self.endpoints

    def has_address(self, address: Address) -> bool:
        """Whether the address lies in a listed network."""
        return any(address in network for network in self.networks)


def parse_allow(entries: Sequence[str]) -> AllowList:
    """Read `host`, `host:port`, an address or a network in CIDR form. Raises ValueError for anything else."""
    hosts: set[str] = set()
    endpoints: set[tuple[str, int]] = set()
    networks: list[Network] = []
    for entry in entries:
        text = entry.strip()
        try:
            if "/" in text:
                networks.append(ip_network(text))
                continue
            if (address := _address(text)) is not None:
                networks.append(ip_network(address))
                continue
            host, port, _ = _read_authority(text)
        except (Failure, ValueError) as exc:
            raise ValueError(f"{entry!r} is no host, host:port, address or network: {exc}") from None
        if port is None:
            hosts.add(host)
        else:
            endpoints.add((host, port))
    return AllowList(frozenset(hosts), frozenset(endpoints), tuple(networks))


def check_url(url: str, allow: Sequence[str] | AllowList = (), allow_http: bool = False) -> Url:
    """Judge everything that can be known without DNS. Raises a Failure that says why not, and is not retried."""
    listed = allow if isinstance(allow, AllowList) else parse_allow(allow)
    if len(url) > LONGEST_URL:
        raise refused(f"The URL is longer than {LONGEST_URL} characters.")
    if any(character <= " " or character in '\\"<>^`{|}#\x7f' for character in url):
        raise refused('The URL has a space, a control character, a fragment or one of \\ " < > ^ ` { | }, which must be percent-encoded.')
    parts = URL.match(url)
    if parts is None:
        raise refused("The URL must begin with https:// and name a host.")
    scheme, authority, target = parts[1].lower(), parts[2], parts[3] or "/"
    if not target.isascii():
        raise refused("The URL's path has characters beyond ASCII, which must be percent-encoded.")
    host, port, address = _read_authority(authority)
    checked = Url(scheme, host, port or DEFAULT_PORTS[scheme], target if target.startswith("/") else f"/{target}", address)
    if listed.has_host(host, checked.port):
        return checked
    if address is not None:
        _check_address(checked, address, listed, allow_http)
    else:
        if not listed.networks:
            _check_scheme_and_port(checked, allow_http)
        if "." not in host or host.rpartition(".")[2] in LOCAL_NAMES:
            raise refused(f"{host} is a local name.")
    return checked


def check_addresses(url: Url, addresses: Sequence[Address], allow: AllowList, allow_http: bool) -> None:
    """Judge what the name resolved to: one address that is refused refuses them all."""
    if not allow.has_host(url.host, url.port):
        for address in addresses:
            _check_address(url, address, allow, allow_http)


def is_global(address: Address) -> bool:
    """Whether an address belongs to the public internet, whoever it is written for: nothing that leads back inside."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in REFUSED_IPV4)
    return address.scope_id is None and address in GLOBAL_IPV6 and not any(address in network for network in REFUSED_IPV6)


def refused(reason: str) -> Failure:
    """The failure of a URL that may not be called; trying again would not change it."""
    return Failure(reason, type="AddressRefused", retry=False)


def _check_address(url: Url, address: Address, allow: AllowList, allow_http: bool) -> None:
    if allow.has_address(address):
        return
    _check_scheme_and_port(url, allow_http)
    if not is_global(address):
        where = "" if str(address) == url.host else f"{url.host} leads to "
        raise refused(f"{where}{address}, which is not a public address. The operator can allow it in DULY_WEBHOOK_ALLOW.")


def _check_scheme_and_port(url: Url, allow_http: bool) -> None:
    if url.scheme != "https" and not allow_http:
        raise refused(f"Only https is allowed, unless the operator sets DULY_WEBHOOK_HTTP or DULY_WEBHOOK_ALLOW={url.host}:{url.port}.")
    if url.port not in PORTS:
        ports = ", ".join(map(str, sorted(PORTS)))
        raise refused(f"Port {url.port} is not one of {ports}. The operator can set DULY_WEBHOOK_ALLOW={url.host}:{url.port}.")


def _read_authority(authority: str) -> tuple[str, int | None, Address | None]:
    if "@" in authority:
        raise refused("A URL with a user name or password is not called; use an Authorization header.")
    if "%" in authority:
        raise refused("The host must not be percent-encoded.")
    if authority.startswith("["):
        text, bracket, rest = authority[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise refused("The address in brackets is malformed.")
        address = _address(text)
        if not isinstance(address, IPv6Address):
            raise refused(f"{text!r} is not an IPv6 address.")
        return str(address), _read_port(rest), address
    text, colon, digits = authority.partition(":")
    host = _read_name(text)
    return host, _read_port(colon + digits), _address(host)


def _read_port(text: str) -> int | None:
    if not text:
        return None
    if not PORT.match(text[1:]) or int(text[1:]) > 65_535:
        raise refused(f"{text[1:]!r} is not a port.")
    return int(text[1:])


def _read_name(text: str) -> str:
    """The host as DNS sees it: full-width digits and dots become plain ones here, so the rules below see them too."""
    if len(text) > LONGEST_HOST:
        raise refused("The host name is too long.")
    try:
        host = text.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        # As a whole: of one with a secret in it, a part would not be recognised.
        raise refused(f"{text!r} is not a host name.") from None
    labels = host.split(".")
    if NUMERIC.match(labels[-1]):
        # Decimal, octal, hexadecimal and shortened forms: resolvers disagree about them, so only the plain form passes.
        if _address(host) is None:
            raise refused(f"{host!r} is neither a name nor an address in its plain form, such as 192.0.2.1.")
    elif not all(LABEL.match(label) for label in labels):
        raise refused(f"{text!r} is not a host name.")
    return host


def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
