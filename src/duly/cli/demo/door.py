"""The way in: the same API and pages as anywhere else, on the town's store and by its clock. Who may come in is a matter of real time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from duly import config
from duly.adapters.sql.store import store_on
from duly.adapters.system.clock import SystemClock, system_entropy
from duly.cli.demo import bar
from duly.cli.demo.town import Town
from duly.compose.node import Node, node_on
from duly.compose.stores import services_of
from duly.dashboard.pages import pages
from duly.domain.instants import Instant, Micros
from duly.http.app import Api, Pages, Services, create_api
from duly.testing.database import on_few_shards
from duly.usecases.access import Access, Keyring
from duly.usecases.sessions import Session, Sessions


class TownClock(SystemClock):
    """What time it is in town. Whatever is measured, and not told, is measured in real time."""

    def __init__(self, town: Town) -> None:
        super().__init__()
        self._town = town

    def now(self) -> Instant:
        return self._town.now

    def set_offset(self, offset: Micros) -> None:
        """Nobody puts it right: it is the store's."""

    def skew(self) -> Micros:
        return 0


class RealSessions(Sessions):
    """Sessions that end after hours of the real world, and are told of in town's time, which may have passed much faster."""

    def __init__(self, node: Node, real: SystemClock) -> None:
        super().__init__(node.store.sessions, real, system_entropy)
        self._real, self._shown = real, node.clock

    async def log_in(self, token: str, instead_of: str | None = None, request_id: str | None = None) -> Session:
        return self._told(await super().log_in(token, instead_of, request_id))

    async def recognise(self, id: str, *, is_use: bool = True) -> Session | None:
        found = await super().recognise(id, is_use=is_use)
        return None if found is None else self._told(found)

    def _told(self, session: Session) -> Session:
        return replace(session, ends_at=session.ends_at + self._shown.now() - self._real.now())


def node_in(town: Town, settings: config.Settings) -> Node:
    """What a server has of Duly, in town."""
    engine, clock = town.world.engine, TownClock(town)
    return node_on(settings, engine, store_on(engine), clock, town.bell, on_few_shards(system_entropy, clock, 1))


def api_in(town: Town, node: Node) -> tuple[Api, Services]:
    """The API with the dashboard's pages, each with the bar on top, and the one route more that the bar needs."""
    real = SystemClock()
    services = replace(
        services_of([node]),
        access=Access(node.store.keys, real),
        keyring=Keyring(node.store.keys, real, system_entropy),
        sessions=RealSessions(node, real),
    )
    dashboard = pages()
    return create_api(services, pages=Pages([*bar.on_top_of(dashboard.routes), *bar.routes(town)], dashboard.refusal)), services


def settings_in(home: Path, **flags: object) -> config.Settings:
    """Settings of a server whose store is nowhere but in this process."""
    return config.load(home=str(home), store="sqlite:///:memory:", **flags)  # type: ignore[arg-type]
