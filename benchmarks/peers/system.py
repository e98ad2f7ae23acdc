"""What a system says of itself, so that it can be asked the same questions as the others."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from benchmarks.marks import PLACE
from benchmarks.peers.servers import Servers
from benchmarks.peers.work import KIND
from benchmarks.postgres import DATABASE

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"

NO_BULK = dict.fromkeys(("enqueue-bulk", "flow"), "it has no bulk enqueue")
"""For `cannot`: one call takes one job."""

StoreKind = Literal["postgres", "redis", "sqlite"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way to run a system. `about` is its drain in jobs a second, roughly: it decides how many jobs fill a few seconds."""

    name: str
    about: int
    processes: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one measurement takes place."""

    servers: Servers
    home: Path
    """The peers' environment."""
    directory: Path
    """For files of this measurement."""
    marks: Path
    work: str = "noop"
    dsn: str = ""
    redis: str = ""

    @property
    def python(self) -> str:
        """The interpreter of the peers' environment."""
        return str(self.home / "venv" / "bin" / "python")

    def tool(self, name: str) -> str:
        """A command of the peers' environment."""
        return str(self.home / "venv" / "bin" / name)


class System:
    """A system under measurement. Subclasses say what it is; how it is asked is the same for all."""

    name: ClassVar[str]
    """As `--only` takes it."""
    module: ClassVar[str]
    """Its program, below `programs`."""
    title: ClassVar[str]
    package: ClassVar[str]
    """Whose version is told; as the registry calls it."""
    store: ClassVar[StoreKind]
    default: ClassVar[Setting]
    """As it comes."""
    best: ClassVar[Setting]
    """What drains fastest, of what its documentation offers."""
    prompt: ClassVar[Setting]
    """What starts soonest, of what its documentation offers."""
    cannot: ClassVar[Mapping[str, str]] = {}
    """Questions that it cannot answer, and why."""
    special: ClassVar[Mapping[str, Setting]] = {}
    """Questions that want another setting than the best."""
    is_inside: ClassVar[bool] = False
    """Whether jobs are taken in by the process that runs them."""
    due_grain: ClassVar[int] = 1
    """Due times are multiples of so many seconds."""

    def environment(self, place: Place, setting: Setting | None = None) -> dict[str, str]:
        """The environment of its processes."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BENCH_", "DULY_", "PG", "PYTHONDONTWRITE"))}
        own = {PLACE: str(place.marks), KIND: place.work, "BENCH_DSN": place.dsn, "BENCH_REDIS": place.redis, "PYTHONPATH": str(ROOT)}
        options = {} if setting is None else {f"BENCH_{name}": value for name, value in setting.options.items()}
        return kept | own | options

    def program(self, place: Place) -> list[str]:
        """Its program; the commands of `programs.frame` come after it."""
        return [place.python, "-m", "benchmarks.peers.programs", self.module]

    def workers(self, place: Place, setting: Setting) -> list[list[str]]:
        """What runs the jobs."""
        return [[*self.program(place), "inside" if self.is_inside else "worker", *setting.flags]] * setting.processes

    def is_settled(self, place: Place) -> bool:
        """Whether its store says that nothing waits and nothing runs."""
        raise NotImplementedError

    def version(self, home: Path) -> str | None:
        """What is installed; None when it is not."""
        for path in (home / "venv" / "lib").glob(f"python*/site-packages/{self.package}-*.dist-info"):
            return path.name.removesuffix(".dist-info").rpartition("-")[2]
        return None


class OnPostgres(System):
    """Settled when a query finds no row."""

    store: ClassVar[StoreKind] = "postgres"
    unsettled: ClassVar[str]
    """A query for one row that is not yet finished."""

    def is_settled(self, place: Place) -> bool:
        return not place.servers.postgres.execute(self.unsettled, DATABASE)


class OnSqlite(System):
    """The same in a file."""

    store: ClassVar[StoreKind] = "sqlite"
    unsettled: ClassVar[str]

    def file(self, place: Place) -> Path:
        """The file of this measurement."""
        return place.directory / "bench.db"

    def is_settled(self, place: Place) -> bool:
        with contextlib.closing(sqlite3.connect(self.file(place))) as file:
            return not file.execute(self.unsettled).fetchone()


class OnRedis(System):
    """Settled when the keys that hold its jobs are gone: an empty list, hash or set is no key."""

    store: ClassVar[StoreKind] = "redis"
    keys: ClassVar[tuple[str, ...]]

    def is_settled(self, place: Place) -> bool:
        return place.servers.redis.ask("EXISTS", *self.keys) == "0"


class OnNode(System):
    """Runs in Node."""

    def environment(self, place: Place, setting: Setting | None = None) -> dict[str, str]:
        node = {"NODE_PATH": str(place.home / "npm" / "node_modules"), "NODE_ENV": "production"}
        return super().environment(place, setting) | node

    def program(self, place: Place) -> list[str]:
        return [place.tool("node"), str(PROGRAMS / f"{self.module}.js")]

    def version(self, home: Path) -> str | None:
        try:
            return str(json.loads((home / "npm" / "node_modules" / self.package / "package.json").read_text())["version"])
        except FileNotFoundError:
            return None


PROJECT_PYTHON = sys.executable
"""The project's own environment, in which Duly is."""
