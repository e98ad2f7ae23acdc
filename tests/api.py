"""The API's services over a store, put together once for every test that speaks to an API."""

from __future__ import annotations

import secrets
from typing import Any

from duly.domain.alerts.channel import Channel
from duly.domain.alerts.message import Notice
from duly.domain.instants import DAY, SECOND, Micros
from duly.http.services import Services
from duly.ports.clock import Clock, Entropy
from duly.ports.presence import StoreAlone
from duly.ports.store import Store
from duly.ports.transport import Transport
from duly.usecases.access import Access, Keyring
from duly.usecases.alerting.alerts import Alerts
from duly.usecases.audit import AuditTrail
from duly.usecases.backfill import Backfills
from duly.usecases.bulk import Bulk
from duly.usecases.calendars import Calendars
from duly.usecases.cluster import Cluster
from duly.usecases.conduct.conductor import Conductor
from duly.usecases.conduct.handing import conducted
from duly.usecases.dead_letters import DeadLetters
from duly.usecases.events import Changes
from duly.usecases.executions import Executions
from duly.usecases.grid import RunGrids
from duly.usecases.inspect import Fleet
from duly.usecases.jobs import Jobs
from duly.usecases.links import Links
from duly.usecases.logs import Logs
from duly.usecases.metrics import Metrics, StoreMetrics
from duly.usecases.overdue import Overdue
from duly.usecases.quotas import Directory
from duly.usecases.records import Records
from duly.usecases.scaling import Scaling
from duly.usecases.search import Search
from duly.usecases.sessions import Sessions
from duly.usecases.tenants import Tenants
from duly.usecases.upcoming import Upcoming
from duly.usecases.why import Why
from duly.usecases.workers import Workers
from duly.usecases.workflows import Workflows


class Silence:
    """A sender that tells nobody."""

    async def send(self, channel: Channel, notice: Notice) -> None:
        return None

    async def ping(self, url: str) -> None:
        return None


def services_on(
    store: Store, clock: Clock, entropy: Entropy, transport: Transport, *, keep: Micros = 30 * DAY, ttl: Micros = 15 * SECOND, **more: Any
) -> Services:
    """Every service on this store. Keys are random whatever the entropy: two of them must never be the same."""
    quotas = Directory(store.tenants, clock)
    conductor = Conductor(store.flows, store.definitions, store.cancels, quotas, transport, clock)
    store = conducted(store, conductor)
    jobs = Jobs(store.definitions, Overdue(store.schedules, store.leases, quotas, transport), quotas, clock, entropy, transport)
    executions = Executions(jobs, store.intake, store.cancels, store.insights, quotas, clock, entropy, transport)
    keyring = Keyring(store.keys, clock, secrets.randbits)
    reads = (store.readings, store.ready, store.loads, store.insights, store.leases, store.figures, store.health)
    read = StoreMetrics("default", *reads, clock)
    chosen: dict[str, Any] = {"ready": store.health.ping, "metrics": Metrics(more.get("telemetry"), [read])} | more
    return Services(
        jobs=jobs,
        executions=executions,
        cluster=Cluster(store.leases, store.health, store.conditions, StoreAlone(), clock, "sqlite"),
        fleet=Fleet(store.insights, store.search, clock),
        why=Why(store.facts, store.insights, store.ready, store.tenants, clock, keep),
        dead_letters=DeadLetters(store.letters, executions, clock, transport),
        bulk=Bulk(store.letters, jobs, executions, clock, entropy, transport),
        backfills=Backfills(jobs, executions, store.letters, clock, entropy),
        access=Access(store.keys, clock),
        keyring=keyring,
        sessions=Sessions(store.sessions, clock, secrets.randbits),
        workers=Workers(store, clock, entropy, transport, ttl),
        clock=clock,
        calendars=Calendars(store.calendars, clock, transport),
        audit=AuditTrail(store.audit),
        tenants=Tenants(store.tenants, keyring, quotas, clock, transport),
        search=Search(store.search, clock),
        upcoming=Upcoming(store.definitions, store.figures, clock),
        changes=Changes(store.definitions, store.search, clock),
        grids=RunGrids(store.grids, conductor, clock),
        records=Records(store.records),
        logs=Logs(store.logs, executions, jobs),
        scaling=Scaling(store.loads, store.insights, store.ready, clock),
        workflows=Workflows(store.flows, executions, jobs, conductor, store.keys, clock),
        alerts=Alerts(store.alerts, store.figures, store.fire_audit, Silence(), clock, secrets.randbits),
        links=Links(store.links, clock, secrets.randbits),
        **chosen,
    )
