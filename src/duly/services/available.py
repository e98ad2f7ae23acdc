"""Which servers of others this machine has, started together: PostgreSQL, and the engines that a fleet may add.

An engine is offered when Duly knows its setting and its launcher is there; one that is not installed is left out, with its reason.
"""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Protocol

from duly import config
from duly.services import ServiceMissing
from duly.services.postgres import Postgres

DATABASE = "duly"


class Launched(Protocol):
    """What every launcher of a server offers."""

    url: str

    def start(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Offer:
    """A server that a fleet may use: what it is called, where its launcher is, and the setting that names it."""

    name: str
    module: str
    launcher: str
    setting: str


OFFERS = (
    Offer("Redis", "duly.services.redis", "Redis", "DULY_HOT_INDEX"),
    Offer("etcd", "duly.services.etcd", "Etcd", "DULY_LEASES"),
    Offer("Kafka", "duly.services.kafka", "Kafka", "DULY_TRANSPORT"),
)


@dataclass(slots=True)
class Servers:
    """Those that run, by the setting that names each; what could not be had, with its reason."""

    settings: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def start(self) -> None:
        """Start PostgreSQL and every engine that there is. Raises ServiceMissing: without it there is no fleet."""
        server = Postgres()
        self._stack.callback(server.close)
        server.start()
        self._note("PostgreSQL", "DULY_STORE", server.create_database(DATABASE))
        for offer in OFFERS:
            if not is_offered(offer):
                continue
            try:
                launched: Launched = _launcher(offer)()
                self._stack.callback(launched.close)
                launched.start()
            except ServiceMissing as error:
                self.missing[offer.name] = str(error)
                continue
            self._note(offer.name, offer.setting, launched.url)

    def close(self) -> None:
        """End all of them, the last one first, and remove their data."""
        self._stack.close()

    def _note(self, name: str, setting: str, url: str) -> None:
        self.settings[setting], self.names[name] = url, url


def is_offered(offer: Offer) -> bool:
    """Whether this version of Duly can use it, and has a way to start it."""
    return offer.setting in {setting.name for setting in config.SETTINGS} and find_spec(offer.module) is not None


def _launcher(offer: Offer) -> Any:
    return getattr(importlib.import_module(offer.module), offer.launcher)
