"""What a tenant takes along: read page by page at its old home, written at its new one, cleared away behind it.

A page of executions is read in one snapshot with all that belongs to them, and written in one transaction. Rows that are there
already stay, so a copy that was interrupted begins again from the top. Log lines have no key of their own: those of a page are
removed before they are written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from duly.adapters.sql.audit import COLUMNS
from duly.adapters.sql.engine import Action, Call, Engine, Many, one
from duly.adapters.sql.rows import as_uuid
from duly.domain.instants import LATEST, Instant
from duly.ports.homes import Parcel

JOBS_AT_ONCE = 200
EXECUTIONS_AT_ONCE = 500
RECORDS_AT_ONCE = 500
FIRST = UUID(int=0)

# In the order in which they are written: each finds there what it refers to.
OF_TENANT = ("key", "calendar", "batch", "promise", "gate", "awaited", "headroom", "fire_count", "alert_channel", "alert_rule", "address")
OF_JOBS = ("version", "job", "schedule", "calendar_use", "place", "pause", "figure")
OF_EXECUTIONS = (
    "execution",
    "outcome",
    "attempt",
    "timer",
    "blocked",
    "wait",
    "gate_wait",
    "slot",
    "unique",
    "checkpoint",
    "trace",
    "settled",
    "cancel",
    "log",
)
_ROUTE = ("pool", "labels", "handler")


async def parcels(engine: Engine, tenant: int, since: Instant) -> AsyncIterator[Parcel]:
    """All that a tenant has, but what it finished before `since`."""

    def of_tenant() -> Action[Parcel]:
        found = {}
        for name in OF_TENANT:
            found[name] = [dict(row) for row in (yield Call(f"moving_{name}", {"tenant": tenant}))]
        return Parcel(found)

    yield await engine.read(of_tenant)
    after: UUID | None = FIRST
    while after is not None:
        parcel, after = await engine.read(partial(_some_jobs, tenant, after))
        yield parcel
    reached: tuple[UUID, UUID] | None = (FIRST, FIRST)
    while reached is not None:
        parcel, reached = await engine.read(partial(_some_executions, tenant, reached, since))
        yield parcel
    async for parcel in _audit(engine, tenant):
        yield parcel


def _some_jobs(tenant: int, after: UUID) -> Action[tuple[Parcel, UUID | None]]:
    jobs = [dict(row) for row in (yield Call("moving_jobs", {"tenant": tenant, "after": after, "quota": JOBS_AT_ONCE}))]
    if not jobs:
        return Parcel(), None
    last = as_uuid(jobs[-1]["id"])
    found: dict[str, list[dict[str, Any]]] = {}
    for name in OF_JOBS:
        if name == "job":
            found[name] = jobs
        else:
            rows = yield Call(f"moving_{name}", {"tenant": tenant, "after": after, "last": last})
            found[name] = [dict(row) for row in rows]
    return Parcel(found), last if len(jobs) == JOBS_AT_ONCE else None


def _page(tenant: int, reached: tuple[UUID, UUID], since: Instant) -> Action[dict[str, Any] | None]:
    """The bounds of the next page; None when there is none."""
    job, after = reached
    start = {"tenant": tenant, "job": job, "after": after, "since": since}
    rows = yield Call("moving_page", start | {"quota": EXECUTIONS_AT_ONCE})
    if not rows:
        return None
    return start | {"last_job": as_uuid(rows[-1]["job_id"]), "last": as_uuid(rows[-1]["id"])}


def _some_executions(tenant: int, reached: tuple[UUID, UUID], since: Instant) -> Action[tuple[Parcel, tuple[UUID, UUID] | None]]:
    page = yield from _page(tenant, reached, since)
    if page is None:
        return Parcel(), None
    found = {}
    for name in OF_EXECUTIONS:
        found[name] = [dict(row) for row in (yield Call(f"moving_{name}", page))]
    return Parcel(found | {"page": [page]}), (page["last_job"], page["last"])


async def _audit(engine: Engine, tenant: int) -> AsyncIterator[Parcel]:
    after = 0
    while True:
        rows = [dict(row) for row in await engine.fetch("moving_audit", {"tenant": tenant, "after": after, "quota": RECORDS_AT_ONCE})]
        if rows:
            yield Parcel({"audit": [row | {"nth": after + nth} for nth, row in enumerate(rows)]})
        if len(rows) < RECORDS_AT_ONCE:
            break
        after = rows[-1]["seq"] if engine.name == "postgres" else after + len(rows)
    head = await engine.fetch("audit_head", {"tenant": tenant})
    if engine.name == "postgres" and head:
        yield Parcel({"audit_head": [dict(head[0]) | {"tenant": tenant}]})


def unpack(kind: str, parcel: Parcel) -> Action[None]:
    """Write a parcel at a store of the kind that packed it."""
    rows = parcel.rows
    routes = {tuple(row[part] for part in _ROUTE) for name in rows for row in rows[name] if "handler" in row}
    if routes:
        yield Many("move_route", [dict(zip(_ROUTE, route, strict=True)) for route in sorted(routes)])
    for name in (*OF_TENANT, *OF_JOBS, *OF_EXECUTIONS):
        if name == "log" and "page" in rows:
            yield Call("clear_log", rows["page"][0])
        if rows.get(name):
            yield Many(f"move_{name}", rows[name])
    if rows.get("audit"):
        yield from (_unpack_chain(rows["audit"]) if kind == "postgres" else _unpack_records(rows["audit"]))
    for head in rows.get("audit_head", ()):
        yield Call("move_audit_head", head)


def _unpack_chain(records: Any) -> Action[None]:
    yield Many("move_audit", records)
    yield Many("move_audit_link", records)
    yield Call("lift_places", {"place": max(record["place"] for record in records)})


def _unpack_records(records: Any) -> Action[None]:
    """Only those that are not here yet: the first of them are, when a copy begins again or a tenant comes back."""
    known = one((yield Call("audited", {"tenant": records[0]["tenant"]})))["n"]
    fresh = [{name: record[name] for name in COLUMNS} for record in records if record["nth"] >= known]
    if fresh:
        yield Many("audit_append", fresh)


async def clear(engine: Engine, tenant: int) -> int:
    """Remove all of a tenant but its row and its audit trail; answers how many executions went."""
    removed = 0

    def some_executions() -> Action[bool]:
        page = yield from _page(tenant, (FIRST, FIRST), -LATEST)
        if page is None:
            return False
        yield Call("clear_ready", page)
        for name in reversed(OF_EXECUTIONS):
            # The header goes last: the page is found by it. Its outcome goes with it, or a header would stand nowhere.
            if name not in ("execution", "outcome"):
                yield Call(f"clear_{name}", page)
        yield Call("clear_outcome", page)
        yield Call("clear_execution", page)
        return True

    def some_jobs() -> Action[bool]:
        jobs = yield Call("moving_jobs", {"tenant": tenant, "after": FIRST, "quota": JOBS_AT_ONCE})
        if not jobs:
            return False
        bounds: Mapping[str, Any] = {"tenant": tenant, "after": FIRST, "last": as_uuid(jobs[-1]["id"])}
        for name in ("figure", "pause", "place", "calendar_use", "schedule"):
            yield Call(f"clear_{name}", bounds)
        yield Call("clear_version", bounds)
        yield Call("clear_job", bounds)
        return True

    def rest() -> Action[None]:
        for name in (*reversed(OF_TENANT), "sessions", "links", "deliveries", "incidents", "missed"):
            yield Call(f"clear_{name}", {"tenant": tenant})

    while await engine.run(some_executions):
        removed += 1
    while await engine.run(some_jobs):
        pass
    await engine.run(rest)
    return removed
