"""Celery with Redis, and its beat."""

from __future__ import annotations

from benchmarks.peers.questions import QUESTIONS
from benchmarks.peers.system import NO_BULK, OnRedis, Place, Setting

ALONE = ("--without-gossip", "--without-mingle", "--without-heartbeat")


class Celery(OnRedis):
    """Due times are kept in the workers' memory."""

    name = module = "celery"
    title = "Celery"
    package = "celery"
    default = Setting(name="default: prefork", about=700)
    best = Setting(
        name="2 processes, 10 threads, prefetch 64",
        about=1_400,
        processes=2,
        options={"PREFETCH": "64"},
        flags=("--pool", "threads", "--concurrency", "10", *ALONE),
    )
    prompt = default
    cannot = NO_BULK
    keys = ("celery", "unacked")

    def workers(self, place: Place, setting: Setting) -> list[list[str]]:
        command = [place.tool("celery"), "-A", "benchmarks.peers.programs.celery", "worker", "--loglevel", "warning"]
        return [[*command, "--hostname", f"bench{n}", *setting.flags] for n in range(setting.processes)]


class CeleryBeat(Celery):
    """Fires on a crontab: on the minute, and only again and again."""

    name = "celery-beat"
    title = "Celery beat"
    default = best = prompt = Setting(name="crontab, prefork", about=700)
    cannot = dict.fromkeys(QUESTIONS.keys() - {"same-second"}, "it only fires on a schedule")
    is_inside = True
    due_grain = 60

    def environment(self, place: Place, setting: Setting | None = None) -> dict[str, str]:
        return super().environment(place, setting) | {"BENCH_FILE": str(place.directory / "beat")}

    def workers(self, place: Place, setting: Setting) -> list[list[str]]:
        return [[*self.program(place), "inside"], *super().workers(place, setting)]
