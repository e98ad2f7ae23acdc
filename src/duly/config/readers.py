"""How the text of a setting becomes its value. Each raises ValueError with what it expects."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from duly.domain.access import Role

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network


def text(value: str) -> str:
    return value


def words(value: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(",") if word.strip())


CAPTURED = ("logging", "print")


def captured(value: str) -> frozenset[str]:
    found = frozenset(words(value))
    if found - set(CAPTURED):
        raise ValueError(f"expected some of {', '.join(CAPTURED)}, with a comma between them, or nothing")
    return found


def switch(value: str) -> bool:
    if value.lower() in ("1", "true", "yes", "on"):
        return True
    if value.lower() in ("", "0", "false", "no", "off"):
        return False
    raise ValueError("expected true or false")


def whole(least: int, most: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        if not value.isascii() or not value.isdigit() or not least <= int(value) <= most:
            raise ValueError(f"expected a number from {least} to {most}")
        return int(value)

    return read


def labels(value: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in words(value))
    return {key: label for key, _, label in pairs}


def names(value: str) -> tuple[str, ...]:
    names = words(value)
    if any(not name.removesuffix("*").isidentifier() or not name.isascii() for name in names):
        raise ValueError("expected names of variables, or beginnings of them such as SHOP_*")
    return names


def payload_keys(value: str) -> tuple[tuple[str, bytes], ...]:
    found: dict[str, bytes] = {}
    for nth, word in enumerate(words(value), 1):
        name, _, text = word.partition(":")
        try:
            key = b64decode(text, validate=True)
        except ValueError:
            key = b""
        # The text is not repeated: it is the key.
        if not name.isascii() or not name.isalnum() or len(name) > 32 or len(key) != 32 or name in found:
            raise ValueError(f"the key number {nth} is not NAME:BASE64 of 32 bytes, or its name is used twice")
        found[name] = key
    return tuple(found.items())


MEMORY = "memory"


def hot_index(value: str) -> str:
    if value in ("", MEMORY):
        return MEMORY
    if urlsplit(value).scheme not in ("redis", "rediss"):
        raise ValueError("expected memory, or redis://host:6379/0, or rediss:// for TLS")
    return value


LIMITS = ("cpu", "memory", "files", "processes", "size")
_SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def limits(value: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words(value):
        name, _, text = word.partition("=")
        digits = text[:-1] if text[-1:].upper() in _SIZES else text
        if name not in LIMITS or not digits.isascii() or not digits.isdigit() or not 0 < int(digits) < 1 << 40:
            raise ValueError(f"expected {', '.join(LIMITS)}, each with a number such as memory=512M")
        found[name] = int(digits) * _SIZES.get(text[-1:].upper(), 1)
    return found


def level(value: str) -> str:
    if value.lower() not in ("debug", "info", "warning", "error"):
        raise ValueError("expected debug, info, warning or error")
    return value.lower()


def address(value: str) -> str:
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc):
        raise ValueError("expected an address such as https://duly.example.com")
    if parts.query or parts.fragment or not re.fullmatch(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?", parts.path):
        raise ValueError("expected an address such as https://ops.example.com/duly, with plain segments in its path")
    return value.rstrip("/")


def leases(value: str) -> str:
    # The rest is read by who connects; the text is not repeated: a password may be in it.
    if value not in ("", "store") and not value.startswith(("etcd://", "etcds://")):
        raise ValueError("expected store, or an address such as etcd://10.0.0.1:2379")
    return value or "store"


def header(value: str) -> str:
    if value and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}", value):
        raise ValueError("expected the name of a header, such as X-Forwarded-User")
    if value.lower() in ("authorization", "cookie", "host", "origin"):
        raise ValueError(f"{value} is not for a proxy to say who asks")
    return value.lower()


def networks(value: str) -> tuple[IPv4Network | IPv6Network, ...]:
    from ipaddress import ip_network

    return tuple(ip_network(word) for word in words(value))


def users(value: str) -> dict[str, tuple[str, Role]]:
    found: dict[str, tuple[str, Role]] = {}
    for word in words(value):
        user, _, rest = word.rpartition("=")
        tenant, _, role = rest.rpartition(":")
        if not user or not tenant or role not in ("VIEWER", "OPERATOR", "ADMIN"):
            raise ValueError("expected user=tenant:ROLE, such as ann@example.com=default:ADMIN, with VIEWER, OPERATOR or ADMIN")
        if user in found:
            raise ValueError(f"{user} stands twice")
        found[user] = (tenant, Role[role])
    return found


def optional(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Nothing, or what `read` makes of it."""
    return lambda value: read(value) if value else None


def collector(value: str) -> str:
    parts = urlsplit(value)
    if value and (parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment):
        raise ValueError("expected an address such as http://127.0.0.1:4318; credentials belong into DULY_OTLP_HEADERS")
    return value.rstrip("/")


def one_of(*known: str) -> Callable[[str], tuple[str, ...]]:
    def read(value: str) -> tuple[str, ...]:
        found = words(value)
        if unknown := [word for word in found if word not in known]:
            raise ValueError(f"{', '.join(unknown)} is not known; there are {', '.join(known)}")
        return tuple(found)

    return read


def headers(value: str) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for word in words(value):
        name, _, text = word.partition("=")
        # The text is not repeated: a key may be in it.
        if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", name) or not text or not text.isascii() or not text.isprintable():
            raise ValueError("expected name=value, one after a comma")
        found.append((name.lower(), text))
    return tuple(found)


def fraction(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 1.0:
        raise ValueError("expected a number from 0 to 1, such as 0.01")
    return number
