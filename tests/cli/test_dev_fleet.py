"""`duly dev --fleet`: everything comes up, works, and is gone afterwards."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from duly.sdk import calls
from duly.sdk.client import Client
from tests.services.postgres import Postgres

ROOT = Path(__file__).parents[2]


@contextmanager
def dev(*words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "duly.cli.main", "dev", *words]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def said(process: subprocess.Popen[str]) -> str:
    """What it says up to the line that ends its greeting."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C"):
            break
    return "".join(lines)


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def exported(text: str) -> dict[str, str]:
    return dict(re.findall(r"^export (\w+)=(\S+)$", text, re.MULTILINE))


@pytest.mark.slow
def test_a_fleet_runs_a_job_and_leaves_nothing_behind(postgres_server: Postgres) -> None:
    with dev("--fleet") as process:
        text = said(process)
        told = exported(text)
        started = descendants(process.pid)
        with Client(told["DULY_URL"], told["DULY_KEY"]) as client:
            job = client.send(calls.create_job({"name": "hello", "target": {"handler": "duly.echo"}}))
            run = client.send(calls.run_job(job.job_id, payload={"n": 1}))
            # It ends whichever of the two workers takes it.
            while (seen := client.send(calls.show_execution(run.execution_id))).state not in ("SUCCEEDED", "DEAD"):
                time.sleep(0.05)
            # The greeting does not wait for workers, which say nothing that it could wait for.
            deadline = time.monotonic() + 60
            while len(workers := client.send(calls.list_workers()).items) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
        directory = re.search(re.escape(tempfile.gettempdir()) + r"/\S*duly-postgresql-\w+", "\n".join(_command(pid) for pid in started))

        process.send_signal(signal.SIGINT)
        ended = process.wait(60)

    assert ended == 0
    assert seen.state == "SUCCEEDED"
    assert len(workers) == 2
    assert {"server-1", "server-2", "worker-1", "worker-2", "PostgreSQL"} <= set(text.split())
    assert len(started) >= 5
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)
    assert directory is not None
    assert not Path(directory[0]).exists()


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
