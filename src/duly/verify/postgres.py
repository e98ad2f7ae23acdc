"""A real PostgreSQL, private to whoever started it: for `duly verify`, for tests and for benchmarks.

    with Postgres() as server:
        server.create_database("ledger")
        connection = await asyncpg.connect(server.dsn("ledger"))

Every server is its own: a fresh `initdb` (under a second) in a temporary directory, on a
free port of 127.0.0.1, run as an unprivileged user when we are root. fsync and
synchronous_commit stay on, because durability is part of what is tested. Nothing outlives
the owner: the kernel sends the server SIGQUIT when the owning thread ends, by whatever
death, so start it from a thread that lasts. A directory left by a killed owner is swept by
the next start.

`Postgres(follows=primary)` is a streaming standby of another server: a base backup of it, made at the
first start. `promote` makes it a primary.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Literal, Self

from duly import config
from duly.verify.directories import claim

StopMode = Literal["smart", "fast", "immediate"]

USER = "duly"
PREFIX = "duly-postgres-"
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


class PostgresMissing(Exception):
    """This machine has no PostgreSQL server binaries; the text says how to get them."""


class PostgresFailed(Exception):
    """The server did not start or a command was refused; the text has its last words."""


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
    raise PostgresMissing("no PostgreSQL server binaries found: run scripts/install-test-services")


class Postgres:
    """One server, one owner. Stopping and starting again keeps the data, the port and the DSN."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, follows: Postgres | None = None) -> None:
        self.binaries = find_binaries()
        self._follows = follows
        self.settings = {**SETTINGS, **(settings or {})}
        self.port = 0
        self._directory: Path | None = None
        self._lock: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # PostgreSQL refuses to run as root.
        self._account = _unprivileged_account() if os.geteuid() == 0 else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def directory(self) -> Path:
        """The temporary directory: `data`, the Unix socket, and the log."""
        if self._directory is None:
            raise PostgresFailed("the server was never started, or is closed")
        return self._directory

    @property
    def log_path(self) -> Path:
        return self.directory / "log"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The postmaster's process id, for tests that kill or stop it by signal."""
        if self._process is None:
            raise PostgresFailed("the server is not running")
        return self._process.pid

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def start(self, timeout: float = 60.0) -> None:
        """Start and return once a connection works. Makes the cluster and picks the port the first time."""
        if self.is_running:
            return
        chosen = self.port
        if self._directory is None:
            self._make_cluster()
        for _ in range(5):
            self.port = chosen or free_port()
            self._spawn()
            if self._wait_until_ready(timeout):
                return
            self._process = None
            if "could not bind" not in self.last_words():
                break
        raise PostgresFailed(f"PostgreSQL did not start:\n{self.last_words()}")

    def stop(self, mode: StopMode = "fast", timeout: float = 60.0) -> None:
        """Stop as `pg_ctl stop -m mode` does; "immediate" is a crash, and the next start recovers."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(STOP_SIGNALS[mode])
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGQUIT)
            process.wait(timeout)
            raise PostgresFailed(f"PostgreSQL did not stop ({mode}) within {timeout} s") from None

    def restart(self, mode: StopMode = "fast") -> None:
        self.stop(mode)
        self.start()

    def promote(self) -> None:
        """Make a standby a primary; returns once it takes writes."""
        if self.execute("SELECT pg_promote(true, 60)") != "t":
            raise PostgresFailed(f"the standby was not promoted:\n{self.last_words()}")
        self._follows = None

    def close(self) -> None:
        """Stop at once and remove every trace."""
        atexit.unregister(self.close)
        self.stop("immediate")
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

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
            raise PostgresFailed(done.stderr.strip())
        return done.stdout.strip()

    def last_words(self, lines: int = 30) -> str:
        with contextlib.suppress(FileNotFoundError):
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        return "(no log)"

    def _make_cluster(self) -> None:
        self._directory, self._lock = claim(PREFIX)
        directory = self._directory
        atexit.register(self.close)
        if self._account is not None:
            os.chown(directory, self._account.pw_uid, self._account.pw_gid)
        data = str(directory / "data")
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
            [*self._as_account(), str(self.binaries / name), *words],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=self.directory,
            env=self._environment(),
            check=False,
        )
        if done.returncode != 0:
            raise PostgresFailed(f"{name} failed:\n{done.stdout}{done.stderr}")

    def _spawn(self) -> None:
        directory = self.directory
        sockets = str(directory) if len(f"{directory}/.s.PGSQL.{self.port}") < MAX_SOCKET_PATH else ""
        settings = {**self.settings, "port": str(self.port), "unix_socket_directories": sockets}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._as_account(dies_with_us=True), str(self.binaries / "postgres"), "-D", str(directory / "data"), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=directory,
                env=self._environment(),
                # Its own group: a Ctrl-C at the terminal is for the tests, which then stop it in order.
                process_group=0,
            )

    def _wait_until_ready(self, timeout: float) -> bool:
        """True once a query is answered; False when the server ended or time ran out."""
        deadline = time.monotonic() + timeout
        while self.is_running and time.monotonic() < deadline:
            if self._psql("SELECT 1", "postgres").returncode == 0:
                return True
            time.sleep(0.02)
        if self.is_running:
            self.stop("immediate")
        return False

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

    def _as_account(self, *, dies_with_us: bool = False) -> list[str]:
        """The words to put before a command so that it runs unprivileged, and dies when this thread does."""
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            if self._account is not None:
                raise PostgresMissing("setpriv (util-linux) is needed to run PostgreSQL as root")
            return []  # Not Linux: atexit is all there is.
        words = [setpriv]
        if self._account is not None:
            words += ["--reuid", str(self._account.pw_uid), "--regid", str(self._account.pw_gid), "--clear-groups"]
        if dies_with_us:
            words += ["--pdeathsig", "QUIT"]
        return [*words, "--"] if len(words) > 1 else []

    def _environment(self) -> dict[str, str]:
        """Ours without PG*: a PGHOST or PGOPTIONS of the caller must not reach this server."""
        return config.environment_without("PG") | {"LC_ALL": "C", "PGCONNECT_TIMEOUT": "5"}


def _unprivileged_account() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise PostgresMissing("running as root, and neither a user postgres nor nobody to run the server as")


def free_port() -> int:
    """A port nobody listens on, below the range the kernel hands out, so that it is still ours after a restart."""
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(20_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
