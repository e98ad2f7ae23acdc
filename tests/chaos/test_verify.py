"""`duly verify` itself: the short form on both stores, and the long one with the numbers that the guarantees ask for."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from duly.domain.errors import Invalid
from duly.verify import judge, run
from duly.verify.history import History
from duly.verify.pages import words
from duly.verify.report import Report
from duly.verify.stage import Size
from tests.chaos.fleet import ROOT
from tests.conftest import service_missing

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


def held(options: run.Options, kept: Path) -> tuple[History, Report]:
    """Run a test and demand that every promise held, and that it was a test."""
    try:
        history = asyncio.run(run.record(options, lambda progress: None))
    except Invalid as missing:
        if missing.code != "DULY-E605":
            raise
        service_missing("PostgreSQL", missing.message)
    report, against = judge.judge(history)
    if not report.holds or against:
        judge.keep(kept, history, report)
        pytest.fail("\n".join([*words(report), *against, f"seed {options.seed}; kept in {kept}"]), pytrace=False)
    return history, report


def test_the_command_breaks_things_on_sqlite_and_says_what_became_of_them(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "duly.cli.main", "verify", "--minutes", "0.6", "--small", "--seed", "5"]

    done = subprocess.run([*command, "--report", str(tmp_path / "proof")], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost 0 · fired twice 0 · early 0 · stale writes accepted 0" in done.stdout
    assert "kills" in done.stderr
    assert {file.name for file in (tmp_path / "proof").iterdir()} == {"history.json", "report.json", "report.html"}
    kept = json.loads((tmp_path / "proof" / "history.json").read_bytes())
    assert {fault["kind"] for fault in kept["faults"]} >= {"kill", "pause", "cut"}


def test_the_promises_hold_on_postgresql_through_crashes_and_a_failover(tmp_path: Path) -> None:
    options = run.Options(minutes=1.2, store="postgres", seed=3, size=Size.small(), gap=1.5)

    history, report = held(options, tmp_path / "proof")

    kinds = {fault.kind for fault in history.faults}
    assert {"kill", "pause", "cut", "store-crash", "failover"} <= kinds
    assert report.counts["fires"] > 500


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("store", ["postgres", "sqlite"])
def test_half_an_hour_of_everything(store: str, tmp_path: Path, long_form: bool) -> None:
    if not long_form:
        pytest.skip("half an hour: `make chaos` runs it")
    options = run.Options(minutes=30, store=store, seed=1, ticks=30, gap=1.3)

    history, report = held(options, tmp_path / "proof")

    kinds = Counter(fault.kind for fault in history.faults)
    assert kinds["kill"] + kinds["kill-api"] >= 100
    assert sum(fault.kind == "pause" and fault.about["outlastsLease"] for fault in history.faults) >= 40
    assert kinds["cut"] >= 40
    assert report.counts["fires"] >= 50_000
    assert report.counts["staleRefused"] > 0
    if store == "postgres":
        assert kinds["store-crash"] >= 10
        assert kinds["failover"] >= 2
        assert kinds["clock"] >= 10
    else:
        assert kinds["lock"] >= 10


def test_half_a_fleet_of_hints(tmp_path: Path, long_form: bool) -> None:
    """With Redis beside the store, which is broken as often as anything else."""
    if not long_form:
        pytest.skip("some minutes: `make chaos` runs it")
    options = run.Options(minutes=4, store="postgres", seed=2, engines="redis", size=Size.small())

    history, report = held(options, tmp_path / "proof")

    kinds = Counter(fault.kind for fault in history.faults)
    assert all(kinds[kind] >= 2 for kind in ("redis-flush", "redis-kill", "redis-restore", "redis-pause"))
    assert report.counts["fires"] > 1_000
