"""A real PostgreSQL, private to whoever started it: for `duly verify`, for tests and for benchmarks.

    with Postgres() as server:
        server.create_database("ledger")
        connection = await asyncpg.connect(server.dsn("ledger"))

Every server is its own: a fresh `initdb` (under a second) in a temporary directory, on a
free port of 127.0.0.1, run as an unprivileged user when we are root. fsync and
synchronous_commit stay on, because durability is part of what is tested.

`Postgres(follows=primary)` is a streaming standby of another server: a base backup of it, made at the
first start. `promote` makes it a primary.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from duly import config
from duly.services import ServiceFailed, ServiceMissing
from duly.services.service import Service, options, unprivileged

StopMode = Literal["smart", "fast", "immediate"]

USER = "duly"
MAX_SOCKET_PATH = 107

STOP_SIGNALS: Mapping[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "autovacuum_naptime": "5s",
    "log_line_prefix": "%m [%p] %d ",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


def find_binaries() -> Path:
    """The directory with `initdb`, `postgres` and `psql`; the highest version when there are several."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    found.sort(key=lambda path: [int(part) for part in path.parent.name.split(".") if part.isdigit()], reverse=True)
    if pg_config := shutil.which("pg_config"):
        asked = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        found.append(Path(asked.stdout.strip()))
    if postgres := shutil.which("postgres"):
        found.append(Path(postgres).resolve().parent)
    for directory in found:
        if all((directory / name).exists() for name in ("initdb", "postgres", "psql")):
            return directory
    raise ServiceMissing("no PostgreSQL server binaries found: run scripts/install-test-services")


class Postgres(Service):
    """One server. Stopping and starting again keeps the data and the DSN."""

    name = "PostgreSQL"
    port_is_taken = "could not bind"
    last_signal = signal.SIGQUIT
    patience = 60.0

    def __init__(self, settings: Mapping[str, str] | None = None, *, follows: Postgres | None = None) -> None:
        super().__init__(account=unprivileged(self.name, "postgres", "nobody"))
        self.binaries = find_binaries()
        self._follows = follows
        self._settings = {**SETTINGS, **(settings or {})}

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop as `pg_ctl stop -m mode` does; "immediate" is a crash, and the next start recovers."""
        self._end(STOP_SIGNALS[mode])

    def kill(self) -> None:
        """End all of its processes at once. (After a SIGKILL of the first one the others would hold on to the shared memory.)"""
        self.stop("immediate")

    def restart(self, mode: StopMode = "fast") -> None:
        self.stop(mode)
        self.start()

    def promote(self) -> None:
        """Make a standby a primary; returns once it takes writes."""
        if self.execute("SELECT pg_promote(true, 60)") != "t":
            raise ServiceFailed(f"the standby was not promoted:\n{self.last_words()}")
        self._follows = None

    def create_database(self, name: str, *, template: str = "template0", linguistic: bool = False) -> str:
        """An empty database (or a copy of `template`, which nobody may be connected to); returns its DSN.

        `linguistic` gives it an English ICU collation, as most hosted servers have, in place of
        byte order: what silently leans on byte order then shows.
        """
        collation = "LOCALE_PROVIDER icu ICU_LOCALE 'en-US'" if linguistic else ""
        # WAL_LOG, unlike FILE_COPY, forces no checkpoint on the tests that are running meanwhile.
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY wal_log {collation}')
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        """Drop it, ending every connection that is still open to it."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def execute(self, statement: str, database: str = "postgres") -> str:
        """Run one statement through psql, outside any event loop; returns unaligned tuples as text."""
        done = self._psql(statement, database)
        if done.returncode != 0:
            raise ServiceFailed(done.stderr.strip())
        return done.stdout.strip()

    def _furnish(self) -> None:
        super()._furnish()
        data = str(self.directory / "data")
        if self._follows is None:
            self._tool(
                "initdb", "--pgdata", data, "--username", USER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync"
            )
        else:
            source = f"{self._follows.dsn()}?application_name=standby"
            self._tool(
                *("pg_basebackup", "--pgdata", data, "--dbname", source, "--write-recovery-conf"),
                *("--wal-method", "stream", "--checkpoint", "fast", "--no-sync"),
            )

    def _tool(self, name: str, *words: str) -> None:
        done = subprocess.run(
            [*self._prefix(), str(self.binaries / name), *words],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=self.directory,
            env=self._environment(),
            check=False,
        )
        if done.returncode != 0:
            raise ServiceFailed(f"{name} failed:\n{done.stdout}{done.stderr}")

    def _command(self) -> list[str]:
        directory = self.directory
        sockets = str(directory) if len(f"{directory}/.s.PGSQL.{self.port}") < MAX_SOCKET_PATH else ""
        settings = {**self._settings, "port": str(self.port), "unix_socket_directories": sockets}
        return [str(self.binaries / "postgres"), "-D", str(directory / "data"), *options(settings, "-c", "{name}={value}")]

    def _answers(self) -> bool:
        return self._psql("SELECT 1", "postgres").returncode == 0

    def _psql(self, statement: str, database: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                *(str(self.binaries / "psql"), "--no-psqlrc", "--quiet", "--no-align", "--tuples-only"),
                *("--set", "ON_ERROR_STOP=1", "--command", statement, self.dsn(database)),
            ],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=self._environment(),
            check=False,
        )

    def _environment(self) -> dict[str, str]:
        """Ours without PG*: a PGHOST or PGOPTIONS of the caller must not reach this server."""
        return config.environment_without("PG") | {"LC_ALL": "C", "PGCONNECT_TIMEOUT": "5"}
