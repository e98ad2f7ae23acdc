"""Kafka's address as one text: brokers, who asks, how they are known to be themselves, and how topics are made.

kafka://user:password@broker-1:9092,broker-2:9092/prefix?tls=true&ca=/etc/duly/ca.pem&mechanism=SCRAM-SHA-512
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from duly.domain.errors import Invalid

PREFIX = "duly"
PARTITIONS = 16
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
KNOWN = ("tls", "ca", "certificate", "key", "mechanism", "partitions", "replication", "minInSync")
_EXAMPLE = "Use kafka://broker-1:9092,broker-2:9092, with user:password@ and ?tls=true as the brokers ask for."


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """Where the brokers are and how to speak to them. `replication` None: as many as there are brokers, three at most."""

    servers: str
    prefix: str = PREFIX
    partitions: int = PARTITIONS
    replication: int | None = None
    min_in_sync: int | None = None
    client: dict[str, Any] = field(default_factory=dict, repr=False)


def parse_address(text: str, setting: str) -> KafkaAddress:
    """Read it. Raises Invalid (DULY-E601) that says what is wrong with it, and repeats nothing of it: there may be a password inside."""

    def refuse(why: str) -> Invalid:
        return Invalid("DULY-E601", f"{why}.", field=setting, hint=_EXAMPLE)

    try:
        parts = urlsplit(text)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:
        raise refuse("it is not an address") from error
    if parts.scheme != "kafka":
        raise refuse("only kafka:// is known")
    if unknown := sorted(options.keys() - set(KNOWN)):
        raise refuse(f"{', '.join(unknown)} is not known; {', '.join(KNOWN)} are")
    user, _, hosts = parts.netloc.rpartition("@")
    servers = [_server(host) for host in hosts.split(",")]
    if None in servers:
        raise refuse("every broker needs a host and a port")
    prefix = parts.path.strip("/") or PREFIX
    if len(prefix) > 60 or not all(sign.isascii() and (sign.isalnum() or sign in "._-") for sign in prefix):
        raise refuse("the prefix of topics is 1 to 60 letters, digits and . _ -")
    whole = {name: _whole(options[name]) for name in ("partitions", "replication", "minInSync") if name in options}
    if wrong := [name for name, number in whole.items() if number is None]:
        raise refuse(f"{wrong[0]} is a number from 1 to 1000")
    return KafkaAddress(
        ",".join(server for server in servers if server is not None),
        prefix,
        whole.get("partitions") or PARTITIONS,
        whole.get("replication"),
        whole.get("minInSync"),
        _client(user, options, refuse),
    )


def _server(host: str) -> str | None:
    name, _, port = host.rpartition(":")
    return host if name and port.isascii() and port.isdigit() and 0 < int(port) < 65_536 else None


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and 1 <= int(text) <= 1000 else None


def _client(user: str, options: dict[str, str], refuse: Any) -> dict[str, Any]:
    """What the client library is told: encryption, our certificate, who we are."""
    if (tls := options.get("tls", "false").lower()) not in ("true", "false"):
        raise refuse("tls is true or false")
    is_tls = tls == "true"
    if not is_tls and any(name in options for name in ("ca", "certificate", "key")):
        raise refuse("ca, certificate and key need tls=true")
    if ("certificate" in options) != ("key" in options):
        raise refuse("certificate and key go together")
    client: dict[str, Any] = {"security.protocol": f"{'SASL_' if user else ''}{'SSL' if is_tls else 'PLAINTEXT'}"}
    names = {"ca": "ssl.ca.location", "certificate": "ssl.certificate.location", "key": "ssl.key.location"}
    client |= {names[name]: options[name] for name in names if name in options}
    if is_tls:
        client["ssl.endpoint.identification.algorithm"] = "https"
    if user:
        name, _, password = user.partition(":")
        mechanism = options.get("mechanism", "SCRAM-SHA-512").upper()
        if mechanism not in MECHANISMS:
            raise refuse(f"mechanism is one of {', '.join(MECHANISMS)}")
        if mechanism == "PLAIN" and not is_tls:
            raise refuse("mechanism PLAIN would send the password in clear; add tls=true, or use SCRAM-SHA-512")
        client |= {"sasl.mechanism": mechanism, "sasl.username": unquote(name), "sasl.password": unquote(password)}
    elif "mechanism" in options:
        raise refuse("mechanism needs user:password@")
    return client
