"""Huey with Redis."""

from __future__ import annotations

from benchmarks.peers.system import NO_BULK, OnRedis, Place, Setting

QUICK = ("--delay", "0.01", "--max-delay", "0.1")


class Huey(OnRedis):
    """Takes a job from its list and forgets it: what a consumer has when it dies is lost."""

    name = "huey"
    title = "Huey"
    package = "huey"
    default = Setting(name="default: 1 thread", about=2_400)
    best = Setting(name="4 processes", about=6_500, flags=("--workers", "4", "--worker-type", "process", *QUICK))
    prompt = Setting(name="2 processes", about=5_000, flags=("--workers", "2", "--worker-type", "process", *QUICK))
    cannot = NO_BULK
    keys = ("huey.redis.bench", "huey.schedule.bench")

    def workers(self, place: Place, setting: Setting) -> list[list[str]]:
        return [[place.tool("huey_consumer"), "benchmarks.peers.programs.huey.huey", "--quiet", *setting.flags]]
