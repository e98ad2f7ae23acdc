"""What must hold when a seed has ended: the ledger, the checker's invariants, and that everything due has come to its end."""

from __future__ import annotations

import sqlite3
from collections.abc import Coroutine
from typing import Any

from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.adapters.sql.statements import statements
from duly.verify.checker import check
from duly.verify.history import History
from tests.conformance.ledger import assert_ledger_is_sound

UNENDED = ("PENDING", "BLOCKED", "RUNNING")


class DirectEngine(SqliteEngine):
    """The engine for whoever looks at the store from beside: no network, no faults."""

    def __init__(self, connection: Any) -> None:
        self.path, self._in_memory, self._statements = ":memory:", True, statements("sqlite")
        self._connection = connection

    _writes = _reads = None  # type: ignore[assignment]

    async def _submit(self, where: Any, work: Any) -> Any:
        return work(self._connection)


def at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waited")


def judge(connection: sqlite3.Connection, history: History, *, ended: bool) -> list[str]:
    """Every violation, in a sentence each. `ended`: whether everything that was due came to its end in time."""
    found: list[str] = []
    try:
        at_once(assert_ledger_is_sound(DirectEngine(connection)))
    except AssertionError as error:
        found.append(f"ledger: {error}")
    if not ended and history.final is not None:
        left = [stands for stands in history.final.executions if stands.state in UNENDED]
        found.append(f"I1: {len(left)} executions have not ended, first {left[:2]}")
    return found + [f"{finding.invariant}: {finding.says} {finding.run or finding.job or ''}" for finding in check(history).findings()]
