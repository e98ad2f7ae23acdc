"""What is measured from outside: processes by /proc, PostgreSQL by its own statistics, SQLite by its files."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import asyncpg

from duly.domain.ids import id_floor
from duly.domain.instants import SECOND, Instant
from tests.soak.load import METRONOME

PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
# Enough of each statement's text to know it by.
STATEMENTS = {
    "claim": "WITH ask AS MATERIALIZED%",
    "work": "WITH known AS MATERIALIZED%",
    "enqueue": "WITH submitted AS%",
    "finish": "%f.finished_at, f.result%",
    "finish_whole": "WITH gone AS MATERIALIZED%",
    "due": "SELECT s.job_id, s.shard, s.next_fire_at, s.version, s.skip_at%",
    "upcoming": "SELECT DISTINCT u.at%",
    "fire": "%), advanced AS (%",
    "promote": "%), left_timers AS (%",
}


def of_process(pid: int) -> dict[str, Any]:
    """Memory, processor time, file handles and threads of one process; nothing once it is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_SIZE
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        pss = sum(int(size) for size in re.findall(r"^Pss: +(\d+)", rollup, re.MULTILINE)) * 1024
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        cpu = (int(fields[11]) + int(fields[12])) / TICKS
        handles = len(os.listdir(f"/proc/{pid}/fd"))
        return {"rss": resident, "pss": pss, "cpu": cpu, "fds": handles, "threads": int(fields[17])}
    return {}


def private_memory(parent: int) -> int:
    """What the children of a process have for themselves: of PostgreSQL, the memory of its connections."""
    total = 0
    for children in Path(f"/proc/{parent}/task/{parent}").glob("children"):
        for child in children.read_text().split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                rollup = Path(f"/proc/{child}/smaps_rollup").read_text()
                total += sum(int(size) for size in re.findall(r"^Private_(?:Clean|Dirty): +(\d+)", rollup, re.MULTILINE)) * 1024
    return total


class StoreSampler(Protocol):
    """What the store says of itself."""

    async def sample(self, now: Instant) -> dict[str, Any]:
        """The figures of this moment."""

    async def close(self) -> None:
        """Let it go."""


class PostgresSampler:
    """Statistics of tables, connections and statements, and how late things start."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], keep: int, *, knows_statements: bool) -> None:
        self._connection = connection
        self._keep = keep
        self._knows_statements = knows_statements
        self._totals: dict[str, tuple[int, float, int]] = {}

    @classmethod
    async def open(cls, dsn: str, keep: int) -> PostgresSampler:
        settings = {"search_path": "duly,public", "application_name": "soak-sampler", "jit": "off"}
        connection = await asyncpg.connect(dsn, server_settings=settings)
        try:
            await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public")
            await connection.fetch("SELECT 1 FROM pg_stat_statements LIMIT 1")
        except asyncpg.PostgresError as error:
            print(f"no costs of statements: {error}", flush=True)
            return cls(connection, keep, knows_statements=False)
        return cls(connection, keep, knows_statements=True)

    async def sample(self, now: Instant) -> dict[str, Any]:
        fetch = self._connection.fetch
        tables: dict[str, dict[str, int]] = {}
        for row in await fetch(
            "SELECT regexp_replace(relname, '_[0-9]{8}$', '') AS name, sum(n_live_tup)::bigint AS live, sum(n_dead_tup)::bigint AS dead,"
            " sum(pg_table_size(relid))::bigint AS size, sum(pg_indexes_size(relid))::bigint AS indexes"
            " FROM pg_stat_user_tables WHERE schemaname = 'duly' GROUP BY 1"
        ):
            tables[row["name"]] = {"live": row["live"], "dead": row["dead"], "size": row["size"], "indexes": row["indexes"]}
        (activity,) = await fetch(
            "SELECT count(*) FILTER (WHERE application_name LIKE 'duly%') AS connections,"
            " count(*) FILTER (WHERE wait_event_type = 'Lock') AS waiting,"
            " coalesce(max(age(backend_xmin)), 0) AS horizon FROM pg_stat_activity WHERE datname = current_database()"
        )
        (days,) = await fetch(
            "SELECT count(*) AS n FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = 'executions'::regclass AND c.relname ~ '^executions_[0-9]{8}$'"
        )
        (overdue,) = await fetch(
            "SELECT (SELECT count(*) FROM logs WHERE id < $1) + (SELECT count(*) FROM outcomes_default) AS n",
            id_floor(now - 2 * self._keep),
        )
        (queue,) = await fetch("SELECT (SELECT count(*) FROM ready) AS ready, (SELECT count(*) FROM leases) AS leases")
        return {
            "tables": tables,
            "connections": activity["connections"],
            "waiting": activity["waiting"],
            "horizon": activity["horizon"],
            "days": days["n"],
            "overdue": overdue["n"],
            "ready": queue["ready"],
            "leases": queue["leases"],
            "statements": await self._statements() if self._knows_statements else {},
            "lateness": await self._delays(METRONOME, "o.started_at - e.due_at"),
            "pick_up": await self._delays("pick_up", "o.started_at - e.created_at"),
        }

    async def _statements(self) -> dict[str, dict[str, float]]:
        """Calls, milliseconds and pages of each since the last sample."""
        rows = await self._connection.fetch(
            "SELECT n.name, sum(s.calls)::bigint AS calls, sum(s.total_exec_time) AS ms,"
            " sum(s.shared_blks_hit + s.shared_blks_read)::bigint AS pages"
            " FROM unnest($1::text[], $2::text[]) AS n (name, text) JOIN pg_stat_statements s ON s.query LIKE n.text GROUP BY 1",
            list(STATEMENTS),
            list(STATEMENTS.values()),
        )
        since: dict[str, dict[str, float]] = {}
        for row in rows:
            calls, ms, pages = self._totals.get(row["name"], (0, 0.0, 0))
            since[row["name"]] = {"calls": row["calls"] - calls, "ms": round(row["ms"] - ms, 3), "pages": row["pages"] - pages}
            self._totals[row["name"]] = (row["calls"], row["ms"], row["pages"])
        return since

    async def _delays(self, job: str, what: str) -> list[float]:
        """Of the last few executions of a job, in milliseconds."""
        rows = await self._connection.fetch(
            f"SELECT {what} AS delay FROM jobs j CROSS JOIN LATERAL"
            " (SELECT * FROM executions WHERE job_id = j.id ORDER BY id DESC LIMIT 3) e JOIN outcomes o ON o.id = e.id"
            " WHERE j.name = $1 AND o.started_at IS NOT NULL",
            job,
        )
        return [row["delay"] / 1000 for row in rows]

    async def close(self) -> None:
        await self._connection.close()


class SqliteSampler:
    """The files, the queue and the history."""

    def __init__(self, path: Path, keep: int) -> None:
        self._path = path
        self._keep = keep

    async def sample(self, now: Instant) -> dict[str, Any]:
        # Opened for each look, so that the sampler itself never holds a snapshot.
        with contextlib.closing(sqlite3.connect(self._path, timeout=10)) as connection:
            past = connection.execute(
                "SELECT count(*) FROM outcomes WHERE id < ? AND finished_at < ?",
                (id_floor(now - 2 * self._keep).bytes, now - 2 * self._keep),
            ).fetchone()[0]
            ready = connection.execute("SELECT count(*) FROM ready").fetchone()[0]
            leases = connection.execute("SELECT count(*) FROM leases").fetchone()[0]
            late = [
                self._delays(connection, METRONOME, "o.started_at - e.due_at"),
                self._delays(connection, "pick_up", "o.started_at - e.created_at"),
            ]
        wal = Path(f"{self._path}-wal")
        return {
            "wal": wal.stat().st_size if wal.exists() else 0,
            "file": self._path.stat().st_size,
            "overdue": past,
            "ready": ready,
            "leases": leases,
            "lateness": late[0],
            "pick_up": late[1],
        }

    def _delays(self, connection: sqlite3.Connection, job: str, what: str) -> list[float]:
        found = connection.execute(
            f"SELECT {what} FROM executions e JOIN outcomes o ON o.id = e.id WHERE o.started_at IS NOT NULL AND e.id IN"
            " (SELECT id FROM executions WHERE job_id = (SELECT id FROM jobs WHERE name = ?) ORDER BY id DESC LIMIT 3)",
            (job,),
        ).fetchall()
        return [row[0] / 1000 for row in found]

    async def close(self) -> None:
        return None


def store_clock() -> Instant:
    """The store is on this machine, so its clock is ours."""
    return round(time.time() * SECOND)


def sampled_processes(pids: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Every process that is there, by its name."""
    return {name: found for name, pid in pids.items() if (found := of_process(pid))}
