"""Roles on both stores with a clock that is turned by hand, and whoever watches over them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from duly.adapters.sql.bell import Bell
from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine
from duly.adapters.sql.store import store_on
from duly.domain.alerts.channel import Channel, ChannelKind
from duly.domain.alerts.evaluate import Event, Incident
from duly.domain.alerts.message import Notice
from duly.domain.alerts.rule import Condition, Kind, Rule
from duly.domain.lifecycle import State
from duly.ports.alerts import IncidentFilter
from duly.ports.endings import Failure
from duly.roles.alerter import Alerter, AlerterSettings
from duly.roles.auditor import Auditor, AuditorSettings
from duly.roles.messenger import Messenger, MessengerSettings
from duly.roles.surveyor import Surveyor, SurveyorSettings
from duly.roles.worker import Worker
from duly.usecases.calendars import Calendars
from duly.usecases.executions import Executions
from duly.usecases.jobs import Jobs
from duly.usecases.overdue import Overdue
from duly.usecases.quotas import Directory
from tests.roles.conftest import HandClock, World, run_until_idle
from tests.services.databases import in_memory


@dataclass
class Pager:
    """A channel's other end: keeps what it was told."""

    told: list[tuple[str, Notice]] = field(default_factory=list)
    pings: list[str] = field(default_factory=list)
    refuses: Failure | None = None

    async def send(self, channel: Channel, notice: Notice) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.told.append((channel.name, notice))

    async def ping(self, url: str) -> None:
        self.pings.append(url)

    @property
    def titles(self) -> list[str]:
        return [notice.title for _, notice in self.told]


@dataclass
class Town(World):
    """The world, with a pager, an alerter, a messenger, an auditor and a surveyor."""

    engine: Any = None
    calendars: Any = None
    pager: Pager = field(default_factory=Pager)

    def alerter(self, name: str = "a1", **settings: Any) -> Alerter:
        return Alerter(
            name, self.store.alerts, self.store.figures, self.store.calendars, self.pager, self.entropy, AlerterSettings(**settings)
        )

    def messenger(self, name: str = "m1", **settings: Any) -> Messenger:
        return Messenger(name, self.store.alerts, self.pager, MessengerSettings(**settings))

    def auditor(self, name: str = "t1", **settings: Any) -> Auditor:
        return Auditor(name, self.store.fire_audit, AuditorSettings(**settings))

    def surveyor(self) -> Surveyor:
        return Surveyor(self.store.figures, SurveyorSettings())

    async def channel(self, name: str = "ops") -> None:
        made = Channel(name=name, kind=ChannelKind.WEBHOOK, url="https://ops.example.com/hook")
        await self.store.alerts.put_channel(1, made, None, self.clock.now())

    async def rule(self, kind: Kind, name: str = "rule", *, condition: dict[str, Any] | None = None, **more: Any) -> Rule:
        """A rule that tells the channel `ops`."""
        await self.channel()
        made = Rule(name=name, condition=Condition(kind=kind, **condition or {}), **{"channels": ("ops",)} | more)
        await self.store.alerts.put_rule(1, made, None, self.clock.now())
        return made

    async def look(self, alerter: Alerter) -> list[str]:
        """One look of the alerter and whatever is to be sent of it: what the pager was told by it."""
        before = len(self.pager.told)
        await alerter.step(self.clock.now())
        messenger = self.messenger()
        while (await messenger.step(self.clock.now())).did["sent"]:
            pass
        return [notice.title for _, notice in self.pager.told[before:]]

    async def incidents(self) -> list[Incident]:
        return await self.store.alerts.incidents(IncidentFilter(1))

    async def run_all(self, worker: Worker) -> None:
        await run_until_idle(worker, self.clock)

    async def ended(self, state: State) -> list[Any]:
        return [run for run in await self.all() if run.state is state]


def events(told: Sequence[tuple[str, Notice]]) -> list[Event]:
    return [notice.event for _, notice in told]


@pytest.fixture(params=("sqlite", "postgres"))
async def town(request: pytest.FixtureRequest) -> AsyncIterator[Town]:
    engine: Engine
    if request.param == "sqlite":
        engine = await in_memory(InlineSqliteEngine())
    else:
        engine = PostgresEngine(request.getfixturevalue("postgres_store"))
    store, clock, transport = store_on(engine), HandClock(), Bell()
    entropy = random.Random(7).getrandbits
    quotas = Directory(store.tenants, clock)
    jobs = Jobs(store.definitions, Overdue(store.schedules, store.leases, quotas, transport), quotas, clock, entropy, transport)
    executions = Executions(jobs, store.intake, store.cancels, store.insights, quotas, clock, entropy, transport)
    yield Town(store, clock, entropy, transport, jobs, executions, engine=engine, calendars=Calendars(store.calendars, clock, transport))
    await store.health.close()
