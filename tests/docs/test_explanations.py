"""What the pages about the ledger, fences and fairness say of the store is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine
from duly.domain.decide import WAIT_AFTER_LOSS
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.domain.job import HEAD_STARTS
from duly.domain.lifecycle import Outcome, State
from duly.roles.heartbeat import HeartbeatSettings
from duly.roles.sweeper import SweeperSettings
from tests.conformance.ledger import raw
from tests.conformance.world import World
from tests.services.databases import in_memory

PAGES = Path(__file__).parents[2] / "docs" / "explanation"
PLACES = ("executions", "timers", "ready", "leases", "attempts", "outcomes")
RUN = re.compile(r"(?<=run_)[0-9a-f]{32}|(?<=x')[0-9a-f]{32}")


def queries(page: str) -> list[str]:
    """Each statement of the page's SQL."""
    blocks = re.findall(r"```sql\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), re.DOTALL)
    return [statement.strip() for block in blocks for statement in block.split(";") if statement.strip()]


def table(page: str, first: str) -> list[list[str]]:
    """The rows of the table whose first column has this heading."""
    lines = (PAGES / page).read_text(encoding="utf-8").splitlines()
    start = next(nth for nth, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


@pytest.fixture(params=["sqlite", "postgres"])
async def engine(request: pytest.FixtureRequest) -> Any:
    found: Engine
    if request.param == "sqlite":
        found = await in_memory(InlineSqliteEngine())
    else:
        found = PostgresEngine(request.getfixturevalue("postgres_store"))
    yield found
    await found.close()


@pytest.fixture
def world(engine: Engine) -> World:
    return World(engine)


async def counted(world: World) -> list[str]:
    """How many rows stand in each place, as the page writes it."""
    found = await raw(world.engine, "SELECT " + ", ".join(f"(SELECT count(*) FROM {name}) AS {name}" for name in PLACES))
    return [str(found[0][name] or "") for name in PLACES]


async def test_the_life_of_an_execution_is_as_the_page_tells_it(world: World) -> None:
    (run_id,) = await world.enqueue(await world.job(), due_in=DAY)
    worker = await world.worker(ttl=10 * DAY)
    told = [await counted(world)]
    states = [await world.state(run_id)]

    async def note() -> None:
        told.append(await counted(world))
        states.append(await world.state(run_id))

    for wait, outcome in ((DAY, Outcome.FAILED), (10 * SECOND, Outcome.SUCCEEDED)):
        world.turn(wait)
        await world.promote()
        await note()
        claimed = await world.claimed(worker)
        await note()
        assert await world.finish(worker, claimed, outcome) == set()
        await note()

    assert [row[1:] for row in table("ledger.md", "what happens")] == [
        [*rows, state.name] for rows, state in zip(told, states, strict=True)
    ]


async def test_the_queries_of_the_page_answer(world: World) -> None:
    job = await world.job()
    (failed,) = await world.enqueue(job)
    worker = await world.worker()
    await world.finish(worker, await world.claimed(worker), Outcome.FAILED)
    (running,) = await world.enqueue(job)
    claimed = await world.claimed(worker)
    await world.enqueue(job, 2)
    ours = [query for query in queries("ledger.md") if ("x'" in query or "leased m" in query) is (world.engine.name == "sqlite")]

    answers = {query.partition("\n")[0]: await raw(world.engine, RUN.sub(failed.hex, query)) for query in ours}
    found = [rows for query, rows in answers.items() if query.startswith("SELECT state, attempt")]
    leases = [rows for query, rows in answers.items() if query.startswith("SELECT l.lease_id")]

    assert all(answers.values()), [query for query, rows in answers.items() if not rows]
    assert [row["state"] for rows in found for row in rows] == [State.SCHEDULED]
    assert [(row["fence"], row["executions"]) for rows in leases for row in rows] == [(claimed.lease, 1)]
    assert await world.state(running) is State.RUNNING
    if world.engine.name == "postgres":
        [places] = next(rows for query, rows in answers.items() if query.startswith("SELECT (SELECT"))
        assert (places["scheduled"], places["blocked"], places["pending"], places["leased"]) == (1, 0, 2, 1)
        [attempt] = next(rows for query, rows in answers.items() if query.startswith("SELECT attempt, outcome"))
        assert (attempt["attempt"], attempt["outcome"]) == (1, Outcome.FAILED)


def test_the_numbers_of_the_page_are_those_of_the_states() -> None:
    text = " ".join((PAGES / "ledger.md").read_text(encoding="utf-8").split())

    assert f"0 to 7, in the order {', '.join(state.name for state in State)};" in text
    for outcome in Outcome:
        if outcome is not Outcome.SUCCEEDED:
            assert f"{int(outcome)} {outcome.name.lower().replace('_', ' ')}" in text


async def test_the_query_about_fairness_answers(postgres_store: str) -> None:
    engine = PostgresEngine(postgres_store)
    world = World(engine)
    await world.enqueue(await world.job(), 3)

    [query] = queries("fairness.md")
    [row] = await raw(engine, query)
    await engine.close()

    assert (row["name"], row["pending"]) == ("default", 3)
    assert row["best_rank"].timestamp() * 1_000_000 == world.now


def test_the_head_starts_of_the_page_are_those_of_the_priorities() -> None:
    units = {"hour": HOUR, "minutes": MINUTE}

    def spelled(text: str) -> int:
        if text == "none":
            return 0
        number, unit, *behind = text.split()
        return int(number) * units[unit] * (-1 if behind else 1)

    told = {name.strip("`"): spelled(start) for name, start in table("fairness.md", "priority")}

    assert told == {priority.name: start for priority, start in HEAD_STARTS.items()}


def test_the_delays_of_the_page_are_those_of_the_settings() -> None:
    told = {name.strip("`"): text.partition(",")[0] for name, text, _ in table("fencing.md", "what")}
    beat = HeartbeatSettings()

    assert told == {
        "heartbeat": f"{beat.every // SECOND} s",
        "DULY_WORKER_TTL": f"{beat.ttl // SECOND} s",
        "margin": f"{beat.margin // SECOND} s",
        "sweep": f"{SweeperSettings().every:g} s",
        "pause after a loss": f"{WAIT_AFTER_LOSS // SECOND} s",
    }
