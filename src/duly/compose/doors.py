"""How people come in: what the settings say about browsers and proxies, and that an open door needs a lock."""

from __future__ import annotations

import logging
from ipaddress import ip_address
from typing import TYPE_CHECKING

from duly import config
from duly.compose.node import Node
from duly.domain.errors import Invalid
from duly.roles.doorkeeper import Doorkeeper, DoorkeeperSettings

if TYPE_CHECKING:
    from duly.http.auth import Gate
    from duly.http.services import Services

log = logging.getLogger("duly")


def gate_of(settings: config.Settings) -> Gate:
    """Browsers, and proxies that are believed. A proxy's word counts only when all that it needs is set."""
    from duly.http.auth import Gate

    parts = (settings.proxy_auth_header, settings.proxy_auth_from, settings.proxy_auth_users)
    if not all(parts):
        if any(parts):
            log.warning("login by proxy is off: DULY_PROXY_AUTH_HEADER, DULY_PROXY_AUTH_FROM and DULY_PROXY_AUTH_USERS belong together")
        return Gate(settings.public_url)
    header = (settings.proxy_auth_header or "").encode()
    return Gate(settings.public_url, header, settings.proxy_auth_from, settings.proxy_auth_users)


def doorkeeper_of(node: Node, services: Services) -> Doorkeeper:
    """Who writes down what these services have seen."""
    uses = (services.access.uses, services.sessions.uses)
    return Doorkeeper(node.store.keys, node.store.sessions, *uses, DoorkeeperSettings())


async def refuse_openness(node: Node) -> None:
    """Raises Invalid (DULY-E314) for an API on an address that others can reach while the store has no key."""
    if not is_local(node.settings.host) and not await node.store.keys.any_key(node.clock.now()):
        raise Invalid("DULY-E314", f"refuses to listen on {node.settings.host}: the store has no key.", field="DULY_HOST")


def is_local(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
