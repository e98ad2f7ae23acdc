"""No line stays open that nobody knows of any more."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from duly.adapters.sql.engine import Lane
from duly.adapters.sql.engine_postgres import PostgresEngine, translated
from duly.adapters.sql.postgres.lines import Line, Way
from duly.domain.errors import Unavailable


async def test_a_line_that_is_borrowed_while_its_store_closes_is_cut_when_it_comes_back(shared_dsn: str) -> None:
    engine = PostgresEngine(shared_dsn)

    async with engine._pools[Lane.GENERAL].connection() as line:
        await engine.close()
        assert not line.is_closed()

    assert line.is_closed()


@pytest.mark.parametrize("pooler", ["", "?pooler=session"])
async def test_a_line_whose_opening_is_given_up_is_cut(shared_dsn: str, pooler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: asyncio.Future[Line] = asyncio.get_running_loop().create_future()

    async def no_answer(line: Line, *words: Any, **more: Any) -> str:
        asked.set_result(line)
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(Line, "execute", no_answer)
    opening = asyncio.create_task(Way(shared_dsn + pooler).open("duly-test", {"statement_timeout": "1000"}))
    line = await asked
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)

    assert opening.cancelled()
    assert line.is_closed()


async def test_who_stood_still_in_a_transaction_is_told_that_the_store_was_away(shared_dsn: str) -> None:
    engine = PostgresEngine(shared_dsn)

    async def stand_still() -> None:
        with translated():
            async with engine._pools[Lane.GENERAL].connection() as line, line.transaction():
                await line.execute("SET LOCAL idle_in_transaction_session_timeout = '20ms'")
                # The whole process stands still, so nobody reads what the server says meanwhile.
                with psycopg.connect(shared_dsn, autocommit=True) as other:
                    while other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (line.get_server_pid(),)).fetchone():
                        pass
                await line.execute("SELECT 1")

    with pytest.raises(Unavailable):
        await stand_still()
    await engine.close()
