"""The etcd that tests and `duly verify` start."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from duly.adapters.etcd.address import parse_address
from duly.adapters.etcd.client import Etcd as Client
from duly.domain.errors import Unavailable
from duly.services import ServiceFailed, ServiceMissing
from duly.services.etcd import Etcd
from tests.services.etcd import etcd_server, own_etcd

__all__ = ["etcd_server", "own_etcd"]

_OWNER = """
import os, signal
from duly.services.etcd import Etcd
server = Etcd()
server.start()
print(server.pid, flush=True)
signal.pause()
"""


async def test_what_was_acknowledged_is_there_after_a_crash_and_nothing_after_a_wipe(own_etcd: Etcd) -> None:
    client = Client(parse_address(own_etcd.url))
    await client.put("k", "v", await client.grant(60))
    port = own_etcd.port

    own_etcd.kill()
    own_etcd.start()
    kept, _ = await client.keys("k")
    own_etcd.stop()
    own_etcd.wipe()
    own_etcd.start()

    assert (kept, (await client.keys("k"))[0], own_etcd.port) == (["k"], [], port)


async def test_one_that_is_paused_does_not_answer_and_then_does(own_etcd: Etcd) -> None:
    client = Client(parse_address(own_etcd.url))
    own_etcd.pause()

    with pytest.raises(Unavailable, match="no answer in time"):
        await client.keys("k")
    own_etcd.resume()

    assert (await client.keys("k"))[0] == []


def test_a_running_one_is_not_wiped_and_a_closed_one_leaves_nothing(own_etcd: Etcd) -> None:
    home = own_etcd.directory
    with pytest.raises(ServiceFailed):
        own_etcd.wipe()

    own_etcd.close()

    assert not home.exists()
    assert not own_etcd.is_running


def test_it_ends_with_its_owner_however_that_ends(etcd_server: Etcd) -> None:
    owner = subprocess.Popen([sys.executable, "-c", _OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    server = int(owner.stdout.readline())

    owner.kill()
    owner.wait()
    owner.stdout.close()

    end = time.monotonic() + 10
    while _is_alive(server) and time.monotonic() < end:
        time.sleep(0.02)
    assert not _is_alive(server)


def test_a_machine_without_it_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    with pytest.raises(ServiceMissing, match="etcd-server"):
        Etcd()


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
