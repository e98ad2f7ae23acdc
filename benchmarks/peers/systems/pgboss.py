"""pg-boss: its `work` polls; a loop of one's own over `fetch` and `complete` is faster."""

from __future__ import annotations

from benchmarks.peers.system import OnNode, OnPostgres, Setting


class Pgboss(OnNode, OnPostgres):
    """By default one job every two seconds."""

    name = module = "pgboss"
    title = "pg-boss"
    package = "pg-boss"
    default = Setting(name="default", about=1)
    best = Setting(name="2 processes, fetch and complete 1000", about=20_000, processes=2, options={"FETCH_LOOP": "yes", "BATCH": "1000"})
    prompt = Setting(
        name="useListenNotify, polling 0.5 s, batchSize 100", about=200, options={"NOTIFY": "yes", "POLL_S": "0.5", "BATCH": "100"}
    )
    unsettled = "SELECT 1 FROM pgboss.job WHERE state < 'completed' LIMIT 1"
