"""PgQueuer: the fastest on Python."""

from __future__ import annotations

from benchmarks.peers.system import OnPostgres, Setting


class Pgqueuer(OnPostgres):
    """Waits for NOTIFY; large batches make it fast."""

    name = module = "pgqueuer"
    title = "PgQueuer"
    package = "pgqueuer"
    default = Setting(name="default", about=3_500)
    best = Setting(name="2 processes, batch_size 500, uvloop", about=18_000, processes=2, options={"BATCH": "500", "UVLOOP": "yes"})
    prompt = Setting(name="uvloop", about=3_500, options={"UVLOOP": "yes"})
    unsettled = "SELECT 1 FROM pgqueuer LIMIT 1"
