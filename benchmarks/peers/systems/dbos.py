"""DBOS: durable workflows with queues."""

from __future__ import annotations

from benchmarks.peers.system import NO_BULK, OnPostgres, Setting

QUICK = Setting(name="polling 0.1 s, worker_concurrency 100", about=500, options={"POLL_S": "0.1", "CONCURRENCY": "100"})


class Dbos(OnPostgres):
    """A second process made it slower."""

    name = "dbos"
    title = "DBOS"
    package = "dbos"
    default = Setting(name="default", about=500)
    best = QUICK
    prompt = QUICK
    cannot = NO_BULK
    unsettled = "SELECT 1 FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED') LIMIT 1"
