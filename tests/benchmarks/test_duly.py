"""Duly as it is measured: real processes, a handler that makes its mark, every job once."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.peers.questions import drain
from benchmarks.peers.running import on_fresh_store
from benchmarks.peers.servers import Servers
from benchmarks.peers.systems.duly import DulySqlite
from benchmarks.scale import SHORT


@pytest.mark.slow
def test_two_hundred_jobs_are_drained_and_each_is_counted_once(tmp_path: Path) -> None:
    system = DulySqlite()

    with Servers() as servers, on_fresh_store(system, system.best, "noop", servers, tmp_path) as running:
        found = drain(running, SHORT, most=200)
        marks = running.marks.read()

    assert found["complete"] == 1.0
    assert found["starts"] == len(marks) == 200
    assert found["until_settled"] is not None
    assert all(mark.delay > 0 for mark in marks)
