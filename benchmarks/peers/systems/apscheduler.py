"""APScheduler 3: a scheduler with a store, not a queue."""

from __future__ import annotations

from benchmarks.peers.system import NO_BULK, OnPostgres, OnSqlite, Place, Setting, System


class _Apscheduler(System):
    """One process has the store: it schedules, runs and takes new jobs in."""

    module = package = "apscheduler"
    default = best = prompt = Setting(name="default: 10 threads, no misfire grace time", about=850)
    cannot = NO_BULK
    is_inside = True


class Apscheduler(_Apscheduler, OnPostgres):
    """On PostgreSQL."""

    name = "apscheduler"
    title = "APScheduler"
    unsettled = "SELECT 1 FROM apscheduler_jobs LIMIT 1"

    def environment(self, place: Place, setting: Setting | None = None) -> dict[str, str]:
        return super().environment(place, setting) | {"BENCH_STORE": place.dsn.replace("postgresql://", "postgresql+psycopg://")}


class ApschedulerSqlite(_Apscheduler, OnSqlite):
    """On SQLite."""

    name = "apscheduler-sqlite"
    title = "APScheduler on SQLite"
    unsettled = Apscheduler.unsettled

    def environment(self, place: Place, setting: Setting | None = None) -> dict[str, str]:
        return super().environment(place, setting) | {"BENCH_STORE": f"sqlite:///{self.file(place)}"}
