"""A run of the benchmarks as it is written down: turn by turn, whatever one of them does."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

from benchmarks.postgres import POSTGRES_SETTINGS
from benchmarks.scale import Scale
from duly.services import ServiceMissing
from duly.services.postgres import find_binaries

T = TypeVar("T")
Figures = dict[str, float | None]
Say = Callable[[str], None]

TRIES = 2
"""A turn that fails is tried once more; then what it asks for is left out."""


class Failed(Exception):
    """What was to be measured did not happen; the text says what did."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One measurement: a question to one system in one setting. `title` is how people call the system."""

    question: str
    system: str
    setting: str
    title: str
    repeat: int
    ask: Callable[[], Figures]
    is_default: bool = False


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

    def leave_out(self, say: Say, question: str, system: str, title: str, setting: str, why: str) -> None:
        """Say loudly what will be missing, and write it down."""
        self.not_measured.append(NotMeasured(question=question, system=system, setting=setting, why=why, cannot=False))
        say(f"!!! not measured: {title}, {question}: {why}")

    @property
    def status(self) -> int:
        """1 when something could not be measured that should have been: what the command ends with."""
        return int(any(not missing.cannot for missing in self.not_measured))


def begun(scale: Scale, repeats: int, versions: Mapping[str, str | None], servers: Mapping[str, dict[str, str]] | None = None) -> Report:
    """An empty report of this machine at this time."""
    return Report(
        began=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=machine(),
        servers={"postgres": dict(POSTGRES_SETTINGS), **(servers or {})},
        versions=dict(versions),
        scale=scale,
        repeats=repeats,
    )


def read(path: Path) -> Report:
    """A report as it was written."""
    found = json.loads(path.read_text())
    found["scale"] = Scale(**found["scale"])
    found["results"] = [Result(**result) for result in found["results"]]
    found["not_measured"] = [NotMeasured(**missing) for missing in found["not_measured"]]
    return Report(**found)


def take(turns: Sequence[Turn], report: Report, *, say: Say, out: Path) -> None:
    """Every turn, one after the other; what is found is written down after each."""
    given_up: set[tuple[str, str, str]] = set()
    for number, turn in enumerate(turns, 1):
        key = (turn.question, turn.system, turn.setting)
        if key in given_up:
            continue
        words = f"[{number}/{len(turns)}] {turn.question}: {turn.title} ({turn.setting})"
        began = time.monotonic()
        figures = _try(turn, say, words)
        if isinstance(figures, str):
            given_up.add(key)
            report.leave_out(say, turn.question, turn.system, turn.title, turn.setting, figures)
        else:
            report.results.append(
                Result(
                    question=turn.question,
                    system=turn.system,
                    setting=turn.setting,
                    is_default=turn.is_default,
                    repeat=turn.repeat,
                    figures=figures,
                )
            )
            say(f"{words}: {_told(figures)}   ({time.monotonic() - began:.0f} s)")
        report.write(out)


def _try(turn: Turn, say: Say, words: str) -> Figures | str:
    """The figures, or why there are none."""
    why = ""
    for _ in range(TRIES):
        try:
            return turn.ask()
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            say(f"!!! {words} failed: {why}")
    return why


def _told(figures: Figures) -> str:
    return ", ".join(f"{name} {value:,.5g}" for name, value in figures.items() if value is not None)


def chosen(names: str | None, offered: Mapping[str, T]) -> list[T]:
    """Those of these names, or all."""
    wanted = list(offered) if names is None else [name.strip() for name in names.split(",")]
    if unknown := [name for name in wanted if name not in offered]:
        sys.exit(f"there is no {unknown[0]!r}; there are {', '.join(offered)}")
    return [offered[name] for name in wanted]


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
    except (ServiceMissing, OSError, subprocess.CalledProcessError, IndexError):
        return "–"
