"""The forecast beside a small run in earnest: what came up and what it left behind, not how fast that was."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.capacity import Herd, Seen, compare, foretell, run
from benchmarks.harness import Scratch, opened
from duly.domain.capacity.costs import COSTS, PoolSize
from duly.domain.instants import SECOND

# Each fires once: what a slow machine is late with is not made up for, and would be missing.
MIX = (
    Herd("steady", jobs=40, every=8 * SECOND, lasts=20_000, size=PoolSize(1, 10), spread=True),
    Herd("herd", jobs=500, every=8 * SECOND, lasts=0, size=PoolSize(1, 50)),
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_small_run_is_foretold(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path / 'bench.db'}" if kind == "sqlite" else request.getfixturevalue("postgres_dsn")
    store = Scratch(kind, url, tmp_path)
    async with opened(store) as node:
        seen = await run(store, node, MIX, 8 * SECOND)
        begin = node.clock.now()

    foretold = foretell(COSTS[kind], MIX, 2.0, begin, 8 * SECOND)

    assert seen.executions == foretold.due == 540
    assert all(late >= 0 for pool in seen.late.values() for late in pool), "nothing starts early"
    assert {pool: len(late) for pool, late in seen.late.items()} == {pool.pool: pool.fires - pool.skipped for pool in foretold.pools}
    assert 0.4 < foretold.due * COSTS[kind].execution_disk / seen.disk < 2.5


def test_what_is_too_far_off_is_told_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    costs = COSTS["postgres"]
    foretold = foretell(costs, MIX, 2.0, 0, 8 * SECOND)
    log = foretold.log * 8
    disk = foretold.due * costs.execution_disk
    late = {pool.pool: [pool.p50] * 100 for pool in foretold.pools}
    depth = {pool.pool: pool.deepest for pool in foretold.pools}

    assert compare("postgres", foretold, Seen(late, depth, 540, log, disk), costs.execution_disk)
    assert not compare("postgres", foretold, Seen(late, depth, 540, log, 2 * disk), costs.execution_disk)
    assert not compare("postgres", foretold, Seen(late, depth, 700, log, disk), costs.execution_disk)
    assert not compare("postgres", foretold, Seen({**late, "herd": [SECOND] * 100}, depth, 540, log, disk), costs.execution_disk)
    assert '"near": false' in capsys.readouterr().out
