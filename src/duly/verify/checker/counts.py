"""I21: what was created is what ended and what still stands."""

from __future__ import annotations

from collections import Counter

from duly.verify.checker.book import Book
from duly.verify.checker.codes import STATE_NAMES
from duly.verify.checker.index import Index


def judge(index: Index, book: Book) -> None:
    """The final read against its own counters and against what was created."""
    final = index.history.final
    if final is None:
        return
    quiet = final.at - index.history.timing.forgiveness
    created = {run.id for run in index.runs.values() if run.created is not None and run.created.at <= quiet}
    late = {run.id for run in index.runs.values() if run.created is not None and run.created.at > quiet}
    moved = sum(1 for run in index.runs.values() if run.events and run.events[-1].at > quiet)
    read = Counter(stands.state for stands in final.executions)
    book.look("I21", max(len(final.executions), 1))
    shown = {stands.run for stands in final.executions}
    if len(shown - late) != len(created):
        book.broken("I21", f"{len(created)} executions were created, the final read shows {len(shown - late)}", at=final.at)
    for stands in final.executions:
        if stands.state not in STATE_NAMES:
            book.broken("I21", f"{stands.run} stands as {stands.state}, which is no state", at=final.at, run=stands.run, job=stands.job)
    for state in STATE_NAMES:
        counted = final.counts.get(state)
        # What moved in the moment of the read may be counted on either side.
        if counted is not None and abs(counted - read[state]) > moved:
            book.broken("I21", f"the counters say {counted} {state}, the final read shows {read[state]}", at=final.at)
