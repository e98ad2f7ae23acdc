"""One run: every question to every system, in turns, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import report as written
from benchmarks.peers.questions import Question
from benchmarks.peers.running import on_fresh_store
from benchmarks.peers.servers import REDIS_SETTINGS, Servers
from benchmarks.peers.system import Setting, System
from benchmarks.report import Figures, NotMeasured, Report, Say
from benchmarks.scale import Scale


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One question to one system in one setting."""

    question: Question
    system: System
    setting: Setting
    repeat: int


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
    questions: Sequence[Question], systems: Sequence[System], *, repeats: int, scale: Scale, home: Path, say: Say, out: Path
) -> Report:
    """Ask everything; what is found is written down after every turn."""
    versions = {system.name: system.version(home) for system in systems}
    report = written.begun(scale, repeats, versions, {"redis": dict(REDIS_SETTINGS)})
    present = [system for system in systems if versions[system.name] is not None]
    for system in systems:
        if system not in present:
            why = f"{system.package} is not installed: python -m benchmarks.peers.install"
            report.leave_out(say, "all", system.name, system.title, "", why)
    _note_what_cannot(report, questions, present)
    with Servers() as servers:

        def asked(turn: Turn) -> Figures:
            with on_fresh_store(turn.system, turn.setting, turn.question.work, servers, home) as running:
                return turn.question.ask(running, scale)

        turns = [_written(turn, asked) for turn in plan(questions, present, repeats)]
        written.take(turns, report, say=say, out=out)
    return report


def _written(turn: Turn, asked: Callable[[Turn], Figures]) -> written.Turn:
    system, setting = turn.system, turn.setting
    return written.Turn(
        question=turn.question.name,
        system=system.name,
        setting=setting.name,
        title=system.title,
        repeat=turn.repeat,
        ask=lambda: asked(turn),
        is_default=setting is system.default and setting is not system.best,
    )


def _note_what_cannot(report: Report, questions: Sequence[Question], systems: Sequence[System]) -> None:
    for question in questions:
        for system in systems:
            if asks(question, system) and question.name in system.cannot:
                report.not_measured.append(
                    NotMeasured(question=question.name, system=system.name, setting="", why=system.cannot[question.name], cannot=True)
                )
