"""The columns of a record: the same names and order in ClickHouse, in Parquet and in JSON lines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from duly.domain.instants import Instant, to_datetime
from duly.domain.records import Record


class Column(NamedTuple):
    """A column: its type in ClickHouse and in DuckDB, and its value of a record."""

    name: str
    clickhouse: str
    duckdb: str
    value: Callable[[Record], Any]


def _time(at: Instant | None) -> datetime | None:
    return None if at is None else to_datetime(at)


_MOMENT = ("DateTime64(6, 'UTC')", "TIMESTAMP")
_MOMENT_OR_NOT = ("Nullable(DateTime64(6, 'UTC'))", "TIMESTAMP")
_SPAN = ("Nullable(Float64)", "DOUBLE")
_WORD = ("LowCardinality(String)", "VARCHAR")
_WORD_OR_NOT = ("LowCardinality(Nullable(String))", "VARCHAR")
_COUNT = ("UInt16", "USMALLINT")

COLUMNS: tuple[Column, ...] = (
    Column("id", "UUID", "UUID", lambda record: record.id),
    Column("tenant", *_WORD, lambda record: record.tenant),
    Column("job_id", "UUID", "UUID", lambda record: record.job_id),
    Column("job", *_WORD, lambda record: record.job),
    Column("step", *_WORD_OR_NOT, lambda record: record.step),
    Column("version", "UInt32", "UINTEGER", lambda record: record.version),
    Column("pool", *_WORD, lambda record: record.pool),
    Column("handler", *_WORD, lambda record: record.handler),
    Column("trigger", *_WORD, lambda record: record.trigger.name.lower()),
    Column("state", *_WORD, lambda record: record.state.name),
    Column("skip_reason", *_WORD_OR_NOT, lambda record: None if record.skip_reason is None else record.skip_reason.name.lower()),
    Column("attempts", *_COUNT, lambda record: record.attempts),
    Column("failed", *_COUNT, lambda record: record.failed),
    Column("timed_out", *_COUNT, lambda record: record.timed_out),
    Column("lost", *_COUNT, lambda record: record.lost),
    Column("released", *_COUNT, lambda record: record.released),
    Column("scheduled_at", *_MOMENT, lambda record: _time(record.scheduled_at)),
    Column("due_at", *_MOMENT, lambda record: _time(record.due_at)),
    Column("created_at", *_MOMENT, lambda record: _time(record.created_at)),
    Column("started_at", *_MOMENT_OR_NOT, lambda record: _time(record.started_at)),
    Column("finished_at", *_MOMENT, lambda record: _time(record.finished_at)),
    Column("lateness_ms", *_SPAN, lambda record: record.lateness_ms),
    Column("wait_ms", *_SPAN, lambda record: record.wait_ms),
    Column("run_ms", *_SPAN, lambda record: record.run_ms),
    Column("error_type", *_WORD_OR_NOT, lambda record: record.error_type),
    Column("error_message", "Nullable(String)", "VARCHAR", lambda record: record.error_message),
)
NAMES = tuple(column.name for column in COLUMNS)


def values_of(record: Record) -> list[Any]:
    """A record as a row."""
    return [column.value(record) for column in COLUMNS]


def table(name: str) -> str:
    """How ClickHouse is told to make the table.

    The key is of what never changes of an execution, so what was written twice is one row: at the next merge, and at once for who
    reads with FINAL, as the queries do.
    """
    columns = ",\n    ".join(f"{column.name} {column.clickhouse}" for column in COLUMNS)
    return (
        f"CREATE TABLE IF NOT EXISTS {name} (\n    {columns}\n) ENGINE = ReplacingMergeTree\n"
        "PARTITION BY toYYYYMM(finished_at)\nORDER BY (job_id, finished_at, id)"
    )
