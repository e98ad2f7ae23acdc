"""The questions are answered by ClickHouse's own engine and by DuckDB over files, and both answer what plain Python counts."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import clickhouse_connect
import duckdb
import pytest

from duly.adapters.clickhouse.columns import NAMES
from duly.adapters.clickhouse.parquet import DayFile, ask_files
from duly.adapters.clickhouse.queries import Answer, Asked, questions
from duly.adapters.clickhouse.server import ClickHouse, parse_address
from duly.domain.errors import Invalid, NotFound, Unavailable
from duly.domain.instants import DAY, HOUR, to_datetime
from duly.domain.lifecycle import State
from duly.domain.records import Record
from tests.analytics.records import END, START, history

EVERYTHING = Asked(START, END + DAY, most=10_000)


@pytest.fixture
async def clickhouse() -> AsyncIterator[ClickHouse]:
    """ClickHouse itself, in this process: the same client and the same SQL as with a server."""
    server = ClickHouse(lambda: clickhouse_connect.get_client(interface="chdb"))
    await server._call(lambda client: client.command("DROP TABLE IF EXISTS duly_executions"))
    await server.prepare()
    yield server
    await server.close()


def written(directory: Path, records: Sequence[Record]) -> None:
    for day in sorted({record.due_at // DAY for record in records}):
        file = DayFile(directory, f"{to_datetime(day * DAY):%Y-%m-%d}")
        file.add(record for record in records if record.due_at // DAY == day)
        file.keep()


def plain(value: Any) -> Any:
    """Engines differ in how exact a sum of floats is and in how a time says that it is UTC, and in nothing else."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    return round(value, 6) if isinstance(value, float) else value


def compared(answer: Answer) -> tuple[list[str], list[tuple[Any, ...]]]:
    return answer.columns, [tuple(plain(value) for value in row) for row in answer.rows]


def as_dicts(answer: Answer) -> list[dict[str, Any]]:
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


async def test_both_engines_answer_every_question_alike(clickhouse: ClickHouse, tmp_path: Path) -> None:
    records = history()
    await clickhouse.prepare()
    await clickhouse.write(records)
    written(tmp_path, records)

    for name in questions():
        for asked in (EVERYTHING, Asked(START + HOUR, START + 2 * DAY, "acme", 5)):
            ours = compared(await clickhouse.ask(name, asked))

            assert ours[1], name
            assert ours == compared(ask_files(tmp_path, name, asked)), name


async def test_what_was_written_twice_counts_once(clickhouse: ClickHouse) -> None:
    records = history(50)

    await clickhouse.write(records)
    await clickhouse.write(records[10:])
    answers = as_dicts(await clickhouse.ask("tenants", EVERYTHING))

    assert sum(row["executions"] for row in answers) == 50
    assert {row["tenant"]: row["executions"] for row in answers} == Counter(record.tenant for record in records)


def test_the_answers_are_what_one_would_count(tmp_path: Path) -> None:
    records = history()
    written(tmp_path, records)

    hours = as_dicts(ask_files(tmp_path, "throughput", EVERYTHING))
    (slow, *_) = as_dicts(ask_files(tmp_path, "slowest", EVERYTHING))
    failures = as_dicts(ask_files(tmp_path, "failures", EVERYTHING))
    waits = {row["pool"]: row for row in as_dicts(ask_files(tmp_path, "waits", EVERYTHING))}
    retries = as_dicts(ask_files(tmp_path, "retries", EVERYTHING))

    assert sum(row["executions"] for row in hours) == len(records)
    assert sum(row["dead"] for row in hours) == sum(record.state is State.DEAD for record in records)
    assert [row["hour"] for row in hours] == sorted({row["hour"] for row in hours}, reverse=True)
    ran = [
        record.run_ms for record in records if (record.tenant, record.job) == (slow["tenant"], slow["job"]) and record.run_ms is not None
    ]
    assert slow["p50_ms"] == pytest.approx(statistics.median(ran))
    assert slow["total_s"] == pytest.approx(sum(ran) / 1000)
    assert sum(row["failed_attempts"] for row in failures) == sum(record.failed for record in records)
    assert {row["example"] for row in failures} == {"no such table"}
    assert waits["gpu"]["max_ms"] == max(record.wait_ms or 0 for record in records if record.pool == "gpu")
    assert sum(row["recovered"] for row in retries) == sum(record.failed > 0 and record.state is State.SUCCEEDED for record in records)


def test_a_day_s_file_replaces_the_one_before_it_whole_or_not_at_all(tmp_path: Path) -> None:
    records = history(20)
    written(tmp_path, records[:10])
    begun = DayFile(tmp_path, f"{to_datetime(START):%Y-%m-%d}")
    begun.add(records[:15])

    counted = as_dicts(ask_files(tmp_path, "tenants", EVERYTHING))
    begun.drop()
    left = list(tmp_path.rglob("*.*"))
    written(tmp_path, records)

    assert sum(row["executions"] for row in counted) == 10
    assert [path.name for path in left] == ["executions.parquet"]
    assert sum(row["executions"] for row in as_dicts(ask_files(tmp_path, "tenants", EVERYTHING))) == 20


def test_a_file_has_every_column_with_a_type_of_its_own(tmp_path: Path) -> None:
    written(tmp_path, history(20))

    with duckdb.connect() as connection:
        found = connection.read_parquet(str(next(tmp_path.rglob("*.parquet"))))
        types = dict(zip(found.columns, map(str, found.types), strict=True))

    assert tuple(types) == (*NAMES, "day")
    assert (types["id"], types["finished_at"], types["run_ms"], types["attempts"]) == ("UUID", "TIMESTAMP", "DOUBLE", "USMALLINT")


def test_a_question_that_nobody_knows_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="throughput") as refused:
        ask_files(tmp_path, "weather", EVERYTHING)

    assert refused.value.code == "DULY-E631"


def test_an_empty_directory_says_how_to_fill_it(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="duly export --parquet") as refused:
        ask_files(tmp_path, "waits", EVERYTHING)

    assert refused.value.code == "DULY-E632"


async def test_a_server_that_is_away_is_unavailable() -> None:
    nobody = ClickHouse(parse_address("clickhouse://127.0.0.1:9", "DULY_ANALYTICS").connect)

    with pytest.raises(Unavailable) as refused:
        await nobody.prepare()

    assert refused.value.code == "DULY-E531"
    await nobody.close()


def test_an_address_is_read_and_its_password_is_not_repeated() -> None:
    address = parse_address("clickhouses://ann:p%40ss@ch.example.com/metrics", "DULY_ANALYTICS")

    assert (address.host, address.port, address.user, address.password, address.database, address.secure) == (
        "ch.example.com",
        8443,
        "ann",
        "p@ss",
        "metrics",
        True,
    )
    assert "p@ss" not in repr(address)


@pytest.mark.parametrize("text", ["http://host/db", "clickhouse://", "clickhouse://u:hunter22@host:x/db", "clickhouse://host/db?a=b"])
def test_an_address_that_is_none_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(Invalid, match="For example") as refused:
        parse_address(text, "DULY_ANALYTICS")

    assert refused.value.code == "DULY-E601"
    assert "hunter22" not in str(refused.value)
