"""The simulated store undoes what did not come to its end, though only a call that writes has a savepoint to go back to."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from duly.adapters.sql.engine import Action, Call, Many
from duly.adapters.sql.statements import statements
from duly.domain.errors import Conflict
from duly.testing.clocks import StoreClock
from duly.testing.loop import SimulatedLoop
from tests.simulation.database import NodeEngine, Server, Wire, database


@pytest.fixture
def server() -> Iterator[Server]:
    loop, store = SimulatedLoop(1), database()
    clock = StoreClock(loop, 0)
    store.begin_at(clock.now, 4)
    yield Server(loop, loop.add_node("store"), clock, store, random.Random(1))
    store.rewind()
    loop.bury()


def execute(server: Server, action: Callable[[], Action[Any]], *, commits: bool = True) -> Exception | None:
    engine: Any = NodeEngine(server, server.node, Wire())
    return server.execute("somebody", lambda: engine.drive(server.database, action()), commits=commits)[1]


def about(name: str) -> dict[str, Any]:
    return {"name": name, "expires_at": 10, "about": None}


def writes(*names: str) -> Callable[[], Action[None]]:
    def action() -> Action[None]:
        for name in names:
            yield Call("dispatchers", {"now": 1, "beyond_sense": 100})
            yield Call("announce_dispatcher", about(name))

    return action


def known(server: Server) -> list[str]:
    return [row["name"] for row in server.database.connection.execute("SELECT name FROM dispatchers ORDER BY name")]


def test_what_a_call_has_written_before_it_failed_is_undone_and_what_came_before_stays(server: Server) -> None:
    def action() -> Action[None]:
        yield from writes("b", "c")()
        raise Conflict("DULY-E301", "Somebody was faster.")

    execute(server, writes("a"))
    error = execute(server, action)
    execute(server, writes("d"))

    assert isinstance(error, Conflict)
    assert known(server) == ["a", "d"]


def test_a_commit_that_is_lost_leaves_nothing(server: Server) -> None:
    execute(server, writes("a"))
    execute(server, writes("b"), commits=False)

    assert known(server) == ["a"]


def test_a_lost_commit_of_many_rows_leaves_nothing(server: Server) -> None:
    def action() -> Action[None]:
        yield Many("announce_dispatcher", [about("b"), about("c")])

    execute(server, action, commits=False)
    assert known(server) == []

    execute(server, action)
    assert known(server) == ["b", "c"]


def test_a_call_that_only_looks_leaves_those_before_it_alone_when_its_commit_is_lost(server: Server) -> None:
    execute(server, writes("a"))
    execute(server, lambda: only(Call("dispatchers", {"now": 1, "beyond_sense": 100})), commits=False)

    assert known(server) == ["a"]


def only(call: Call) -> Action[None]:
    yield call


def test_no_statement_writes_that_is_said_to_read_only(server: Server) -> None:
    def writes(text: str, parameters: int) -> bool:
        plan = server.database.connection.execute(f"EXPLAIN {text}", [None] * parameters)
        # The second operand of the instruction that begins a transaction says whether it will write.
        return any(row["opcode"] == "Transaction" and row["p2"] for row in plan)

    known = statements("sqlite").values()
    liars = [one.name for one in known if one.only_reads and writes(one.text, len(one.names))]

    assert liars == []
    assert writes(statements("sqlite")["announce_dispatcher"].text, 3)
