"""Dramatiq with Redis."""

from __future__ import annotations

from benchmarks.peers.system import NO_BULK, OnRedis, Place, Setting


class Dramatiq(OnRedis):
    """Processes and threads; fewer threads and a larger prefetch are faster."""

    name = module = "dramatiq"
    title = "Dramatiq"
    package = "dramatiq"
    default = Setting(name="default: 8 threads a core", about=4_000)
    best = Setting(
        name="2 processes, 4 threads, prefetch 200",
        about=7_500,
        options={"PREFETCH": "200"},
        flags=("--processes", "2", "--threads", "4"),
    )
    prompt = default
    cannot = NO_BULK
    keys = ("dramatiq:default", "dramatiq:default.msgs", "dramatiq:default.DQ", "dramatiq:default.DQ.msgs")

    def environment(self, place: Place, setting: Setting | None = None) -> dict[str, str]:
        prefetch = {} if setting is None or "PREFETCH" not in setting.options else {"dramatiq_queue_prefetch": setting.options["PREFETCH"]}
        return super().environment(place, setting) | prefetch

    def workers(self, place: Place, setting: Setting) -> list[list[str]]:
        return [[place.tool("dramatiq"), "benchmarks.peers.programs.dramatiq", *setting.flags]]
