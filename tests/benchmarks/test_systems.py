"""What every system declares, and the order in which they are asked."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.peers import work
from benchmarks.peers.questions import QUESTIONS
from benchmarks.peers.run import asks, plan, settings_for
from benchmarks.peers.servers import Servers
from benchmarks.peers.system import OnNode, OnPostgres, OnRedis, OnSqlite, Place, Setting, System
from benchmarks.peers.systems import SYSTEMS
from benchmarks.scale import FULL, SHORT

PEERS = Path(work.__file__).parent
NAMED = ("graphile", "pgqueuer", "procrastinate", "celery", "celery-beat", "apscheduler", "pgboss", "bullmq", "dramatiq", "huey", "dbos")


def place() -> Place:
    """No server is started until it is asked for something."""
    return Place(
        servers=Servers(), home=Path("/peers"), directory=Path("/run"), marks=Path("/marks"), dsn="postgresql://db", redis="redis://db"
    )


def test_every_peer_is_there_and_duly_is_one_of_them() -> None:
    names = [system.name for system in SYSTEMS]

    assert names[0] == "duly"
    assert set(NAMED) < set(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_system_declares_what_it_must(system: System) -> None:
    assert system.title
    assert system.package
    assert system.cannot.keys() <= QUESTIONS.keys()
    assert system.special.keys() <= QUESTIONS.keys()
    for setting in (system.default, system.best, system.prompt, *system.special.values()):
        assert setting.name
        assert setting.about > 0
        assert system.workers(place(), setting)
    if isinstance(system, OnPostgres | OnSqlite):
        assert system.unsettled.startswith("SELECT 1 FROM ")
    if isinstance(system, OnRedis):
        assert system.keys


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_system_has_its_program_and_its_exact_version(system: System) -> None:
    program = system.program(place())

    name = Path(program[-1]).stem
    assert (PEERS / "programs" / f"{name}{'.js' if isinstance(system, OnNode) else '.py'}").exists()
    if isinstance(system, OnNode):
        pins = json.loads((PEERS / "package.json").read_text())["dependencies"]
    else:
        pins = dict(re.findall(r"^([\w-]+)(?:\[[\w,]+\])?==(\S+)$", (PEERS / "requirements.txt").read_text(), re.MULTILINE))
    assert system.package == "duly" or re.fullmatch(r"\d+(\.\d+)+", pins[system.package])


def test_a_setting_reaches_the_processes_and_nothing_of_the_caller_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_SLOTS", "1")
    monkeypatch.setenv("PGHOST", "elsewhere")
    setting = Setting(name="x", about=1, options={"BATCH": "7"})

    for system in SYSTEMS:
        environment = system.environment(place(), setting)
        assert environment["BENCH_BATCH"] == "7"
        assert "DULY_SLOTS" not in environment
        assert "PGHOST" not in environment


def test_systems_are_asked_in_turns() -> None:
    chosen = [system for system in SYSTEMS if system.name in ("duly", "graphile")]

    turns = [(turn.repeat, turn.system.name) for turn in plan([QUESTIONS["flow"]], chosen, 2)]

    assert turns == [(0, "duly"), (0, "graphile"), (1, "duly"), (1, "graphile")]


def test_nobody_is_asked_what_he_cannot_answer() -> None:
    asked = {(turn.question.name, turn.system.name) for turn in plan(list(QUESTIONS.values()), SYSTEMS, 1)}

    assert ("flow", "celery") not in asked
    assert ("pinned", "huey") not in asked
    assert ("failures", "pgqueuer") not in asked
    assert [question for question, system in asked if system == "celery-beat"] == ["same-second"]
    assert all((question, "duly") in asked for question in QUESTIONS)


def test_a_setting_that_is_both_the_default_and_the_best_is_asked_once() -> None:
    counts = {system.name: len(settings_for(QUESTIONS["drain"], system)) for system in SYSTEMS if asks(QUESTIONS["drain"], system)}

    assert counts["graphile"] == 2
    assert counts["apscheduler"] == 1


def test_a_drain_has_as_many_jobs_as_fill_its_time() -> None:
    assert FULL.jobs(1_400) == 7_000
    assert FULL.jobs(1) == 20
    assert FULL.jobs(100_000) == 200_000
    assert SHORT.is_short
    assert not FULL.is_short


@pytest.mark.parametrize("kind", work.KINDS)
def test_node_makes_the_same_payloads_as_python(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(work.KIND, kind)
    script = "const f = require('./frame'); console.log(JSON.stringify([...Array(40).keys()].map((i) => [f.tenant(i), f.payload(i, 1.5)])))"
    try:
        done = subprocess.run(["node", "-e", script], cwd=PEERS / "programs", capture_output=True, text=True, check=True)
    except FileNotFoundError:
        pytest.skip("no node")

    assert json.loads(done.stdout) == [[work.tenant(i), work.payload(i, 1.5)] for i in range(40)]


def test_a_noop_job_carries_about_a_hundred_bytes() -> None:
    assert 80 <= len(json.dumps(work.payload(12_345))) <= 120
