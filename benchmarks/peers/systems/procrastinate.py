"""Procrastinate: takes one job a query."""

from __future__ import annotations

from benchmarks.peers.system import OnPostgres, Setting


class Procrastinate(OnPostgres):
    """Waits for NOTIFY, and polls for what becomes due."""

    name = module = "procrastinate"
    title = "Procrastinate"
    package = "procrastinate"
    default = Setting(name="default", about=350)
    best = Setting(
        name="2 processes, concurrency 30, delete_jobs successful, uvloop",
        about=750,
        processes=2,
        options={"CONCURRENCY": "30", "POOL": "30", "DELETE_JOBS": "successful", "UVLOOP": "yes"},
    )
    prompt = Setting(
        name="concurrency 10, fetch_job_polling_interval 0.1", about=500, options={"CONCURRENCY": "10", "POOL": "10", "POLL_S": "0.1"}
    )
    unsettled = "SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing') LIMIT 1"
