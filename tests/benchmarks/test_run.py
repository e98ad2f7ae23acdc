"""A run goes on, whatever one system does."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.peers.questions import QUESTIONS
from benchmarks.peers.run import measure
from benchmarks.peers.system import Place, Setting, System
from benchmarks.report import read
from benchmarks.scale import SHORT


class Healthy(System):
    """Answers whatever it is asked."""

    name = "healthy"
    title = "Healthy"
    module = package = "healthy"
    store = "sqlite"
    default = best = prompt = Setting(name="default", about=10)

    def program(self, place: Place) -> list[str]:
        return [sys.executable, "-c", """print('RESULT {"count": 50, "seconds": 5}')"""]

    def version(self, home: Path) -> str | None:
        return "1.0"


class Broken(Healthy):
    """Does not start."""

    name = "broken"
    title = "Broken"

    def program(self, place: Place) -> list[str]:
        return [sys.executable, "-c", "raise SystemExit('no such library')"]


class Missing(Healthy):
    """Is not installed."""

    name = "missing"
    title = "Missing"

    def version(self, home: Path) -> str | None:
        return None


class Unable(Healthy):
    """Has no bulk enqueue."""

    name = "unable"
    title = "Unable"
    cannot = {"enqueue-bulk": "one at a time"}


def test_who_fails_is_left_out_loudly_and_the_rest_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    questions = [QUESTIONS["enqueue-single"], QUESTIONS["enqueue-bulk"]]
    systems = [Missing(), Broken(), Unable(), Healthy()]

    found = measure(questions, systems, repeats=2, scale=SHORT, home=tmp_path, say=said.append, out=tmp_path / "results.json")

    assert [(result.question, result.system, result.repeat, result.figures["per_second"]) for result in found.results] == [
        ("enqueue-single", "unable", 0, 10.0),
        ("enqueue-single", "healthy", 0, 10.0),
        ("enqueue-single", "unable", 1, 10.0),
        ("enqueue-single", "healthy", 1, 10.0),
        ("enqueue-bulk", "healthy", 0, 10.0),
        ("enqueue-bulk", "healthy", 1, 10.0),
    ]
    assert [(missing.question, missing.system, missing.cannot) for missing in found.not_measured] == [
        ("all", "missing", False),
        ("enqueue-bulk", "unable", True),
        ("enqueue-single", "broken", False),
        ("enqueue-bulk", "broken", False),
    ]
    assert "no such library" in found.not_measured[2].why
    assert any(words.startswith("!!! not measured: Broken") for words in said)
    assert read(tmp_path / "results.json") == found
