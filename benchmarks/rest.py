"""A store with much at rest: jobs with schedules, and finished executions of the last thirty days, made by SQL.

Rows are what the product would have written, a thousand times faster than it writes them: every job has a version, a daily cron
schedule at a minute of its own and a shard; every execution is a fire of one of them, with its header, its outcome and, where
it failed, its attempts; one in twenty has a log line. One execution in a hundred belongs to a single busy job, one in a hundred is a
dead letter, one in two hundred was cancelled, as many were skipped. Nothing of it is due while it is measured.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from benchmarks.harness import Scratch
from duly.domain.instants import DAY, MINUTE, Instant
from duly.domain.job import Job, JobSpec, JobType, Target, Timing
from duly.domain.overlap import Overlap, OverlapPolicy
from duly.domain.shards import SHARDS
from tests.conformance.ledger import raw
from tests.conformance.world import World

DAYS = 30
CHUNK = 1_000_000
GIB = 1 << 30
# Bytes of one job with its schedule and one finished execution, with their indexes; measured, then rounded up.
BYTES = {"postgres": 2_300, "sqlite": 2_000}
# What the log of changes and the measurements themselves need.
SPARE = 12 * GIB
CRON = "59 23 * * *"
HANDLER = "duly.echo"
TEMPLATE, BUSY = "rest-template", "rest-busy"
# Their versions are numbered from here; what the product makes meanwhile comes before them.
VERSIONS = 1_000_000


class NoRoom(Exception):
    """The disk is too small for what was asked."""


def demand_room(kind: str, rows: int, where: Path) -> str:
    """What it needs, in words. Raises NoRoom when the disk has less."""
    needed = rows * BYTES[kind] + SPARE
    free = shutil.disk_usage(where).free
    words = f"{rows:,} schedules and as many finished executions on {kind} need about {needed / GIB:.0f} GiB in {where}"
    if free < needed:
        raise NoRoom(f"{words}; {free / GIB:.0f} GiB are free. Ask for less with --upto, or set TMPDIR to a larger disk.")
    return f"{words}; {free / GIB:.0f} GiB are free"


@dataclass(frozen=True, slots=True)
class Rest:
    """What the rows refer to, and the days they lie in."""

    template: Job
    busy: Job
    definition: str
    # The day of the first ones, and of the first fires to come.
    first: Instant
    fires: Instant


async def prepare(world: World) -> Rest:
    """Two jobs that the product made, which the others are copies of; and, on PostgreSQL, the partitions of the days."""
    midnight = world.now - world.now % DAY
    first = midnight - (DAYS - 1) * DAY
    fires = midnight + 2 * DAY
    for day in range(DAYS):
        if world.engine.name == "postgres":
            await world.engine.fetch("create_partitions", {"from_us": first + day * DAY, "to_us": first + (day + 1) * DAY})
    await world.store.retention.prepare(world.now, 3 * DAY)
    made = []
    for name in (TEMPLATE, BUSY):
        timing = Timing(type=JobType.CRON, cron=CRON)
        spec = JobSpec(name=name, timing=timing, target=Target(handler=HANDLER), overlap=Overlap(policy=OverlapPolicy.ALLOW))
        new = world.new_job(spec, next_fire_at=fires)
        await world.store.definitions.create_jobs([([new], None)], world.now)
        made.append(await world.read(new.id))
    cast = "::text" if world.engine.name == "postgres" else ""
    [row] = await raw(world.engine, f"SELECT definition{cast} AS text FROM job_versions WHERE id = {made[0].version.number}")
    return Rest(made[0], made[1], row["text"], first, fires)


def statements(rest: Rest, kind: str, first: int, last: int, done: int, upto: int) -> list[str]:
    """What makes the rows `first` to `last` of a step that goes from `done` to `upto`: in the order of time, as indexes like it."""
    pg = kind == "postgres"
    no, json = ("false", "::json") if pg else ("0", "")
    series = f"FROM generate_series({first}::bigint, {last}) n" if pg else f"FROM ({_COUNT.format(first=first, last=last)}) n"
    route, tenant = rest.template.version.route, rest.template.version.tenant

    # A millisecond apart, oldest first, long ago.
    born = f"({(rest.first - 60 * DAY) // 1000} + n)"
    job = _id(pg, born, "n")
    minute = "(n * 7 % 1440)"
    cron = f"({minute} % 60) || ' ' || ({minute} / 60) || ' * * *'"
    definition = f"replace(replace({_text(rest.definition)}, '{TEMPLATE}', 'rest-' || n), '{CRON}', {cron})"
    numbers = "OVERRIDING SYSTEM VALUE" if pg else ""

    # The newest lie a minute before today, so that what comes now comes after them.
    ms = f"({rest.first // 1000} + (n - {done + 1}) * {((DAYS - 1) * DAY - MINUTE) // 1000} / {upto - done})"
    at = f"({ms} * 1000)"
    id = _id(pg, ms, "n")
    busy = f"'{rest.busy.id}'::uuid" if pg else f"x'{rest.busy.id.hex}'"
    of_job = f"CASE WHEN n % 100 = 0 THEN {busy} ELSE {job} END"
    of_version = f"CASE WHEN n % 100 = 0 THEN {rest.busy.version.number} ELSE {VERSIONS} + n END"
    # Fences grow with the attempts, and lie before all that a worker will ever get.
    fence = "4 * (n + 1)"
    dead, cancelled, skipped, ran = "n % 100 = 1", "n % 200 = 2", "n % 200 = 3", "n % 200 NOT IN (2, 3)"
    error = f"""'{{"type":"ValueError","message":"no such customer"}}'{json}"""
    why = f"""CASE WHEN {skipped} THEN '{{"reason":"misfire"}}'{json} WHEN {dead} THEN {error}
                   WHEN {cancelled} THEN '{{"reason":"cancelled","by":"somebody"}}'{json} END"""
    return [
        f"""INSERT INTO jobs (id, tenant, name, state, version, created_at)
            SELECT {job}, {tenant}, 'rest-' || n, 0, {VERSIONS} + n, {born} * 1000 {series}""",
        f"""INSERT INTO job_versions (id, job_id, version, route, max_attempts, definition, created_at) {numbers}
            SELECT {VERSIONS} + n, {job}, 1, {route}, 3, ({definition}){json}, {born} * 1000 {series}""",
        f"""INSERT INTO schedules (job_id, shard, next_fire_at, version, paused)
            SELECT {job}, n % {SHARDS}, {rest.fires} + {minute} * {MINUTE}, {VERSIONS} + n, {no} {series}""",
        f"""INSERT INTO executions (id, job_id, job_version, tenant, route, trigger, holds_place, skip_reason, due_at, rank, created_at)
            SELECT {id}, {of_job}, {of_version}, {tenant}, {route}, 0, {no}, CASE WHEN {skipped} THEN 2 END, {at}, {at}, {at} + 2000
            {series}""",
        f"""INSERT INTO outcomes (id, state, attempt, lease_id, worker, started_at, finished_at, result, error)
            SELECT {id}, CASE WHEN {dead} THEN 5 WHEN {cancelled} THEN 6 WHEN {skipped} THEN 7 ELSE 4 END,
                   CASE WHEN {dead} THEN 3 WHEN {ran} THEN 1 ELSE 0 END,
                   CASE WHEN {dead} THEN 3 - {fence} WHEN {ran} THEN 1 - {fence} END, CASE WHEN {ran} THEN 0 END,
                   CASE WHEN {ran} THEN {at} + 12000 END, {at} + 13000, CASE WHEN {ran} AND NOT {dead} THEN 'null'{json} END, {why}
            {series}""",
        f"""INSERT INTO attempts (id, attempt, outcome, lease_id, worker, started_at, finished_at, retry_at, error)
            SELECT {id}, t.attempt, 2, t.attempt - {fence}, 0, {at} + 4000 * t.attempt, {at} + 4000 * t.attempt + 1000,
                   CASE WHEN t.attempt < 3 THEN {at} + 4000 * t.attempt + 4000 END, {error}
            {series} CROSS JOIN (SELECT 1 AS attempt UNION ALL SELECT 2 UNION ALL SELECT 3) t WHERE {dead}""",
        f"""INSERT INTO logs (id, attempt, at, level, message)
            SELECT {id}, 1, {at} + 5000, 'info', 'worked' {series} WHERE n % 20 = 5""",
    ]


_COUNT = "WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n < {last}) SELECT n FROM s"


def _id(pg: bool, ms: str, n: str) -> str:
    """An id of this millisecond, as ids are: ordered by time, different for each n."""
    if not pg:
        return f"rest_id({ms}, {n})"
    digits = f"lpad(to_hex({ms}::bigint), 12, '0') || '8' || lpad(to_hex({n} & 4095), 3, '0') || '8' || substr(md5({n}::text), 1, 15)"
    return f"({digits})::uuid"


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def rest_id(ms: int, n: int) -> bytes:
    """The same for SQLite, which has no md5."""
    digits = f"{ms:012x}8{n & 4095:03x}8{hashlib.md5(str(n).encode(), usedforsecurity=False).hexdigest()[:15]}"
    return bytes.fromhex(digits)


async def fill(scratch: Scratch, rest: Rest, done: int, upto: int, say: Callable[[str], None]) -> float:
    """Go from `done` to `upto` of each; answers how many seconds it took. Statistics and visibility are brought up to date."""
    began = time.monotonic()
    chunk = CHUNK if scratch.kind == "postgres" else CHUNK // 4
    for start in range(done, upto, chunk):
        last = min(start + chunk, upto)
        texts = statements(rest, scratch.kind, start + 1, last, done, upto)
        if scratch.kind == "sqlite":
            _run_sqlite(scratch.directory / "bench.db", texts)
        else:
            await _run_postgres(scratch.url, texts)
        say(f"{last:,} of {upto:,} ({time.monotonic() - began:.0f} s)")
    if scratch.kind == "sqlite":
        _run_sqlite(scratch.directory / "bench.db", ["ANALYZE"])
    else:
        # What autovacuum would have done by the time that so much had come in.
        await _run_postgres(scratch.url, ["VACUUM (ANALYZE)", "CHECKPOINT"])
    return time.monotonic() - began


async def _run_postgres(url: str, texts: list[str]) -> None:
    connection = await asyncpg.connect(url, server_settings={"search_path": "duly", "synchronous_commit": "off"})
    try:
        for text in texts:
            await connection.execute(text, timeout=3600)
    finally:
        await connection.close()


def _run_sqlite(path: Path, texts: list[str]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as file:
        file.create_function("rest_id", 2, rest_id, deterministic=True)
        file.execute("PRAGMA synchronous = OFF")
        file.execute("PRAGMA cache_size = -500000")
        file.execute("BEGIN")
        for text in texts:
            file.execute(text)
        file.execute("COMMIT")
