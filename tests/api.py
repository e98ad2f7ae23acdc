"""The API's services over a store, put together once for every test that speaks to an API."""

from __future__ import annotations

import secrets
from typing import Any

from duly.domain.instants import DAY, SECOND, Micros
from duly.http.services import Services
from duly.ports.clock import Clock, Entropy
from duly.ports.store import Store
from duly.ports.transport import Transport
from duly.usecases.access import Access, Keyring
from duly.usecases.audit import AuditTrail
from duly.usecases.backfill import Backfills
from duly.usecases.bulk import Bulk
from duly.usecases.calendars import Calendars
from duly.usecases.dead_letters import DeadLetters
from duly.usecases.events import Changes
from duly.usecases.executions import Executions
from duly.usecases.inspect import Fleet
from duly.usecases.jobs import Jobs
from duly.usecases.overdue import Overdue
from duly.usecases.quotas import Directory
from duly.usecases.search import Search
from duly.usecases.sessions import Sessions
from duly.usecases.tenants import Tenants
from duly.usecases.upcoming import Upcoming
from duly.usecases.why import Why
from duly.usecases.workers import Workers


def services_on(
    store: Store, clock: Clock, entropy: Entropy, transport: Transport, *, keep: Micros = 30 * DAY, ttl: Micros = 15 * SECOND, **more: Any
) -> Services:
    """Every service on this store. Keys are random whatever the entropy: two of them must never be the same."""
    quotas = Directory(store.tenants, clock)
    jobs = Jobs(store.definitions, Overdue(store.schedules, store.leases, quotas, transport), quotas, clock, entropy, transport)
    executions = Executions(jobs, store.intake, store.cancels, store.insights, quotas, clock, entropy, transport)
    keyring = Keyring(store.keys, clock, secrets.randbits)
    chosen: dict[str, Any] = {"ready": store.health.ping} | more
    return Services(
        jobs=jobs,
        executions=executions,
        fleet=Fleet(store.insights, store.search, clock),
        why=Why(store.facts, store.insights, store.ready, store.tenants, clock, keep),
        dead_letters=DeadLetters(store.letters, executions, clock, transport),
        bulk=Bulk(store.letters, jobs, executions, store.cancels, clock, entropy, transport),
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
        upcoming=Upcoming(store.definitions),
        changes=Changes(store.definitions, store.search, clock),
        **chosen,
    )
