"""What one fire, claim or finish costs, and what there is to pay with.

A write costs something for its batch and something for each row in it, on the database and in the process that asks for it. `round` is how
long a batch of one takes while nobody else wants anything: the network, the commit, the wake-up. The figures that come with Duly were
measured by `python -m benchmarks.capacity`; `duly capacity --costs FILE` takes those of another machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from duly.domain.errors import Invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCost:
    """One kind of write: microseconds of a processor, microseconds of waiting, bytes of the database's log."""

    # For each row: in the database, and in the process that asks.
    row_database: float
    row_process: float
    # For each transaction, however many rows it has.
    batch_database: float
    batch_process: float
    round: float
    row_log: float
    batch_log: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCosts:
    """Everything that a simulation needs to know about one engine on one kind of machine."""

    engine: str
    measured_on: str
    fire: WriteCost
    enqueue: WriteCost
    claim: WriteCost
    finish: WriteCost
    # Bytes at rest, indexes included: of one execution with its outcome, of one failed attempt, of one job with its schedule.
    execution_disk: float
    attempt_disk: float
    job_disk: float
    # Connections that one process opens at most, by what it is.
    server_connections: int
    worker_connections: int
    # What a process costs that has nothing to do: commits and bytes of log in a second.
    idle_commits: float
    idle_log: float


@dataclass(frozen=True, slots=True)
class PoolSize:
    """So many worker processes with so many slots each."""

    workers: int
    slots: int

    def __post_init__(self) -> None:
        if not (0 <= self.workers <= 1_000_000 and 0 <= self.slots <= 1_000_000):
            raise Invalid("DULY-E283", "workers and slots are numbers from 0 to 1,000,000.", field="pools")

    @property
    def total(self) -> int:
        """All slots of the pool."""
        return self.workers * self.slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What runs it all. With `one_machine` the database, the servers and the workers share `database_cores`."""

    pools: dict[str, PoolSize] = field(default_factory=dict)
    servers: int = 1
    database_cores: float = 4
    worker_cores: float = 4
    one_machine: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.servers <= 1000:
            raise Invalid("DULY-E283", "there are between 1 and 1,000 servers.", field="servers")
        if not (0 < self.database_cores <= 10_000 and 0 < self.worker_cores <= 100_000):
            raise Invalid("DULY-E283", "cores are more than 0 and at most 10,000 (database) or 100,000 (workers).", field="cores")

    @property
    def processes(self) -> int:
        """All processes that ask the database."""
        return self.servers + sum(size.workers for size in self.pools.values())


# Preliminary: from runs on a busy machine, so processor time is rather too much than too little; rounds are those of a quiet one
# (docs/decisions/0005-first-figures.md). The log of a fire that comes alone varied from 3 to 9 kB between runs; the least is taken here.
POSTGRES = UnitCosts(
    engine="postgres",
    measured_on="2 virtual cores (AMD EPYC), Python 3.11, PostgreSQL 15 on the same machine, fsync on",
    fire=WriteCost(row_database=28, row_process=21, batch_database=2900, batch_process=1800, round=2800, row_log=820, batch_log=3300),
    enqueue=WriteCost(row_database=8, row_process=15, batch_database=100, batch_process=1300, round=1300, row_log=504, batch_log=50),
    claim=WriteCost(row_database=8.5, row_process=7, batch_database=670, batch_process=900, round=1700, row_log=190, batch_log=205),
    finish=WriteCost(row_database=8.5, row_process=7, batch_database=670, batch_process=900, round=1700, row_log=190, batch_log=205),
    execution_disk=325,
    attempt_disk=279,
    job_disk=1775,
    server_connections=18,
    worker_connections=18,
    idle_commits=14,
    idle_log=4000,
)
SQLITE = UnitCosts(
    engine="sqlite",
    measured_on="2 virtual cores (AMD EPYC), Python 3.11, SQLite 3, synchronous=FULL",
    fire=WriteCost(row_database=0, row_process=140, batch_database=0, batch_process=6500, round=3300, row_log=900, batch_log=35000),
    enqueue=WriteCost(row_database=0, row_process=33, batch_database=0, batch_process=1200, round=1300, row_log=250, batch_log=17000),
    claim=WriteCost(row_database=0, row_process=14, batch_database=0, batch_process=1500, round=11000, row_log=106, batch_log=21000),
    finish=WriteCost(row_database=0, row_process=14, batch_database=0, batch_process=1500, round=11000, row_log=106, batch_log=21000),
    execution_disk=209,
    attempt_disk=540,
    job_disk=2050,
    server_connections=0,
    worker_connections=0,
    idle_commits=0,
    idle_log=30000,
)
COSTS = {costs.engine: costs for costs in (POSTGRES, SQLITE)}
