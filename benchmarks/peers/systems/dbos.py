"""DBOS: durable workflows with queues."""

from __future__ import annotations

from benchmarks.peers.system import NO_BULK, OnPostgres, OnSqlite, Place, Setting, System

UNFINISHED = "workflow_status WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED') LIMIT 1"
QUICK = Setting(name="polling 0.1 s, worker_concurrency 100", about=500, options={"POLL_S": "0.1", "CONCURRENCY": "100"})


class _Dbos(System):
    """A second process made it slower."""

    module = package = "dbos"
    default = Setting(name="default", about=500)
    best = QUICK
    prompt = QUICK
    cannot = NO_BULK


class Dbos(_Dbos, OnPostgres):
    """On PostgreSQL."""

    name = "dbos"
    title = "DBOS"
    unsettled = f"SELECT 1 FROM dbos.{UNFINISHED}"


class DbosSqlite(_Dbos, OnSqlite):
    """On SQLite."""

    name = "dbos-sqlite"
    title = "DBOS on SQLite"
    unsettled = f"SELECT 1 FROM {UNFINISHED}"

    def environment(self, place: Place, setting: Setting | None = None) -> dict[str, str]:
        return super().environment(place, setting) | {"BENCH_DSN": f"sqlite:///{self.file(place)}", "BENCH_CALLERS": "1"}
