"""Duly: real `duly` processes, with what their command line documents."""

from __future__ import annotations

from importlib.metadata import version as installed_version
from pathlib import Path

from benchmarks.peers.system import PROJECT_PYTHON, ROOT, OnPostgres, OnSqlite, Place, Setting, System

APPLICATION = "benchmarks.peers.programs.duly:app"
COMMAND = (PROJECT_PYTHON, "-m", "duly.cli.main")
UNFINISHED = ("ready", "leases", "timers", "blocked")
UP = Setting(name="default: duly up", about=30_000)


class _Duly(System):
    """Whatever the store."""

    module = package = "duly"
    default = UP

    def environment(self, place: Place, setting: Setting | None = None) -> dict[str, str]:
        own = {"DULY_STORE": place.dsn, "DULY_HOME": str(place.directory), "DULY_LOG_LEVEL": "warning"}
        return super().environment(place, setting) | own | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}

    def program(self, place: Place) -> list[str]:
        return [PROJECT_PYTHON, *super().program(place)[1:]]

    def workers(self, place: Place, setting: Setting) -> list[list[str]]:
        if setting is UP:
            return [[*COMMAND, "up", APPLICATION, "--port", "0"]]
        return [[*COMMAND, "server", "--port", "0"], [*COMMAND, "worker", APPLICATION, *setting.flags]]

    def version(self, home: Path) -> str | None:
        return installed_version(self.package)


class Duly(_Duly, OnPostgres):
    """On PostgreSQL: a server beside the workers, as the documentation has it."""

    name = "duly"
    title = "Duly"
    best = Setting(name="duly worker --processes 2 --slots 100", about=100_000, flags=("--processes", "2", "--slots", "100"))
    prompt = Setting(name="duly worker", about=30_000)
    unsettled = " UNION ALL ".join(f"SELECT 1 FROM duly.{table}" for table in UNFINISHED) + " LIMIT 1"


class DulySqlite(_Duly, OnSqlite):
    """On SQLite, all in one process: one file has one writer."""

    name = "duly-sqlite"
    title = "Duly on SQLite"
    best = prompt = UP
    unsettled = " UNION ALL ".join(f"SELECT 1 FROM {table}" for table in UNFINISHED)

    def environment(self, place: Place, setting: Setting | None = None) -> dict[str, str]:
        return super().environment(place, setting) | {"DULY_STORE": f"sqlite:///{self.file(place)}"}
