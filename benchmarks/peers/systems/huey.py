"""Huey with Redis."""

from __future__ import annotations

from benchmarks.peers.system import NO_BULK, OnRedis, OnSqlite, Place, Setting, System

QUICK = ("--delay", "0.01", "--max-delay", "0.1")


class _Huey(System):
    """Takes a job from its list and forgets it: what a consumer has when it dies is lost."""

    module = package = "huey"
    default = Setting(name="default: 1 thread", about=2_400)
    best = Setting(name="4 processes", about=6_500, flags=("--workers", "4", "--worker-type", "process", *QUICK))
    prompt = Setting(name="2 processes", about=5_000, flags=("--workers", "2", "--worker-type", "process", *QUICK))
    cannot = NO_BULK

    def workers(self, place: Place, setting: Setting) -> list[list[str]]:
        return [[place.tool("huey_consumer"), "benchmarks.peers.programs.huey.huey", "--quiet", *setting.flags]]


class Huey(_Huey, OnRedis):
    """On Redis."""

    name = "huey"
    title = "Huey"
    keys = ("huey.redis.bench", "huey.schedule.bench")


class HueySqlite(_Huey, OnSqlite):
    """On SQLite. It comes without fsync, which none of the others does; so it is measured both ways."""

    name = "huey-sqlite"
    title = "Huey on SQLite"
    default = Setting(name="default: 1 thread, no fsync", about=15_000)
    best = prompt = Setting(name="1 thread, fsync", about=2_000, options={"FSYNC": "yes"})
    unsettled = "SELECT 1 FROM task UNION ALL SELECT 1 FROM schedule"

    def environment(self, place: Place, setting: Setting | None = None) -> dict[str, str]:
        return super().environment(place, setting) | {"BENCH_FILE": str(self.file(place))}
