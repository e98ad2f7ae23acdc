"""A store comes to this version's schema, once, whoever else tries at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.adapters.sql.migrate import Migration, migrations, pending, require_current, upgrade
from duly.adapters.sql.store import store_on
from duly.domain.errors import Unavailable
from duly.domain.instants import DAY
from tests.conformance.ledger import raw
from tests.services.postgres import Postgres

Opener = Callable[[], Engine]

SCHEMA_OF = {
    "sqlite": "SELECT type, name, sql FROM sqlite_master ORDER BY type, name",
    "postgres": """
        SELECT c.relkind::text, c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_indexdef(c.oid) AS index
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE n.nspname = 'duly' AND a.attnum > 0 ORDER BY c.relname, a.attnum""",
}


@pytest.fixture(params=["sqlite", "postgres"])
def open_empty(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens engines on one store that has no tables yet."""
    if request.param == "sqlite":
        return lambda: SqliteEngine(str(tmp_path / "duly.db"))
    dsn = request.getfixturevalue("postgres_dsn")
    return lambda: PostgresEngine(dsn)


@asynccontextmanager
async def engines(open_empty: Opener, count: int) -> AsyncIterator[list[Engine]]:
    async with AsyncExitStack() as stack:
        opened = await asyncio.gather(*(asyncio.to_thread(open_empty) for _ in range(count)))
        for engine in opened:
            stack.push_async_callback(engine.close)
        yield list(opened)


@pytest.fixture
async def empty(open_empty: Opener) -> AsyncIterator[Engine]:
    async with engines(open_empty, 1) as (engine,):
        yield engine


async def schema(engine: Engine) -> list[dict]:
    return await raw(engine, SCHEMA_OF[engine.name])


async def applied(engine: Engine) -> list[int]:
    return [row["number"] for row in await raw(engine, "SELECT number FROM duly_migrations ORDER BY number")]


async def record(engine: Engine, number: int) -> None:
    await raw(engine, f"INSERT INTO duly_migrations (number, name, applied_at) VALUES ({number}, 'from_the_future', 0)")


def numbers(found: list[Migration]) -> list[int]:
    return [migration.number for migration in found]


async def test_everything_is_pending_for_an_empty_store(empty: Engine) -> None:
    assert await pending(empty) == migrations(empty.name)


async def test_looking_at_an_empty_store_changes_nothing(empty: Engine) -> None:
    before = await schema(empty)

    await pending(empty)

    assert await schema(empty) == before


async def test_the_plan_is_what_is_applied(empty: Engine) -> None:
    plan = await pending(empty)

    assert await upgrade(empty) == plan

    assert await applied(empty) == numbers(plan)
    assert await pending(empty) == []
    await require_current(empty)


async def test_upgrading_again_changes_nothing(empty: Engine) -> None:
    await upgrade(empty)
    before = await schema(empty)

    assert await upgrade(empty) == []

    assert await schema(empty) == before


async def test_concurrent_upgrades_apply_each_migration_once(open_empty: Opener) -> None:
    async with engines(open_empty, 4) as found:
        done = await asyncio.gather(*(upgrade(engine) for engine in found))

        assert sorted(number for one in done for number in numbers(one)) == numbers(migrations(found[0].name))
        for engine in found:
            await require_current(engine)


async def test_an_upgrade_that_fails_leaves_nothing_behind(empty: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [Migration(1, "broken", "CREATE TABLE half_done (id integer);\nINSERT INTO no_such_table VALUES (1);")]
    monkeypatch.setattr("duly.adapters.sql.migrate.migrations", lambda engine: broken)

    with pytest.raises(Exception, match="no_such_table"):
        await upgrade(empty)

    monkeypatch.undo()
    assert await applied(empty) == []
    assert "half_done" not in str(await schema(empty))
    assert await upgrade(empty) == migrations(empty.name)


async def test_a_store_without_a_migration_is_refused(empty: Engine) -> None:
    with pytest.raises(Unavailable) as refused:
        await store_on(empty).health.ping()

    assert refused.value.code == "DULY-E503"
    assert "duly db upgrade" in str(refused.value)


@pytest.mark.parametrize("ask", [pending, upgrade, require_current])
async def test_a_store_that_is_newer_is_refused(empty: Engine, ask: Callable) -> None:
    await upgrade(empty)
    await record(empty, 9999)
    before = await schema(empty)

    with pytest.raises(Unavailable) as refused:
        await ask(empty)

    assert refused.value.code == "DULY-E503"
    assert await schema(empty) == before


def test_both_engines_have_the_same_migrations() -> None:
    assert [(one.number, one.name) for one in migrations("sqlite")] == [(one.number, one.name) for one in migrations("postgres")]


def test_migrations_are_numbered_from_one_without_holes() -> None:
    assert numbers(migrations("sqlite")) == list(range(1, len(migrations("sqlite")) + 1))


async def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "duly.db"

    engine = SqliteEngine(str(path))

    assert path.stat().st_mode & 0o777 == 0o600
    await engine.close()


IN_PUBLIC = "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'duly%' ORDER BY 1"


async def test_who_may_not_create_in_public_has_the_functions_in_the_schema_alone(postgres_server: Postgres, postgres_dsn: str) -> None:
    database = urlsplit(postgres_dsn).path[1:]
    postgres_server.execute(
        "DO $$ BEGIN CREATE ROLE narrow LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
        f"GRANT CREATE ON DATABASE {database} TO narrow; REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        database,
    )
    engine = PostgresEngine(postgres_dsn.replace("//duly@", "//narrow@"))

    await upgrade(engine)

    assert await raw(engine, IN_PUBLIC) == []
    with pytest.raises(asyncpg.PostgresError, match="DULY-E204"):
        await raw(engine, "SELECT duly.duly_enqueue('nobody')")
    await engine.close()
    postgres_server.execute("DROP OWNED BY narrow", database)


async def test_a_function_of_somebody_else_s_in_public_is_left_alone(postgres_server: Postgres, postgres_dsn: str) -> None:
    database = urlsplit(postgres_dsn).path[1:]
    postgres_server.execute("CREATE FUNCTION public.duly_enqueue(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'", database)
    engine = PostgresEngine(postgres_dsn)

    await upgrade(engine)

    assert [row["proname"] for row in await raw(engine, IN_PUBLIC)] == ["duly_complete", "duly_enqueue"]
    assert await raw(engine, "SELECT public.duly_enqueue(7) AS n") == [{"n": 1}]
    await engine.close()


OLD_LINES = """INSERT INTO logs (id, attempt, at, level, message)
               SELECT duly_id_floor(at), 1, at, 'info', 'old' FROM unnest(ARRAY[{}]::bigint[]) at"""
PARTITIONS = "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'logs'::regclass"


async def test_lines_from_before_stay_readable_and_go_with_retention(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = PostgresEngine(postgres_dsn)
    every = migrations("postgres")
    monkeypatch.setattr("duly.adapters.sql.migrate.migrations", lambda name: [one for one in every if one.name != "records"])
    await upgrade(engine)
    now = await engine.store_now()
    await raw(engine, OLD_LINES.format(f"{now - 3 * DAY}, {now}"))
    monkeypatch.undo()

    await upgrade(engine)
    store = store_on(engine)
    await store.retention.prepare(now, 3 * DAY)
    await raw(engine, OLD_LINES.format(f"{now}, {now + 3 * DAY}"))
    places = await raw(engine, "SELECT seq, tableoid::regclass::text AS place FROM logs ORDER BY seq")

    # New lines of these days stand with the old ones, numbered on; later ones in days of their own.
    assert [row["seq"] for row in places] == [1, 2, 3, 4]
    assert [row["place"].rpartition("_")[0] for row in places] == ["logs_before"] * 3 + ["logs"]

    # Nobody has these executions any more, so the lines go, and then what held them.
    later = now + 40 * DAY
    while await store.retention.prune(later - 30 * DAY, later, 100):
        pass
    left = await raw(engine, PARTITIONS)
    assert await raw(engine, "SELECT seq FROM logs") == []
    assert not any("before" in row["relname"] for row in left)
    await engine.close()
