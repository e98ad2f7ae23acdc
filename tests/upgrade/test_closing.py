"""After a clean stop the SQLite file is whole by itself: whoever copies it has everything."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from duly.adapters.sql.engine_sqlite import READERS, SqliteEngine

ROUNDS = 100


async def test_a_closed_store_leaves_nothing_beside_its_file(tmp_path: Path) -> None:
    # Two connections that close at the same moment each leave the log to the other: most rounds it went well.
    for number in range(ROUNDS):
        path = tmp_path / f"{number}.db"
        engine = SqliteEngine(str(path))
        await engine.script("CREATE TABLE kept (word TEXT);\nINSERT INTO kept VALUES ('whole')")
        await asyncio.gather(*(engine._submit(engine._reads, _words) for _ in range(10 * READERS)))

        await engine.close()

        assert [left.name for left in tmp_path.glob(f"{number}.db*")] == [path.name]
        with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as alone:
            assert _words(alone) == ["whole"]
        alone.close()


def _words(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT word FROM kept").fetchall()]
