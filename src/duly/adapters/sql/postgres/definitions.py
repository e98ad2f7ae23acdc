"""New jobs in bulk on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from duly.adapters.sql.definitions import name_taken
from duly.adapters.sql.engine import Action, Call
from duly.adapters.sql.rows import encode
from duly.domain.ids import JobId
from duly.domain.instants import Instant
from duly.ports.store import NewJob


def create_in_bulk(jobs: Sequence[tuple[NewJob, int]], now: Instant) -> Action[dict[JobId, int]]:
    """All of them in one statement; answers the numbers of their versions. A name that is taken raises Conflict and undoes the rest."""
    params = {
        "ids": [job.id for job, _ in jobs],
        "tenants": [job.tenant for job, _ in jobs],
        "names": [job.spec.name for job, _ in jobs],
        "routes": [route for _, route in jobs],
        "max_attempts": [job.spec.retry.max_attempts for job, _ in jobs],
        "definitions": [encode(job.spec) for job, _ in jobs],
        "shards": [job.shard for job, _ in jobs],
        "next_ats": [job.next_fire_at for job, _ in jobs],
        "now": now,
    }
    rows = yield Call("create_jobs", params)
    for row in rows:
        if row["taken"]:
            raise name_taken(row["name"])
    return {row["job_id"]: row["number"] for row in rows}
