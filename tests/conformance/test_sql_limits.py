"""`duly_enqueue` knows limits and unique keys as Python does, to the bit."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.migrate import upgrade
from duly.domain.instants import HOUR, MINUTE
from duly.domain.lifecycle import State
from duly.domain.limits import Concurrency, Limits, Rate, Unique
from tests.conformance.ledger import assert_ledger_is_sound, raw
from tests.conformance.world import World

LIMITS = [
    Limits(max_concurrent=2),
    Limits(concurrency=Concurrency(max=1, key=("user",))),
    Limits(concurrency=Concurrency(max=3, key=("a.b", "user"), name="shared")),
    Limits(rate=Rate(count=5, per=MINUTE)),
    Limits(rate=Rate(count=5, per=MINUTE, key=("user",))),
    Limits(max_concurrent=9, concurrency=Concurrency(max=1, key=("user",)), rate=Rate(count=2, per=HOUR)),
    Limits(max_concurrent=9, concurrency=Concurrency(max=1, name="x"), rate=Rate(count=2, per=HOUR, key=("user",))),
    Limits(unique=Unique(key=("user",))),
    Limits(unique=Unique(key=("a.b", "user"), window=HOUR)),
    Limits(unique=Unique()),
]
PAYLOADS: list[Any] = [
    {"user": 7},
    {"user": "seven", "a": {"b": True}},
    {"user": 'a "quoted" ünïcode \\ \n name', "a": {"b": None}},
    {"user": 1.5, "a": {"b": -3}},
    {"user": 2.0, "a": {"b": 0.25}},
    {"user": None, "zz": [1, {"longer": 1, "k": 2}], "a": {}},
    {},
    None,
]


@asynccontextmanager
async def postgres(dsn: str) -> AsyncIterator[World]:
    engine = PostgresEngine(dsn)
    try:
        await upgrade(engine)
        yield World(engine, now=await engine.store_now())
    finally:
        await engine.close()


def literal(value: Any) -> str:
    return "'" + json.dumps(value).replace("'", "''") + "'"


@pytest.mark.parametrize("limits", LIMITS, ids=repr)
async def test_sql_and_python_make_the_same_keys(postgres_dsn: str, limits: Limits) -> None:
    async with postgres(postgres_dsn) as world:
        job = await world.job("the job", limits=limits, payload='{"user":"own"}')
        for payload in PAYLOADS:
            (mine,) = world.new_executions(job, 1, payload=None if payload is None else json.dumps(payload))

            (answer,) = await raw(world.engine, f"SELECT duly.duly_enqueue('the job', {literal(payload)}::jsonb) AS id")

            (row,) = await raw(world.engine, f"SELECT gates FROM executions WHERE id = '{answer['id'].removeprefix('run_')}'")
            assert row["gates"] == ([gate.id for gate in mine.gates] or None)
            if mine.unique is not None:
                taken = await raw(world.engine, f"SELECT key FROM uniques WHERE id = '{answer['id'].removeprefix('run_')}'")
                assert {"key": mine.unique[0]} in taken
            for gate in mine.gates:
                (made,) = await raw(world.engine, f"SELECT capacity, lasts, about FROM gates WHERE gate = '{gate.id}'")
                assert (made["capacity"], made["lasts"]) == (gate.capacity, gate.lasts)
                about = json.loads(gate.about)
                assert json.loads(made["about"])["limit"] == about["limit"]


async def test_what_sql_enqueues_passes_the_same_gate(postgres_dsn: str) -> None:
    async with postgres(postgres_dsn) as world:
        job = await world.job("the job", limits=Limits(concurrency=Concurrency(max=1, key=("user",))))
        await world.enqueue(job, payload='{"user":7}')
        await raw(world.engine, "SELECT duly.duly_enqueue('the job', '{\"user\":7}')")
        await raw(world.engine, "SELECT duly.duly_enqueue('the job', '{\"user\":8}')")
        world.clock.now = await world.engine.store_now()

        await world.promote()

        states = sorted((run.state for run in await world.of_job(job)), key=int)
        assert states == [State.BLOCKED, State.PENDING, State.PENDING]
        await world.run()
        await world.run()
        assert {run.state for run in await world.of_job(job)} == {State.SUCCEEDED}
        await assert_ledger_is_sound(world.engine)


async def test_sql_answers_who_has_the_unique_key(postgres_dsn: str) -> None:
    async with postgres(postgres_dsn) as world:
        job = await world.job("the job", limits=Limits(unique=Unique(key=("user",))))
        (first,) = await world.enqueue(job, payload='{"user":7}')

        rows = await raw(world.engine, "SELECT duly.duly_enqueue('the job', '{\"user\":7}') AS id")

        assert rows == [{"id": f"run_{first.hex}"}]
