"""From an execution's end to an answer: the store, the exporter and ClickHouse's own engine together."""

from __future__ import annotations

import clickhouse_connect

from duly.adapters.clickhouse.queries import Asked
from duly.adapters.clickhouse.server import ClickHouse
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine
from duly.domain.instants import DAY
from duly.domain.lifecycle import Outcome
from duly.domain.retry import RetryPolicy
from duly.roles.exporter import Exporter, ExporterSettings
from tests.conformance.world import World
from tests.services.databases import in_memory


async def test_what_has_run_is_what_clickhouse_counts_however_often_it_was_sent() -> None:
    world = World(await in_memory(InlineSqliteEngine()))
    sink = ClickHouse(lambda: clickhouse_connect.get_client(interface="chdb"), "exported_here")
    await sink.prepare()
    await sink._call(lambda client: client.command("TRUNCATE TABLE exported_here"))
    exporter = Exporter("me", world.store.records, sink, ExporterSettings(batch=2))
    await world.enqueue(await world.job("fine"), 5)
    await world.run()

    while (await exporter.step(world.now)).did["exported"]:
        pass
    await world.enqueue(await world.job("bad", retry=RetryPolicy(max_attempts=1)), 3)
    await world.run(Outcome.FAILED)
    # It was written, and whoever wrote it died before he could say so.
    await sink.write((await world.store.records.unexported(100)).records)
    while (await exporter.step(world.now)).did["exported"]:
        pass
    answer = await sink.ask("throughput", Asked(world.now - DAY, world.now + DAY))

    ((_, executions, succeeded, dead, cancelled, skipped),) = answer.rows
    assert (executions, succeeded, dead, cancelled, skipped) == (8, 5, 3, 0, 0)
    await sink.close()
    await world.engine.close()
