"""The launcher itself: it keeps its port, comes back empty or as it was, and dies with its owner."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from duly.services import ServiceFailed
from tests.services.redis import Redis

ROOT = Path(__file__).parents[2]
OWNER = """
import os, signal
from duly.services.redis import Redis
server = Redis()
server.start()
print(server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_comes_back_empty_on_the_same_port_or_as_an_older_dump_has_it(own_redis: Redis) -> None:
    own_redis.ask("SET", "word", "old")
    dump = own_redis.keep_dump()
    own_redis.ask("SET", "word", "new")
    url = own_redis.url

    own_redis.kill()
    own_redis.start()
    assert own_redis.ask("GET", "word") is None

    own_redis.stop()
    own_redis.start_from(dump)
    assert own_redis.ask("GET", "word") == "old"
    assert own_redis.url == url


def test_one_that_is_paused_takes_connections_and_does_not_answer(own_redis: Redis) -> None:
    own_redis.pause()
    with pytest.raises(TimeoutError):
        own_redis.ask("PING", timeout=0.2)

    own_redis.resume()
    assert own_redis.ask("PING") == "PONG"


def test_what_it_refuses_is_an_error(own_redis: Redis) -> None:
    with pytest.raises(ServiceFailed, match="unknown command"):
        own_redis.ask("NONSENSE")


def test_the_server_dies_with_a_killed_owner(redis_server: Redis) -> None:
    owner = subprocess.run([sys.executable, "-c", OWNER], cwd=ROOT, capture_output=True, text=True, check=False)
    pid = int(owner.stdout)

    deadline = time.monotonic() + 20
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # An orphan that ended may wait for its new parent to notice.
    return status.rsplit(")", 1)[1].split()[0] not in "ZX"
