"""I0: a history that cannot be read is a failure, never a pass."""

from __future__ import annotations

from collections import Counter

from duly.verify.checker.book import Book
from duly.verify.checker.codes import BLOCKED, PENDING, RUNNING, SCHEDULED, STATE_NAMES
from duly.verify.checker.index import Index, Run
from duly.verify.checker.windows import Windows

_WAITS = {"run.scheduled": SCHEDULED, "run.blocked": BLOCKED, "run.ready": PENDING}


def judge(index: Index, windows: Windows, book: Book) -> None:
    """All that makes a history unfit to be judged."""
    history = index.history
    book.look("I0", 1 + len(history.events))
    if not history.events or not history.calls:
        book.broken("I0", "the history is empty: nothing was asked or nothing was recorded")
    before = None
    for event in history.events:
        if before is not None and event.seq <= before:
            book.broken("I0", f"event {event.seq} stands after event {before}", at=event.at, seqs=(event.seq,))
        before = event.seq
    for fault in history.faults:
        if fault.until is None:
            book.broken("I0", f"the fault {fault.kind} was never healed", at=fault.since)
        elif fault.until < fault.since - windows.skew and not windows.bent:
            book.broken("I0", f"the fault {fault.kind} ended before it began", at=fault.since)
    for call in history.calls:
        if call.ended_at < call.invoked_at - windows.skew and not windows.bent:
            book.broken("I0", f"the call {call.op} was answered before it was made", at=call.invoked_at, job=call.job)
    for run in index.runs.values():
        if run.created is None:
            seqs = tuple(event.seq for event in run.events[:3])
            book.broken("I0", f"{run.id} is spoken of and was never created", run=run.id, seqs=seqs)
    _effects(index, book)
    _final(index, book)


def _effects(index: Index, book: Book) -> None:
    granted = {(run.id, grant.fence) for run in index.runs.values() for grant in run.grants}
    for effect in index.history.effects:
        if (effect.run, effect.fence) not in granted:
            book.broken(
                "I0", f"a handler of {effect.run} ran under fence {effect.fence}, which was never granted", at=effect.at, run=effect.run
            )


def _final(index: Index, book: Book) -> None:
    """The final read says what the events imply, as far as nothing happened in its very moment."""
    history = index.history
    final = history.final
    if final is None:
        book.broken("I0", "there is no final read")
        return
    quiet = final.at - history.timing.forgiveness
    read = {stands.run: stands for stands in final.executions}
    for shown, times in Counter(stands.run for stands in final.executions).items():
        if times > 1:
            book.broken("I0", f"the final read shows {shown} {times} times", run=shown)
    for run in index.runs.values():
        if run.created is None or run.created.at > quiet or run.events[-1].at > quiet:
            continue
        seen = read.get(run.id)
        implied = STATE_NAMES[standing(run)]
        if seen is None:
            book.broken("I0", f"{run.id} was created and the final read does not show it", run=run.id, job=run.job)
        elif seen.state != implied:
            book.broken("I0", f"the final read shows {run.id} as {seen.state}, its events say {implied}", run=run.id, job=run.job)
    for stands in final.executions:
        if stands.run not in index.runs or index.runs[stands.run].created is None:
            book.broken("I0", f"the final read shows {stands.run}, of which no event speaks", run=stands.run, job=stands.job)


def standing(run: Run) -> int:
    """Where the events leave it."""
    if run.ends:
        return int(run.ends[0].data["state"])
    for event in reversed(run.events):
        if event.kind in _WAITS:
            return _WAITS[event.kind]
        if event.kind in ("lease.granted", "flow.begun"):
            return RUNNING
    return SCHEDULED
