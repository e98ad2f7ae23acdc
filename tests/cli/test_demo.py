"""`duly dev --demo`: a shop that has a past, on a store that goes on from there."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from duly import compose, config
from duly.cli.demo import past, run
from duly.cli.demo.shop import app
from duly.cli.main import main
from duly.domain.ids import job_text
from duly.domain.lifecycle import State


def test_the_shop_has_forty_jobs_of_many_kinds() -> None:
    specs = {name: job.spec for name, job in app.declared.items()}

    assert len(specs) == 40
    assert len(app.workflows) == 3
    assert {spec.overlap.policy.value for spec in specs.values()} >= {"skip", "queue_one"}
    assert {spec.target.pool for spec in specs.values()} == {"default", "gpu"}
    assert any(spec.retry.max_attempts > 1 for spec in specs.values())
    # 02:30 in Berlin is there twice in autumn and not at all in spring.
    assert getattr(specs["nightly-report"].timing, "cron", "") == "30 2 * * *"


async def test_its_past_is_in_the_store_and_the_same_jobs_go_on_from_there(tmp_path: Path) -> None:
    settings = config.load(home=str(tmp_path), store=run.store_url(tmp_path))
    for node in await compose.open_nodes(settings):
        await node.close()
    until = datetime(2026, 6, 3, 10, 40, tzinfo=UTC)

    count = past.live_through(app, timedelta(minutes=40), tmp_path / run.FILE, until=until)

    with closing(sqlite3.connect(tmp_path / run.FILE)) as store:
        states = {State(state) for (state,) in store.execute("SELECT DISTINCT state FROM outcomes")}
        (shards,) = store.execute("SELECT count(*) FROM shards").fetchone()
        before = {(_shown(id), version) for id, version in store.execute("SELECT id, version FROM jobs")}
        assert store.execute("PRAGMA foreign_key_check").fetchall() == []
    assert count > 100
    assert {State.SUCCEEDED, State.DEAD} <= states
    assert shards > 1
    # Published again, nothing is new: the history is that of the jobs which run from now on.
    node = (await compose.open_nodes(settings))[0]
    try:
        await compose.node.publish(app, node)
    finally:
        await node.close()
        await app.close()
    with closing(sqlite3.connect(tmp_path / run.FILE)) as store:
        assert {(_shown(id), version) for id, version in store.execute("SELECT id, version FROM jobs")} == before


def _shown(id: bytes) -> str:
    return job_text(UUID(bytes=id))


@pytest.mark.parametrize("words", [["shop:app"], ["--store", "sqlite:///x.db"], ["--home", "x"]])
def test_the_demo_has_its_own_jobs_and_its_own_store(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dev", "--demo", *words]) == 2

    assert "contradict one another" in capsys.readouterr().err
