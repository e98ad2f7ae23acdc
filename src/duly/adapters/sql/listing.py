"""Lists of jobs: ids along the key that has them, a bounded number at a time, then one probe of each key for each of them."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase
from typing import Any
from uuid import UUID

from duly.adapters.sql.engine import Action, Call, Row, one
from duly.adapters.sql.rows import as_uuid, job_of
from duly.domain.instants import Instant
from duly.domain.job import Job
from duly.domain.lifecycle import JobState
from duly.domain.shards import SHARDS
from duly.ports.store import JobFilter, JobStep, Waiting

# Larger than every id, so that the first page needs no statement of its own.
LAST_ID = UUID(int=(1 << 128) - 1)
# A name is looked at in no time, so many of them are.
NAMES_AT_ONCE = 100_000
# A tenant with so few jobs is sorted by itself; for any other the next fires of everybody are walked along.
FEW_JOBS = 5_000
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def step(wanted: JobFilter, chunk: int) -> Action[JobStep]:
    """Look at the next `chunk` jobs that may be meant."""
    before = wanted.before or LAST_ID
    ids, reached = yield from _ids(wanted, before, chunk)
    found = yield from sifted(wanted, ids, wanted.limit)
    return JobStep(found, found[-1].id if len(found) == wanted.limit else reached)


def _ids(wanted: JobFilter, before: UUID, chunk: int) -> Action[tuple[list[UUID], UUID | None]]:
    params: dict[str, Any] = {"tenant": wanted.tenant, "before": before, "quota": chunk}
    if wanted.name is not None:
        rows = yield Call("job_ids_of_name", params | {"name": wanted.name})
    elif wanted.state is JobState.PAUSED:
        rows = [*(yield Call("job_ids_in_state", params | {"state": wanted.state})), *(yield Call("job_ids_paused_until", params))]
    elif wanted.state is not None:
        rows = yield Call("job_ids_in_state", params | {"state": wanted.state})
    elif wanted.search is not None:
        is_all = (wanted.handler, wanted.pool, wanted.type, wanted.next_fire_after, wanted.next_fire_before) == (None,) * 5
        # Where nothing but the name is asked for, all that have it are meant.
        return (yield from _named_like(params | {"search": pattern(wanted.search)}, min(chunk, wanted.limit) if is_all else chunk))
    else:
        rows = yield Call("job_ids", params)
    ids = sorted({as_uuid(row["id"]) for row in rows}, key=lambda id: id.int, reverse=True)[:chunk]
    return ids, ids[-1] if len(ids) == chunk else None


def _named_like(params: dict[str, Any], chunk: int) -> Action[tuple[list[UUID], UUID | None]]:
    """Along the names, as far as there are enough."""
    rows = yield Call("job_ids_like", params | {"quota": chunk, "looked_at": NAMES_AT_ONCE})
    found = sorted((as_uuid(row["id"]) for row in rows if row["is_like"]), key=lambda id: id.int, reverse=True)[:chunk]
    ends = [as_uuid(row["id"]) for row in rows if row["is_end"]]
    return found, found[-1] if len(found) == chunk else ends[0] if ends else None


def sifted(wanted: JobFilter, ids: list[UUID], limit: int) -> Action[list[Job]]:
    """Those of these that are meant, newest first."""
    if not ids:
        return []
    params = {
        "tenant": wanted.tenant,
        "ids": ids,
        "name": wanted.name,
        "state": wanted.state,
        "search": None if wanted.search is None else pattern(wanted.search),
        "handler": wanted.handler,
        "pool": wanted.pool,
        "type": wanted.type,
        "next_fire_after": wanted.next_fire_after,
        "next_fire_before": wanted.next_fire_before,
        "quota": limit,
        "now": wanted.now,
    }
    return [job_of(row) for row in (yield Call("sifted_jobs", params))]


def pattern(search: str) -> str:
    """What a name must be like to contain this, whatever the case of plain letters: SQLite knows no others."""
    escaped = search.translate(_LOWER).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def of_source(tenant: int, source: str, before: UUID, limit: int) -> Action[list[Job]]:
    """What an application's code has brought and may still fire, newest first."""
    rows = yield Call("job_ids_of_source", {"tenant": tenant, "source": source, "before": before, "quota": limit})
    return (yield from sifted(JobFilter(tenant), [as_uuid(row["id"]) for row in rows], limit))


def waiting(tenant: int, before: Instant, limit: int, engine: str) -> Action[tuple[list[Waiting], Instant]]:
    """Active jobs that wait for a fire before an instant, soonest first, and until when these are all of them."""
    count = one((yield Call("count_live_jobs", {"tenant": tenant, "most": FEW_JOBS + 1})))["n"]
    if count <= FEW_JOBS:
        rows = yield Call("waiting_of_few", {"tenant": tenant, "before": before, "few": FEW_JOBS + 1, "quota": limit})
        return [_waiting_of(row) for row in rows], before
    # Shards are even: twice their share of what is wanted, and the soonest of them are all there.
    each = 2 * limit // SHARDS + 1
    return (yield from _next_fires(tenant, before, limit, each) if engine == "postgres" else _merged(tenant, before, limit, each))


def _next_fires(tenant: int, before: Instant, limit: int, each: int) -> Action[tuple[list[Waiting], Instant]]:
    walk = {"before": before, "each": each}
    rows = yield Call("next_fires", walk | {"tenant": tenant, "quota": limit})
    known = one(rows or (yield Call("known_until", walk)))
    return [_waiting_of(row) for row in rows], before if known["known_until"] is None else known["known_until"]


def _merged(tenant: int, before: Instant, limit: int, each: int) -> Action[tuple[list[Waiting], Instant]]:
    known_until, found = before, list[Waiting]()
    for shard in range(SHARDS):
        rows = yield Call("next_fires_of_shard", {"tenant": tenant, "shard": shard, "before": before, "each": each})
        if len(rows) == each:
            known_until = min(known_until, max(row["next_fire_at"] for row in rows))
        found += [_waiting_of(row) for row in rows if row["is_meant"]]
    soonest = sorted((one for one in found if one.next_fire_at < known_until), key=lambda one: (one.next_fire_at, one.id.int))
    return soonest[:limit], known_until


def _waiting_of(row: Row) -> Waiting:
    next_fire_at, skip_at = row["next_fire_at"], row["skip_at"]
    # A skip is spent once the schedule has moved past it.
    return Waiting(as_uuid(row["job_id"]), row["version"], next_fire_at, None if skip_at is None or skip_at < next_fire_at else skip_at)
