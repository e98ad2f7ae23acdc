"""The store of a test: an action that fails is undone, and what others have written before it stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from duly.adapters.sql.engine import Action, Call, Many
from duly.adapters.sql.fleet import SqlLiveness
from duly.ports.store import WorkerAbout
from duly.testing import database
from duly.testing.database import VirtualEngine, at_once, give_back, lend


@pytest.fixture
def engine() -> Iterator[VirtualEngine]:
    lent = lend()
    lent.begin()
    yield VirtualEngine(lent, lambda: 0)
    give_back(lent)


def ready(number: int) -> dict[str, Any]:
    return {"route": 1, "tenant": 1, "rank": number, "id": bytes([number]) * 16, "attempt": 1, "failures": 0}


def ranks(engine: VirtualEngine) -> list[int]:
    return [row["rank"] for row in engine.database.connection.execute("SELECT rank FROM ready ORDER BY rank")]


def write(*numbers: int, fails: bool = False) -> Action[None]:
    for number in numbers:
        yield Call("make_ready", ready(number))
    if fails:
        raise ValueError("no")


def write_at_once(*numbers: int) -> Action[None]:
    yield Many("make_ready", [ready(number) for number in numbers])


def test_what_fails_leaves_nothing_and_takes_nothing_along(engine: VirtualEngine) -> None:
    at_once(engine.run(lambda: write(1, 2)))
    at_once(engine.fetch("make_ready", ready(3)))
    at_once(engine.run(lambda: write_at_once(4, 5)))

    with pytest.raises(ValueError, match="no"):
        at_once(engine.run(lambda: write(6, 7, fails=True)))
    # The second row of the three fails, when the first is written.
    with pytest.raises(sqlite3.IntegrityError):
        at_once(engine.run(lambda: write_at_once(8, 5, 9)))

    assert ranks(engine) == [1, 2, 3, 4, 5]
    at_once(engine.run(lambda: write(6)))
    assert ranks(engine) == [1, 2, 3, 4, 5, 6]


def test_numbers_that_were_given_are_given_again(engine: VirtualEngine) -> None:
    worker = {"worker": at_once(SqlLiveness(engine).register("w", WorkerAbout("default"), 0, 9)), "now": 1}
    [(first,)] = at_once(engine.fetch("grant", worker))
    with pytest.raises(ValueError, match="no"):
        at_once(engine.run(lambda: write(1, fails=True)))

    [(second,)] = at_once(engine.fetch("grant", worker))

    found = engine.database.connection.execute("SELECT lease_id FROM leases ORDER BY lease_id").fetchall()
    assert [row[0] for row in found] == [first, second]


def test_what_was_looked_at_meanwhile_is_not_believed_afterwards(engine: VirtualEngine) -> None:
    at_once(engine.run(lambda: write(1)))
    assert engine.has_ready()

    def empty() -> Action[None]:
        yield Call("take", {"route": 1, "tenant": 1, "rank": 9, "id": b"\xff" * 16})
        assert not engine.has_ready()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        at_once(engine.run(empty))

    assert engine.has_ready()


def test_the_mark_is_set_anew_after_a_while(engine: VirtualEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MOST_SINCE_MARK", 3)
    at_once(engine.run(lambda: write(1, 2, 3, 4)))
    assert engine._since_mark == []

    at_once(engine.run(lambda: write(5)))
    with pytest.raises(ValueError, match="no"):
        at_once(engine.run(lambda: write(6, fails=True)))

    assert ranks(engine) == [1, 2, 3, 4, 5]


def test_what_is_ready_is_counted_along(engine: VirtualEngine) -> None:
    assert not engine.has_ready()
    asked: list[str] = []
    engine.database.connection.set_trace_callback(asked.append)

    at_once(engine.run(lambda: write_at_once(1, 2, 3)))
    assert engine.has_ready()
    at_once(engine.run(lambda: take(2)))
    assert engine.has_ready()
    at_once(engine.run(lambda: take(3)))

    assert not engine.has_ready()
    engine.database.connection.set_trace_callback(None)
    assert not [text for text in asked if text.startswith("SELECT count")]


def test_a_statement_of_its_own_is_counted_as_well(engine: VirtualEngine) -> None:
    assert not engine.has_ready()

    at_once(engine.fetch("make_ready", ready(1)))

    assert engine.has_ready()


def take(rank: int) -> Action[None]:
    yield Call("take", {"route": 1, "tenant": 1, "rank": rank, "id": bytes([rank]) * 16})
