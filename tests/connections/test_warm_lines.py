"""Lines that know what they are asked: whatever is due must not wait for a statement to be parsed and planned anew."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from duly.adapters.sql.engine import Lane
from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.adapters.sql.postgres import lines


async def test_a_statement_goes_to_a_line_that_has_been_sent_it_before(postgres_dsn: str) -> None:
    engine = PostgresEngine(postgres_dsn)
    pool = engine._pools[Lane.CLAIM]
    async with pool.connection("one") as first, pool.connection("two") as second:
        pass
    found: list[Any] = []
    for text in ("one", "two", "one", "two"):
        async with pool.connection(text) as line:
            found.append(line)
    async with pool.connection("three") as third:
        pass

    await engine.close()
    assert found == [first, second, first, second]
    assert third in (first, second)


async def test_what_an_array_is_made_of_is_asked_once_for_all_lines(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []
    ask = asyncpg.Connection._introspect_types  # type: ignore[attr-defined]

    async def counted(self: Any, numbers: Any, timeout: Any) -> Any:
        asked.append(sorted(numbers))
        return await ask(self, numbers, timeout)

    monkeypatch.setattr(lines, "_known_types", {})
    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", counted)
    engine = PostgresEngine(postgres_dsn)
    pool = engine._pools[Lane.GENERAL]
    sql = "SELECT $1::bigint[] AS numbers, $2::text[] AS words, $3::uuid[] AS ids"
    async with pool.connection() as first, pool.connection() as second:
        answers = [await line.fetchrow(sql, [1, 2], ["a"], []) for line in (first, second, first, second)]
        await first.execute("CREATE TYPE public.mood AS ENUM ('glad')")
        moods = [await line.fetchval("SELECT ARRAY['glad'::public.mood]") for line in (first, second)]
        await first.execute("DROP TYPE public.mood")

    await engine.close()
    assert [tuple(answer) for answer in answers] == [([1, 2], ["a"], [])] * 4
    assert moods == [["glad"]] * 2
    # Types that somebody made are asked for on each line: elsewhere their numbers mean something else.
    assert len([numbers for numbers in asked if max(numbers) < lines.FIRST_UNSURE_TYPE]) == 1
    assert len([numbers for numbers in asked if max(numbers) >= lines.FIRST_UNSURE_TYPE]) == 2


async def test_after_a_dead_line_the_next_ones_are_kept_again(postgres_dsn: str) -> None:
    engine = PostgresEngine(postgres_dsn)
    pool = engine._pools[Lane.CLAIM]
    async with pool.connection() as before:
        pass
    engine._watch.distrust_idle()
    found: list[Any] = []
    for _ in range(3):
        async with pool.connection() as line:
            found.append(line)

    await engine.close()
    assert before.is_closed()
    assert found == [found[0]] * 3
