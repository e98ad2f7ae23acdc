"""Hints on every transport: what one process announces, another hears; what nobody hears is nobody's error."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from duly.adapters.kafka.address import parse_address
from duly.adapters.kafka.transport import KafkaTransport
from duly.adapters.sql.bell import Bell
from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.adapters.sql.transport_postgres import PostgresTransport
from duly.adapters.sql.transport_sqlite import SqliteTransport
from duly.ports.transport import Transport

Open = Callable[[], Transport]


@pytest.fixture(params=("postgres", "kafka"))
async def open_transport(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    """One more end of the same transport, as another process has it."""
    made: list[Transport] = []
    where = request.getfixturevalue("postgres_store" if request.param == "postgres" else "kafka_url")

    def make() -> Transport:
        is_kafka = request.param == "kafka"
        made.append(KafkaTransport(parse_address(where, "DULY_TRANSPORT"), Bell()) if is_kafka else PostgresTransport(where))
        return made[-1]

    yield make
    for transport in made:
        await transport.close()


async def heard(say: Callable[[], Awaitable[object]], hear: Callable[[], Awaitable[bool]]) -> None:
    """Say it until it is heard: the one who hears may still be connecting, and hints of that time are lost."""
    async with asyncio.timeout(30):
        while True:
            await say()
            if await hear():
                return


async def test_who_announces_wakes_those_who_wait_elsewhere(open_transport: Open) -> None:
    here, there = open_transport(), open_transport()

    await heard(lambda: here.announce([1]), lambda: there.wait_ready(0.3))
    await heard(here.announce_cancel, lambda: there.wait_cancel(0.3))


async def test_an_instant_that_is_announced_is_known_elsewhere(open_transport: Open) -> None:
    here, there = open_transport(), open_transport()
    told: list[int] = []

    async def hear() -> bool:
        told.extend(await there.wait_due(2_000_000, 0.3))
        return bool(told)

    await heard(lambda: here.announce_due(1_234_567), hear)

    assert set(told) == {1_234_567}


async def test_who_announces_wakes_those_who_wait_in_the_same_process_at_once(open_transport: Open) -> None:
    here = open_transport()

    await here.announce([1])
    await here.announce_cancel()
    await here.announce_due(7)

    assert await here.wait_ready(0)
    assert await here.wait_cancel(0)
    assert await here.wait_scheduled(0)
    assert await here.wait_due(8, 0) == [7]


async def test_a_ring_is_heard_once(open_transport: Open) -> None:
    here = open_transport()
    await here.announce([1])

    assert await here.wait_ready(0)


async def test_between_processes_of_one_sqlite_file_a_commit_is_the_announcement(sqlite_path: str) -> None:
    listener = SqliteTransport(SqliteEngine(sqlite_path))
    while await listener.wait_ready(0.2):
        pass

    with contextlib.closing(sqlite3.connect(sqlite_path, isolation_level=None)) as writer:
        writer.execute("INSERT INTO tenants (tenant, name) VALUES (77, 'new')")

        assert await listener.wait_ready(10)

    await listener.close()
