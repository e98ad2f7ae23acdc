"""What tells who of the dispatchers is there: the store's own leases alone, or a service beside them."""

from __future__ import annotations

import os

from duly import config
from duly.compose.node import Node
from duly.domain.zones import tzdata_version
from duly.ports.clock import Clock
from duly.ports.presence import Presence, StoreAlone
from duly.ports.store import DispatcherAbout


def presence_of(settings: config.Settings, clock: Clock) -> Presence:
    """What DULY_LEASES names. Raises Invalid (DULY-E601) when it names nothing that there is."""
    if settings.leases == "store":
        return StoreAlone()
    from duly.adapters.etcd.address import parse_address, tls_context
    from duly.adapters.etcd.client import Etcd
    from duly.adapters.etcd.leases import EtcdPresence

    address = parse_address(settings.leases)
    tls = tls_context(settings.etcd_ca, settings.etcd_cert, settings.etcd_key) if address.is_secure else None
    return EtcdPresence(Etcd(address, tls), address.prefix, clock)


def about_dispatcher(node: Node) -> DispatcherAbout:
    """What a dispatcher of this process says of itself."""
    return DispatcherAbout(node.settings.hostname, os.getpid(), config.VERSION, node.clock.skew(), tzdata_version())
