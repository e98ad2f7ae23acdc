"""One run: every question to every system, in turns, and what came of it."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.harness import POSTGRES_SETTINGS
from benchmarks.peers.questions import Figures, Question, Scale
from benchmarks.peers.running import on_fresh_store
from benchmarks.peers.servers import REDIS_SETTINGS, Servers
from benchmarks.peers.system import Setting, System
from duly.verify.postgres import PostgresMissing, find_binaries

TRIES = 2
"""A turn that fails is tried once more; then the system is left out of the question."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One question to one system in one setting."""

    question: Question
    system: System
    setting: Setting
    repeat: int


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a turn found."""

    question: str
    system: str
    setting: str
    is_default: bool
    repeat: int
    figures: Figures


@dataclass(frozen=True, kw_only=True)
class NotMeasured:
    """What a system was not measured in, and why. `cannot`: it has no such thing, which is no failure."""

    question: str
    system: str
    setting: str
    why: str
    cannot: bool


@dataclass(kw_only=True)
class Report:
    """A run, as it is written down."""

    began: str
    machine: dict[str, str]
    servers: dict[str, dict[str, str]]
    versions: dict[str, str | None]
    scale: Scale
    repeats: int
    results: list[Result] = field(default_factory=list)
    not_measured: list[NotMeasured] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")


def read(path: Path) -> Report:
    """A report as it was written."""
    found = json.loads(path.read_text())
    found["scale"] = Scale(**found["scale"])
    found["results"] = [Result(**result) for result in found["results"]]
    found["not_measured"] = [NotMeasured(**missing) for missing in found["not_measured"]]
    return Report(**found)


def settings_for(question: Question, system: System) -> list[Setting]:
    """In which settings a system is asked: each once, and its own where it has one for this question."""
    if question.name in system.special:
        return [system.special[question.name]]
    found: list[Setting] = []
    for name in question.settings:
        setting: Setting = getattr(system, name)
        if setting not in found:
            found.append(setting)
    return found


def asks(question: Question, system: System) -> bool:
    """Whether the question makes sense for this system at all."""
    return system.store in question.stores and (not question.only or system.name.removesuffix("-sqlite") in question.only)


def plan(questions: Sequence[Question], systems: Sequence[System], repeats: int) -> Iterator[Turn]:
    """A B C, A B C: whatever the machine does in a minute, it does to all of them."""
    for question in questions:
        for repeat in range(repeats):
            for system in systems:
                if asks(question, system) and question.name not in system.cannot:
                    for setting in settings_for(question, system):
                        yield Turn(question=question, system=system, setting=setting, repeat=repeat)


def measure(
    questions: Sequence[Question],
    systems: Sequence[System],
    *,
    repeats: int,
    scale: Scale,
    home: Path,
    say: Callable[[str], None],
    out: Path,
) -> Report:
    """Ask everything; what is found is written down after every turn."""
    versions = {system.name: system.version(home) for system in systems}
    report = Report(
        began=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=machine(),
        servers={"postgres": dict(POSTGRES_SETTINGS), "redis": dict(REDIS_SETTINGS)},
        versions=versions,
        scale=scale,
        repeats=repeats,
    )
    present = [system for system in systems if versions[system.name] is not None]
    for system in systems:
        if system not in present:
            _leave_out(report, say, "all", system, "", f"{system.package} is not installed: python -m benchmarks.peers.install")
    _note_what_cannot(report, questions, present)
    turns = list(plan(questions, present, repeats))
    given_up: set[tuple[str, str, str]] = set()
    with Servers() as servers:
        for number, turn in enumerate(turns, 1):
            key = (turn.question.name, turn.system.name, turn.setting.name)
            if key in given_up:
                continue
            words = f"[{number}/{len(turns)}] {turn.question.name}: {turn.system.title} ({turn.setting.name})"
            began = time.monotonic()
            figures = _try(turn, scale, servers, home, say, words)
            if isinstance(figures, str):
                given_up.add(key)
                _leave_out(report, say, turn.question.name, turn.system, turn.setting.name, figures)
            else:
                report.results.append(
                    Result(
                        question=turn.question.name,
                        system=turn.system.name,
                        setting=turn.setting.name,
                        is_default=turn.setting is turn.system.default and turn.setting is not turn.system.best,
                        repeat=turn.repeat,
                        figures=figures,
                    )
                )
                say(f"{words}: {_told(figures)}   ({time.monotonic() - began:.0f} s)")
            report.write(out)
    return report


def _try(turn: Turn, scale: Scale, servers: Servers, home: Path, say: Callable[[str], None], words: str) -> Figures | str:
    """The figures, or why there are none."""
    why = ""
    for _ in range(TRIES):
        try:
            with on_fresh_store(turn.system, turn.setting, turn.question.work, servers, home) as running:
                return turn.question.ask(running, scale)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            say(f"!!! {words} failed: {why}")
    return why


def _note_what_cannot(report: Report, questions: Sequence[Question], systems: Sequence[System]) -> None:
    for question in questions:
        for system in systems:
            if asks(question, system) and question.name in system.cannot:
                report.not_measured.append(
                    NotMeasured(question=question.name, system=system.name, setting="", why=system.cannot[question.name], cannot=True)
                )


def _leave_out(report: Report, say: Callable[[str], None], question: str, system: System, setting: str, why: str) -> None:
    report.not_measured.append(NotMeasured(question=question, system=system.name, setting=setting, why=why, cannot=False))
    say(f"!!! not measured: {system.title}, {question}: {why}")


def _told(figures: Figures) -> str:
    return ", ".join(f"{name} {value:,.5g}" for name, value in figures.items() if value is not None)


def machine() -> dict[str, str]:
    """What it ran on."""
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines(Path("/proc/cpuinfo")) if line.startswith("model name")), platform.processor()
    )
    memory = next((line.split()[1] for line in _lines(Path("/proc/meminfo")) if line.startswith("MemTotal")), "0")
    return {
        "system": platform.platform(),
        "cpu": f"{os.cpu_count()} × {cpu}",
        "memory": f"{int(memory) / 2**20:.0f} GiB",
        "python": sys.version.split()[0],
        "postgres": _says(lambda: str(find_binaries() / "postgres")),
        "redis": _says(lambda: "redis-server"),
    }


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _says(command: Callable[[], str]) -> str:
    try:
        return subprocess.run([command(), "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (PostgresMissing, OSError, subprocess.CalledProcessError, IndexError):
        return "–"
