"""The store counts on where others stop: past 2038, past the leap day that 2100 does not have."""

from __future__ import annotations

import pytest

from duly.adapters.sql.engine import Engine
from duly.domain.instants import DAY, SECOND, from_rfc3339
from duly.domain.lifecycle import State
from tests.conformance.world import World


@pytest.mark.parametrize("moment", ["2038-01-19T03:14:07Z", "2100-02-28T23:59:59Z", "2106-02-07T06:28:15Z"])
async def test_jobs_fire_run_and_end_across_the_moment(engine: Engine, moment: str) -> None:
    world = World(engine, now=from_rfc3339(moment) - SECOND)
    job = await world.job(every=SECOND)
    [later] = await world.enqueue(job, due_in=2 * SECOND)

    for _ in range(4):
        await world.fire()
        await world.promote()
        await world.run()
        world.turn(SECOND)

    shown = await world.of_job(job)
    assert len(shown) == 5
    assert {one.state for one in shown} == {State.SUCCEEDED}
    assert await world.state(later) is State.SUCCEEDED
    fired = sorted(one.due_at for one in shown if one.id != later)
    assert [at - fired[0] for at in fired] == [0, SECOND, 2 * SECOND, 3 * SECOND]
    await world.store.retention.prepare(world.now, DAY)
