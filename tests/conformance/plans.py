"""The plans of what PostgreSQL really ran, as it ran: every statement of every lane, also inside functions and behind the wall."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import asyncpg
import pytest

from duly.adapters.sql.engine_postgres import Pool
from duly.adapters.sql.postgres.lines import Line
from duly.adapters.sql.statements import statements

Plan = dict[str, Any]

# The server explains each statement to whoever sent it, in a notice.
_EXPLAINING = """
    LOAD 'auto_explain';
    SET auto_explain.log_min_duration = 0;
    SET auto_explain.log_analyze = on;
    SET auto_explain.log_buffers = on;
    SET auto_explain.log_timing = off;
    SET auto_explain.log_nested_statements = on;
    SET auto_explain.log_format = json;
    SET auto_explain.log_level = notice;
"""


class Watch:
    """Hears the plans of all that is sent; by the name of the statement, or by the beginning of a text that has none."""

    def __init__(self) -> None:
        self.plans: dict[str, list[Plan]] = defaultdict(list)
        self._names = {statement.text: name for name, statement in statements("postgres").items()}

    def attach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Listen to every connection that is opened from now on."""
        plain, heard = Pool._open, set()

        async def open_heard(pool: Pool, text: str) -> Line:
            connection = await plain(pool, text)
            if connection not in heard:
                heard.add(connection)
                await connection.execute(_EXPLAINING)
                connection.add_log_listener(self._hear)
            return connection

        monkeypatch.setattr(Pool, "_open", open_heard)

    def _hear(self, _: object, message: asyncpg.PostgresLogMessage) -> None:
        text = message.message or ""
        if " plan:\n" in text:
            told = json.loads(text.partition(" plan:\n")[2])
            query = told["Query Text"]
            self.plans[self._names.get(query, " ".join(query.split())[:60])].append(told["Plan"])


def nodes(plan: Plan) -> Iterator[Plan]:
    """Every step of a plan."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


# A probe finds a row, or the few of its key; a table this short is sooner read than probed.
PROBE = 500


def rows_read(plan: Plan) -> dict[str, float]:
    """How many rows of each table a plan has walked along, those that it left out included; partitions count for their table.

    Probes are not counted: there is one for each row of somebody's walk.
    """
    found: dict[str, float] = defaultdict(float)
    for node in nodes(plan):
        if relation := node.get("Relation Name"):
            rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
            if rows > PROBE:
                found[table_of(relation)] += rows * node["Actual Loops"]
    return found


def table_of(relation: str) -> str:
    """The table that a partition is of."""
    name, _, day = relation.rpartition("_")
    return name if day == "default" or (day.isdigit() and len(day) == 8) else relation


def pages_touched(plan: Plan) -> int:
    """Pages from memory or from the disk."""
    return int(plan.get("Shared Hit Blocks", 0) + plan.get("Shared Read Blocks", 0))


def faults(plans: Mapping[str, list[Plan]], most: int, allowed: Mapping[str, frozenset[str]]) -> list[str]:
    """Who has read more rows of a table than `most`, where that is not allowed."""
    found = []
    for name, ran in plans.items():
        for plan in ran:
            for table, rows in rows_read(plan).items():
                if rows > most and table not in allowed.get(name, frozenset()):
                    found.append(f"{name} has read {rows:,.0f} rows of {table}")
    return sorted(set(found))


async def foreseen(connection: asyncpg.Connection[asyncpg.Record], name: str) -> Plan:
    """How a statement would run whatever it is given. It is not run."""
    statement = statements("postgres")[name]
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE foreseen_{name} AS {statement.text}")
    given = f" ({', '.join(['NULL'] * len(statement.names))})" if statement.names else ""
    plan: Plan = json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE foreseen_{name}{given}"))[0]["Plan"]
    return plan


async def long_tables(connection: asyncpg.Connection[asyncpg.Record]) -> set[str]:
    """Tables and partitions that are too long to be read for a few rows."""
    rows = await connection.fetch(
        f"SELECT relname FROM pg_class WHERE relnamespace = 'duly'::regnamespace AND relkind = 'r' AND reltuples > {PROBE}"
    )
    return {row["relname"] for row in rows}


def whole_tables(plan: Plan, *, limited: bool = False) -> set[str]:
    """The tables and partitions that a plan reads from one end to the other, unless somebody above it stops."""
    limited = limited or plan["Node Type"] == "Limit"
    found = set().union(*(whole_tables(child, limited=limited) for child in plan.get("Plans", ())))
    by_key = "Index Cond" in plan or plan["Node Type"] in ("Bitmap Heap Scan", "ModifyTable", "Tid Scan")
    if not by_key and not limited and (relation := plan.get("Relation Name")):
        found.add(relation)
    return found
