"""A dispatcher as a process of its own: fires what is due at each of some hand-turned minutes, and prints how much that was.

`python -m tests.conformance.dispatch_process FILE MINUTES`
"""

from __future__ import annotations

import asyncio
import sys

from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.domain.instants import MINUTE
from tests.conformance.world import World


async def main(path: str, minutes: int) -> None:
    world = World(SqliteEngine(path))
    # Whoever else dispatches holds the same epochs: only the compare-and-set stands between the two.
    world.epochs = {lease.shard: lease.epoch for lease in await world.store.leases.shards()}
    print("ready", flush=True)
    sys.stdin.readline()
    fired = 0
    for _ in range(minutes):
        fired += (await world.fire()).fired
        world.turn(MINUTE)
    print(fired, flush=True)
    await world.engine.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
