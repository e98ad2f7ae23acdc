"""The PostgreSQL of a run: one server, a fresh database for every measurement."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

from tests.services.postgres import Postgres

DATABASE = "bench"
# What anybody sets who gives a machine to PostgreSQL. Durability is as it comes: fsync and synchronous_commit are on.
POSTGRES_SETTINGS = {"shared_buffers": "2GB", "max_wal_size": "8GB", "min_wal_size": "2GB", "autovacuum_naptime": "1min"}
LOG_FILES = 64


@contextlib.contextmanager
def ripe_postgres() -> Iterator[Postgres]:
    """A server that has run for a while reuses the files of its log; a new one stops for tens of milliseconds to write each first."""
    with Postgres(POSTGRES_SETTINGS) as server:
        server.execute(f"SELECT pg_logical_emit_message(false, 'ripen', ''), pg_switch_wal() FROM generate_series(1, {LOG_FILES})")
        server.execute("CHECKPOINT")
        yield server


def fresh_database(server: Postgres) -> str:
    """An empty database, and what the one before has left to write is written."""
    server.drop_database(DATABASE)
    server.execute("CHECKPOINT")
    return server.create_database(DATABASE)


@contextlib.contextmanager
def old_snapshot(server: Postgres, dsn: str) -> Iterator[None]:
    """A transaction elsewhere that still sees what there is now, so that nothing of it can be cleaned up."""
    command = [str(server.binaries / "psql"), "--no-psqlrc", "--quiet", "--no-align", "--tuples-only", dsn]
    session = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    assert session.stdin is not None
    assert session.stdout is not None
    try:
        session.stdin.write("BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT 'held' FROM pg_class LIMIT 1;\n")
        if session.stdout.readline().strip() != "held":
            raise RuntimeError("no snapshot could be held open")
        yield
    finally:
        session.kill()
        session.communicate()
