"""How each table of PostgreSQL is vacuumed: read back from the server, and none forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.domain.instants import DAY
from tests.conformance.ledger import raw
from tests.conformance.world import World

# Rows come and go by the thousand: a small share of them, or few, and without a pause.
CHURN = {
    "awaited": "0.02",
    "blocked": "0.02",
    "cancels": "0.02",
    "checkpoints": "0.02",
    "flow_seeds": "0.02",
    "flow_waits": "0.02",
    "flows": "0.02",
    "gate_waits": "0.02",
    "outbox": "0.02",
    "places": "0.02",
    "schedules": "0.02",
    "slots": "0.02",
    "timers": "0.02",
    "unexported": "0.02",
    "uniques": "0.02",
    "waits": "0.02",
    "job_figures": "0.02",
    "gates": "0.0",
    "leases": "0.0",
    "ready": "0.0",
}
# Few rows that change all the time: room on their pages, and a threshold in rows.
HOT = {
    "audit_heads": 20,
    "audit_progress": 20,
    "dispatchers": 20,
    "exporters": 20,
    "fires": 50,
    "headroom": 20,
    "shards": 20,
    "watches": 20,
    "workers": 50,
}
# Long ones of which a share is too much.
LONG = {"idempotency": "0.05", "jobs": "0.02"}
HISTORY = {"executions", "outcomes", "attempts", "logs"}
APPENDED = {"audit", "audit_links"}
# The server's own settings are right for them: written by people, or rarely.
PLAIN = {
    "alert_channels",
    "alert_rules",
    "batches",
    "calendar_uses",
    "calendars",
    "deliveries",
    "duly_migrations",
    "heralds",
    "incidents",
    "job_versions",
    "keys",
    "links",
    "login_links",
    "missed_fires",
    "pauses",
    "routes",
    "sessions",
    "settled",
    "signals",
    "tenants",
    "traces",
}


@pytest.fixture
async def world(migrated_dsn: str) -> AsyncIterator[World]:
    """A store of its own: partitions are made."""
    engine = PostgresEngine(migrated_dsn)
    yield World(engine)
    await engine.close()


async def options(world: World) -> dict[str, dict[str, str]]:
    rows = await raw(
        world.engine,
        """SELECT c.relname AS name, array_to_string(c.reloptions, ',') AS options, p.relname AS parent
           FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
           WHERE c.relnamespace = 'duly'::regnamespace AND c.relkind = 'r'""",
    )
    return {
        f"{row['parent']}/{row['name']}" if row["parent"] else row["name"]: dict(
            option.split("=") for option in (row["options"] or "").split(",") if option
        )
        for row in rows
    }


async def test_every_table_is_vacuumed_as_its_use_asks(world: World) -> None:
    await world.store.retention.prepare(world.now, 2 * DAY)

    found = await options(world)

    for name, share in CHURN.items():
        assert float(found[name]["autovacuum_vacuum_scale_factor"]) == float(share), name
        assert found[name]["autovacuum_vacuum_cost_delay"] == "0", name
    for name, fill in HOT.items():
        assert found[name]["fillfactor"] == str(fill), name
        assert int(found[name]["autovacuum_vacuum_threshold"]) <= 500, name
    for name, share in LONG.items():
        assert found[name]["autovacuum_vacuum_scale_factor"] == share, name
    history = {name: values for name, values in found.items() if "/" in name}
    assert {name.partition("/")[0] for name in history} == HISTORY
    # The default partitions, and those of three days.
    assert len(history) == 4 * len(HISTORY)
    for name, values in history.items():
        assert values["autovacuum_freeze_min_age"] == "0", name
        assert values["autovacuum_vacuum_insert_threshold"] == "1000000", name
    for name in APPENDED:
        assert found[name]["autovacuum_freeze_min_age"] == "0"


async def test_nobody_adds_a_table_without_a_word_about_its_vacuum(world: World) -> None:
    tables = {name for name in await options(world) if "/" not in name}

    assert tables == CHURN.keys() | HOT.keys() | LONG.keys() | APPENDED | PLAIN


async def test_vacuum_never_takes_the_lock_of_the_queue_to_give_back_its_pages(world: World) -> None:
    found = await options(world)

    assert found["ready"]["vacuum_truncate"] == found["leases"]["vacuum_truncate"] == "off"
