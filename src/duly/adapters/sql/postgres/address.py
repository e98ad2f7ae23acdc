"""A store's URL, read: which hosts, how each is verified, and whether a pooler stands before them.

    postgresql://duly@db-1,db-2:5433/duly?sslrootcert=/etc/duly/ca.pem&pooler=transaction

What is libpq's is read as libpq reads it, with two answers of our own where the URL says nothing. TLS: a host that is not
this machine is verified by its certificate and its name, since a URL that merely leaves something out must not send a
password to whoever answers. Which server: one that takes writes, since we never do anything else.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from duly.domain.errors import Invalid

SETTING = "DULY_STORE"
MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
WRITABLE = ("any", "read-write", "primary")
VERIFIED = ("verify-ca", "verify-full")
# What libpq looks at when nobody names the authorities, and what it calls those of the system.
USUAL_AUTHORITIES = Path(".postgresql") / "root.crt"
SYSTEM = "system"


class Pooler(Enum):
    """What stands between us and the server: `?pooler=`."""

    NONE = "none"
    SESSION = "session"
    TRANSACTION = "transaction"


@dataclass(frozen=True, slots=True)
class Host:
    """One server: a DSN as the driver takes it, its name for people, and how it proves who it is (None: as the DSN says)."""

    dsn: str
    name: str
    is_local: bool
    mode: str
    tls: ssl.SSLContext | None = None

    @property
    def is_verified(self) -> bool:
        """Whether nobody else can take its place unseen: it proves who it is, or is on this machine."""
        return self.is_local or self.mode == "verify-full"


@dataclass(frozen=True, slots=True)
class Address:
    """Everything that a URL says. `pooler` is None when it does not say: then it is found out."""

    hosts: tuple[Host, ...]
    pooler: Pooler | None
    application: str | None
    wants_writable: bool


def read_address(url: str) -> Address:
    """Read a store's URL. Raises Invalid (DULY-E601) with what is wrong with it."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    pooler = query.pop("pooler", None)
    if pooler not in (None, *(kind.value for kind in Pooler)):
        raise Invalid("DULY-E601", f"pooler={pooler!r} is not known.", field=SETTING, hint="Use transaction, session or none.")
    mode = query.pop("sslmode", None)
    if mode not in (None, *MODES):
        raise Invalid("DULY-E601", f"sslmode={mode!r} is not known.", field=SETTING, hint=f"Use one of {', '.join(MODES)}.")
    application = query.pop("application_name", None) or None
    attributes = query.pop("target_session_attrs", None) or "read-write"
    if attributes not in WRITABLE:
        hint = "Leave it out: a server that takes writes is found among the hosts."
        raise Invalid("DULY-E601", f"target_session_attrs={attributes!r} is not for Duly, which writes.", field=SETTING, hint=hint)
    who, _, listed = parts.netloc.rpartition("@")
    places = _places(listed, query)
    contexts: dict[tuple[str, ...], ssl.SSLContext] = {}
    hosts: list[Host] = []
    for host, port in places:
        is_local = _is_local(host)
        chosen = mode or ("prefer" if is_local else "verify-full")
        own = {name: value for name, value in query.items() if not name.startswith("ssl")} if chosen in VERIFIED else dict(query)
        tls = None
        if chosen in VERIFIED:
            wanted = (chosen, *(query.get(name, "") for name in ("sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcrl")))
            tls = contexts.setdefault(wanted, contexts.get(wanted) or _context(*wanted))
        elif not host.startswith("/"):
            own["sslmode"] = chosen
        netloc = f"{who}@" if who else ""
        if host.startswith("/"):
            own |= {"host": host} | ({"port": port} if port else {})
        else:
            netloc += (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
        dsn = parts._replace(netloc=netloc, query=urlencode(own, quote_via=quote, safe="/")).geturl()
        hosts.append(Host(dsn, f"{host or 'localhost'}{f':{port}' if port else ''}", is_local, chosen, tls))
    return Address(tuple(hosts), None if pooler is None else Pooler(pooler), application, attributes != "any")


def _places(listed: str, query: dict[str, str]) -> list[tuple[str, str]]:
    """Hosts with their ports, in the order in which they are tried; `host` and `port` of the query come before the others."""
    if "host" in query:
        hosts = query.pop("host").split(",")
        ports = query.pop("port", "").split(",")
        if len(ports) not in (1, len(hosts)):
            raise Invalid("DULY-E601", f"names {len(hosts)} hosts and {len(ports)} ports.", field=SETTING)
        return list(zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True))
    places: list[tuple[str, str]] = []
    for place in listed.split(","):
        if place.startswith("["):
            host, _, rest = place[1:].partition("]")
            port = rest.removeprefix(":")
        else:
            host, _, port = place.partition(":")
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
            raise Invalid("DULY-E601", f"{port!r} is not a port.", field=SETTING)
        # A socket's directory may stand here too, with its slashes escaped.
        places.append((unquote(host), port))
    return places


def _is_local(host: str) -> bool:
    """Whether nothing but this machine lies between: a socket, or the loopback."""
    if host in ("", "localhost") or host.startswith("/"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _context(mode: str, authorities: str, certificate: str, key: str, password: str, revoked: str) -> ssl.SSLContext:
    usual = Path.home() / USUAL_AUTHORITIES
    file = None if authorities == SYSTEM else authorities or (str(usual) if usual.is_file() else None)
    try:
        context = ssl.create_default_context(cafile=file)
        context.check_hostname = mode == "verify-full"
        if certificate:
            context.load_cert_chain(certificate, key or None, password or None)
        if revoked:
            context.load_verify_locations(cafile=revoked)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    except (OSError, ssl.SSLError) as error:
        what = " or ".join(name for name in (file, certificate, key, revoked) if name)
        raise Invalid(
            "DULY-E601",
            f"{what} cannot be used: {error.strerror or error}.",
            field=SETTING,
            hint="sslrootcert, sslcert, sslkey and sslcrl name files in PEM that this process can read.",
        ) from error
    return context
