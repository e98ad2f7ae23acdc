"""Where an etcd is, as DULY_LEASES says it: etcd://user:password@host:2379,host:2379/prefix. With `etcds` it is reached by TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from duly.domain.errors import Invalid

PORT = 2379
PREFIX = "duly"


@dataclass(frozen=True, slots=True)
class Address:
    """The members of a cluster, any of which will do, who asks, and under which prefix our keys are."""

    endpoints: tuple[tuple[str, int], ...]
    user: str | None
    password: str | None = field(repr=False)
    prefix: str = PREFIX
    is_secure: bool = False


def parse_address(text: str) -> Address:
    """Raises Invalid (DULY-E601), which does not repeat a password."""
    try:
        parts = urlsplit(text)
        who, _, hosts = parts.netloc.rpartition("@")
        endpoints = tuple(_endpoint(host) for host in hosts.split(","))
    except ValueError as error:
        raise _wrong() from error
    user, _, password = who.partition(":")
    prefix = parts.path.strip("/") or PREFIX
    if parts.scheme not in ("etcd", "etcds") or parts.query or parts.fragment or bool(user) != bool(password):
        raise _wrong()
    return Address(endpoints, unquote(user) or None, unquote(password) or None, prefix, parts.scheme == "etcds")


def tls_context(ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    """Who is believed, and who we are. Raises Invalid (DULY-E601) for files that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        # The error of a missing file does not say which one.
        files = ", ".join(file for file in (ca, certificate, key) if file is not None)
        raise Invalid("DULY-E601", f"cannot be used: {error} ({files}).", field="DULY_ETCD_CA") from error
    return context


def _endpoint(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError(text)
    return parts.hostname, parts.port or PORT


def _wrong() -> Invalid:
    hint = "For example etcd://10.0.0.1:2379,10.0.0.2:2379, or etcds://user:password@host:2379/prefix."
    return Invalid("DULY-E601", "is neither `store` nor the address of an etcd.", field="DULY_LEASES", hint=hint)
