"""What the doctor finds at the store: its schema, its clock, the way to it, and who holds it up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from duly import config
from duly.adapters.sql.engine import Engine
from duly.adapters.sql.migrate import Migration, pending
from duly.adapters.sql.store import store_on
from duly.cli import db, output
from duly.cli.doctor import link as way
from duly.cli.doctor.findings import FAIL, PASS, WARN, Finding, some
from duly.cli.places import masked, near
from duly.compose.node import sealed
from duly.domain.access import DEFAULT_TENANT_NUMBER
from duly.domain.instants import MINUTE, SECOND, Micros
from duly.domain.secrets import is_sealed
from duly.ports.store import ExecutionFilter, JobFilter

TOLERATED_SKEW: Micros = SECOND // 2
LONG_TRANSACTION: Micros = 5 * MINUTE
# SQLite writes its log back at some megabytes, unless somebody still reads what was before it.
LARGE_JOURNAL = 256 << 20


def store(settings: config.Settings) -> Iterator[Finding]:
    """Whether it answers, its schema, its second wall, and its clock."""
    path = db.sqlite_file(settings.store)
    where = near(path) if path is not None else masked(settings.store)
    if path is not None and not path.exists():
        yield Finding("store", WARN, f"there is no store at {where} yet", "`duly up` makes it; DULY_HOME or DULY_STORE name another.")
        return

    async def look(engine: Engine) -> tuple[Micros, list[Migration], bool]:
        before = output.now()
        there = await engine.store_now()
        skew = there - (before + output.now()) // 2
        return skew, await pending(engine), await engine.has_wall()

    skew, waiting, is_walled = db.on_store(settings.store, look)
    yield Finding("store", PASS, f"the store at {where} answers")
    if waiting:
        yield Finding("schema", FAIL, f"the schema lacks {len(waiting)} migration(s)", "duly db upgrade")
    else:
        yield Finding("schema", PASS, "the schema is current")
    if path is None and not waiting:
        yield _wall(is_walled)
    if path is not None:
        yield Finding("clock", PASS, "the store goes by this machine's clock")
    elif abs(skew) > TOLERATED_SKEW:
        text = f"this machine's clock is {output.span(abs(skew))} {'behind' if skew > 0 else 'ahead of'} the store's"
        yield Finding("clock", WARN, text, "Roles correct for it; still, synchronise the clocks (chrony or systemd-timesyncd).")
    else:
        yield Finding("clock", PASS, f"this machine's clock and the store's differ by {output.span(abs(skew))}")


def link(settings: config.Settings) -> Iterator[Finding]:
    """The way to PostgreSQL: who is trusted, what stands between, and whether hints arrive."""
    if not way.is_postgres(settings.store):
        return
    found = asyncio.run(way.look(settings))
    if doubtful := way.unverified(found.address):
        fix = "Name the authority: sslmode=verify-full&sslrootcert=FILE in DULY_STORE."
        yield Finding("store tls", WARN, f"nothing proves that {some(doubtful)} is who it says: sslmode does not ask for it", fix)
    if found.is_pooled and not found.is_told:
        text = "a pooler stands before PostgreSQL and shares its sessions: every statement is a transaction that sets its own plans"
        yield Finding("pooler", WARN, text, "Say so with pooler=transaction in DULY_STORE (session if it is one), or go past it.")
    elif found.is_pooled:
        yield Finding("pooler", PASS, "a pooler shares PostgreSQL's sessions, as DULY_STORE says")
    if found.hint is not None:
        yield Finding("hints", PASS, f"a hint of new work arrives in {found.hint * 1000:.1f} ms")
    else:
        fix = "Set DULY_STORE_DIRECT to a URL past the pooler; see docs/how-to/pgbouncer.md."
        yield Finding("hints", WARN, "hints of new work do not arrive: runs start up to half a second later, by polling", fix)


def transactions(settings: config.Settings) -> Iterator[Finding]:
    """Whoever keeps a transaction open keeps every dead row that was there since: the queue grows slow under it."""
    path = db.sqlite_file(settings.store)
    if path is not None:
        if path.exists():
            yield from _journal(path.with_name(f"{path.name}-wal"))
        return
    if not way.is_postgres(settings.store):
        return
    found = asyncio.run(way.long_transactions(settings, LONG_TRANSACTION))
    if found:
        fix = "End what forgot to commit: SELECT pg_terminate_backend(PID); and set idle_in_transaction_session_timeout."
        text = f"transactions stay open and keep dead rows from being cleaned up: {some(found)}"
        yield Finding("transactions", WARN, text, fix)
    else:
        yield Finding("transactions", PASS, f"no transaction is older than {output.span(LONG_TRANSACTION)}")


def _journal(file: Path) -> Iterator[Finding]:
    size = file.stat().st_size if file.exists() else 0
    if size > LARGE_JOURNAL:
        text = f"the write-ahead log has {size / (1 << 20):,.0f} MiB: somebody keeps a transaction open, and it cannot be written back"
        yield Finding("transactions", WARN, text, f"Find who reads {near(file)} (fuser shows them) and end it.")
    else:
        yield Finding("transactions", PASS, "nobody keeps the write-ahead log from being written back")


def payloads(settings: config.Settings) -> Iterator[Finding]:
    """Whether this process could read what is encrypted: the newest jobs and executions of the default tenant tell."""
    path = db.sqlite_file(settings.store)
    if path is not None and not path.exists():
        return

    async def look(engine: Engine) -> tuple[int, int]:
        if await pending(engine):
            return 0, 0
        store = sealed(store_on(engine), settings)
        jobs = await store.definitions.jobs(JobFilter(DEFAULT_TENANT_NUMBER, limit=200, now=output.now()))
        executions = await store.insights.executions(ExecutionFilter(DEFAULT_TENANT_NUMBER, limit=200))
        payloads = [job.version.spec.payload for job in jobs] + [execution.payload for execution in executions]
        return len(payloads), sum(is_sealed(payload) for payload in payloads)

    seen, closed = db.on_store(settings.store, look)
    if closed:
        text = f"{closed:,} of the latest {seen:,} payloads are encrypted with a key that is not here"
        yield Finding("payloads", WARN, text, "Put that key into DULY_PAYLOAD_KEYS, after the one that writes.")
    elif settings.payload_keys:
        yield Finding("payloads", PASS, f"payloads are encrypted with the key {settings.payload_keys[0][0]}")


def _wall(is_there: bool) -> Finding:
    if is_there:
        return Finding("wall", PASS, "the server keeps tenants apart as well (row-level security)")
    fix = "As a superuser: CREATE ROLE duly_tenant NOLOGIN; GRANT duly_tenant TO the user of DULY_STORE; then `duly db upgrade`."
    return Finding("wall", WARN, "tenants are kept apart by Duly's statements alone: its user may not create the role duly_tenant", fix)
