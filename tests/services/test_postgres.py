"""The launcher itself: every database is empty, a crash keeps what was committed, nothing outlives its owner."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import pytest

from tests.services.postgres import Postgres

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("turn", [1, 2])
async def test_every_test_gets_an_empty_database(postgres_dsn: str, turn: int) -> None:
    connection = await asyncpg.connect(postgres_dsn)

    await connection.execute("CREATE TABLE only_once (turn int)")

    assert await connection.fetchval("SELECT count(*) FROM pg_class WHERE relname = 'only_once'") == 1
    await connection.close()


async def test_the_server_is_durable_and_private(postgres_server: Postgres) -> None:
    assert postgres_server.execute("SHOW fsync") == "on"
    assert postgres_server.execute("SHOW synchronous_commit") == "on"
    assert postgres_server.execute("SHOW listen_addresses") == "127.0.0.1"


async def test_what_was_committed_survives_an_immediate_stop(postgres_server: Postgres) -> None:
    with Postgres() as server:
        connection = await asyncpg.connect(server.dsn())
        await connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        connection.terminate()

        server.restart("immediate")

        assert server.execute("SELECT answer FROM kept") == "42"
        assert "not properly shut down" in server.log_path.read_text()


def test_the_server_dies_with_a_killed_owner(postgres_server: Postgres) -> None:
    owner = subprocess.Popen([sys.executable, "-m", "tests.services.postgres"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    dsn = owner.stdout.readline()
    assert dsn.startswith("postgresql://")
    children = Path(f"/proc/{owner.pid}/task/{owner.pid}/children").read_text().split()
    assert children

    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()

    deadline = time.monotonic() + 20
    while any(_is_alive(int(child)) for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_is_alive(int(child)) for child in children)


def _is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # An orphan that ended may wait for its new parent to notice.
    return status.rsplit(")", 1)[1].split()[0] != "Z"
