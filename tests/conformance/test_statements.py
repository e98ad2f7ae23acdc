"""Statements have names of their own: one that took another's would give somebody the wrong rows."""

from __future__ import annotations

import pytest

from duly.adapters.sql import statements
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine
from duly.adapters.sql.fleet import SqlLiveness
from duly.adapters.sql.migrate import upgrade
from duly.ports.store import WorkerAbout

ONE, TWO = "-- name: member\nSELECT 1;\n", "-- name: member\nSELECT 2;\n"


def test_two_files_cannot_have_a_statement_of_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "_files", lambda engine: ([], [ONE, TWO]))

    with pytest.raises(ValueError, match="two files have a statement named member"):
        statements.statements.__wrapped__("sqlite")


def test_an_engine_may_override_what_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "_files", lambda engine: ([ONE], [TWO]))

    assert statements.statements.__wrapped__("sqlite")["member"].text == "SELECT 2"


def test_parameters_are_picked_in_the_order_of_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "_files", lambda engine: (["-- name: move\nUPDATE t SET a = :to, b = :by WHERE a <> :to;\n"], []))

    move = statements.statements.__wrapped__("sqlite")["move"]

    assert (move.text, move.names) == ("UPDATE t SET a = ?1, b = ?2 WHERE a <> ?1", ("to", "by"))
    assert move.values({"of": 0, "by": 1, "to": 2}) == (2, 1)


async def test_sqlite_says_that_a_statement_has_written_without_returning_it() -> None:
    """RETURNING would take it as long again."""
    engine = InlineSqliteEngine()
    await upgrade(engine)
    await SqlLiveness(engine).register("w", WorkerAbout("default"), 0, 1)
    place = {"job_id": b"j" * 16, "place": 0, "id": b"e" * 16}

    assert "RETURNING" not in statements.statements("sqlite")["free_place"].text
    assert len(await engine.fetch("take_place", place)) == 1
    assert len(await engine.fetch("take_place", place)) == 0
    assert [len(await engine.fetch("free_place", place)) for _ in range(2)] == [1, 0]
    # Of what has a number, that.
    assert [(await engine.fetch("grant", {"worker": 1, "now": 0}))[0][0] for _ in range(2)] == [1, 2]
    assert len(await engine.fetch("grant", {"worker": 1, "now": 1})) == 0
    await engine.close()
