"""The store under test: empty, recording, and left as a user would want it."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from duly import compose, config
from duly.domain.access import DEFAULT_TENANT, DEFAULT_TENANT_NUMBER, Actor, Role
from duly.domain.errors import Conflict, Invalid
from duly.verify.stores import NamedStore, SqliteStore, store_named
from duly.wire.jobs import JobShape, TargetShape

ADMIN = Actor(DEFAULT_TENANT_NUMBER, DEFAULT_TENANT, Role.ADMIN, "test")


async def create_job(url: str, name: str = "kept") -> None:
    node = await compose.open_node(config.load(store=url))
    await node.jobs.create(ADMIN, [JobShape(name=name, target=TargetShape(handler="nobody"))])
    await node.close()


async def test_a_database_with_jobs_is_refused(postgres_dsn: str) -> None:
    await create_job(postgres_dsn)

    with pytest.raises(Conflict) as refused:
        await NamedStore(postgres_dsn).open()

    assert refused.value.code == "DULY-E606"


async def test_what_nodes_do_is_recorded_under_their_names_and_nothing_of_it_stays(postgres_dsn: str) -> None:
    store = NamedStore(postgres_dsn)
    await store.open()

    await create_job(store.url("api-1", None))
    events = await store.events()
    await store.close()

    assert [(event.kind, event.actor) for event in events if event.kind.startswith("job.")] == [("job.created", "api-1")]
    connection = await asyncpg.connect(postgres_dsn)
    left = await connection.fetchval("SELECT count(*) FROM pg_trigger WHERE tgname = 'verify'") + await connection.fetchval(
        "SELECT count(*) FROM pg_class WHERE relname LIKE 'verify%'"
    )
    jobs = await connection.fetchval("SELECT count(*) FROM duly.jobs")
    await connection.close()
    assert (left, jobs) == (0, 1)


async def test_a_sqlite_file_records(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store", 64)
    await store.open()

    try:
        await create_job(store.url("api-1", None))
        events = await store.events()
    finally:
        await store.close()

    assert "job.created" in {event.kind for event in events}


def test_a_node_goes_through_its_own_door() -> None:
    store = NamedStore("postgresql://me:secret@db.example.com:6543/empty?sslmode=prefer")

    assert store.address == ("db.example.com", 6543)
    assert store.url("worker-1", 20_001) == "postgresql://me:secret@127.0.0.1:20001/empty?sslmode=prefer&application_name=worker-1"


def test_a_word_that_is_no_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="mysql") as refused:
        store_named("mysql", tmp_path, minutes=1)

    assert refused.value.field == "--store"
