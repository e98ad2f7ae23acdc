"""The checker: a history in, a report out. Pure, and without a line of the product.

Each module judges a family of invariants; `index` has the history looked up, `lives` what each job may have been, `windows`
what was broken when. What cannot be read is a failure of I0, never a pass, and nothing here raises.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from duly.verify.checker import (
    attempts,
    catchup,
    counts,
    joins,
    leaders,
    overlap,
    pictures,
    rest,
    sanity,
    tenants,
    timeliness,
    wishes,
    workflow,
)
from duly.verify.checker.book import Book
from duly.verify.checker.index import Index
from duly.verify.checker.lives import lives
from duly.verify.checker.windows import Windows
from duly.verify.history import History
from duly.verify.report import Report

__all__ = ["check"]


def check(history: History) -> Report:
    """Judge a history."""
    book = Book()
    report = Report(started_at=history.started_at, ended_at=history.ended_at, verdicts=[], about=history.about)
    with _no_garbage():
        _carefully(book, "the history", _judge, history, book, report)
    report.verdicts = book.verdicts()
    return report


@contextmanager
def _no_garbage() -> Iterator[None]:
    """What is made here lives to the end: to look for garbage meanwhile takes as long as all the rest."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _judge(history: History, book: Book, report: Report) -> None:
    index = Index(history)
    windows = Windows(history)
    known = lives(index, windows)
    _carefully(book, "the sources", sanity.judge, index, windows, book)
    joined = _carefully(book, "the fires", joins.judge, index, known, windows, book) or {}
    _carefully(book, "the attempts", attempts.judge, index, known, windows, book)
    _carefully(book, "the starts", timeliness.judge, index, known, joined, windows, book)
    _carefully(book, "the overlaps", overlap.judge, index, known, windows, book)
    caught_up = _carefully(book, "the outages", catchup.judge, index, known, windows, book) or 0
    _carefully(book, "the wishes", wishes.judge, index, known, windows, book)
    _carefully(book, "the workflows", workflow.judge, index, known, book)
    _carefully(book, "the tenants", tenants.judge, index, book)
    _carefully(book, "the leaders", leaders.judge, index, windows, book)
    _carefully(book, "the rest", rest.judge, index, known, windows, book)
    _carefully(book, "the counts", counts.judge, index, book)
    _carefully(book, "the hints", rest.hints, index, book)
    _carefully(book, "the pictures", pictures.draw, index, known, joined, windows, book, report, caught_up)


def _carefully(book: Book, what: str, judge: Callable[..., Any], *args: Any) -> Any:
    """A history that a judge stumbles over is unreadable: that is a finding, not a crash."""
    try:
        return judge(*args)
    except Exception as error:
        book.broken("I0", f"{what} cannot be read: {type(error).__name__}: {error}")
        return None
