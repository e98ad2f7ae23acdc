"""From a history to a verdict: the checker's report, what went wrong beside it, and whether the test tried hard enough to mean anything."""

from __future__ import annotations

from pathlib import Path

from duly.domain.errors import Invalid
from duly.verify import history as histories
from duly.verify import machine
from duly.verify.checker import check
from duly.verify.history import History
from duly.verify.pages import render
from duly.verify.report import Report, encode

HISTORY, PAGE, REPORT = "history.json", "report.html", "report.json"
# So many pauses of workers that outlasted their lease, and not one write that had to be refused: then something does not look.
TELLING_PAUSES = 20
# This much of a test may be excused by what the machine did by itself.
MOST_STOOD = 0.25
# How a process ends that cannot reach its store when it starts.
UNREACHABLE = 6


def judge(history: History) -> tuple[Report, list[str]]:
    """The report, and what stands against the test all the same: nothing when it is good."""
    report = check(history)
    against = [*_faults_of_ours(history), *(f"too weak a test: {reason}" for reason in _weaknesses(history, report))]
    report.about = {**report.about, "against": against}
    return report, against


def _faults_of_ours(history: History) -> list[str]:
    """What no fault excuses: a node that ended by itself, other than for want of its store, and an answer that says it is a bug."""
    found: list[str] = []
    for node, deaths in history.about.get("deaths", {}).items():
        found += [
            f"{node} ended by itself with status {status}, {times} times" for status, times in deaths.items() if int(status) != UNREACHABLE
        ]
    bugs = sum(call.answer.get("code") == "DULY-E599" for call in history.calls)
    if bugs:
        found.append(f"{bugs} requests were answered with DULY-E599, a fault in Duly")
    return found


def _weaknesses(history: History, report: Report) -> list[str]:
    """What a test would have had to do to mean anything."""
    found: list[str] = []
    done = {fault.kind for fault in history.faults} - {machine.KIND}
    if not done:
        found.append("nothing was broken")
    planned = history.about.get("planned", {})
    found += [f"no {kind} was done, of {count} that were drawn" for kind, count in planned.items() if kind not in done]
    if not report.counts.get("fires"):
        found.append("nothing fired")
    # What the machine does excuses what is late: a test during which it did much says little.
    stood = [fault for fault in history.faults if fault.kind == machine.KIND]
    excused = sum((fault.until or history.ended_at) - fault.since + history.timing.recovery for fault in stood)
    if excused > (history.ended_at - history.started_at) * MOST_STOOD:
        found.append("the machine stood still, or its clock was set, too often to tell what is in time")
    pauses = [fault for fault in history.faults if fault.kind == "pause" and fault.about.get("outlastsLease")]
    if sum(node.startswith("worker-") for fault in pauses for node in fault.nodes) >= TELLING_PAUSES and not report.counts.get(
        "staleRefused"
    ):
        found.append("many workers were paused past their leases, and no write of theirs was ever refused")
    return found


def keep(directory: Path, history: History | None, report: Report) -> None:
    """Write the history, the report and its page there."""
    directory.mkdir(parents=True, exist_ok=True)
    if history is not None:
        histories.save(history, directory / HISTORY)
    (directory / REPORT).write_bytes(encode(report))
    (directory / PAGE).write_text(render(report), encoding="utf-8")


def read(path: Path) -> History:
    """A history that was kept: the file, or the directory that has it. Raises Invalid (DULY-E609)."""
    file = path / HISTORY if path.is_dir() else path
    try:
        return histories.load(file)
    except (OSError, ValueError) as error:
        raise Invalid(
            "DULY-E609", f"{file} is no history of a test: {error}.", field="--check", hint="`duly verify --report DIR` keeps one in DIR."
        ) from error
