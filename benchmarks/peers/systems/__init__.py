"""Every system that is measured, Duly first."""

from __future__ import annotations

from benchmarks.peers.system import System
from benchmarks.peers.systems.apscheduler import Apscheduler, ApschedulerSqlite
from benchmarks.peers.systems.bullmq import Bullmq
from benchmarks.peers.systems.celery import Celery, CeleryBeat
from benchmarks.peers.systems.dbos import Dbos, DbosSqlite
from benchmarks.peers.systems.dramatiq import Dramatiq
from benchmarks.peers.systems.duly import Duly, DulySqlite
from benchmarks.peers.systems.graphile import Graphile
from benchmarks.peers.systems.huey import Huey, HueySqlite
from benchmarks.peers.systems.pgboss import Pgboss
from benchmarks.peers.systems.pgqueuer import Pgqueuer
from benchmarks.peers.systems.procrastinate import Procrastinate

SYSTEMS: tuple[System, ...] = (
    Duly(),
    DulySqlite(),
    Graphile(),
    Pgqueuer(),
    Pgboss(),
    Procrastinate(),
    Dbos(),
    Apscheduler(),
    Celery(),
    CeleryBeat(),
    Dramatiq(),
    Huey(),
    Bullmq(),
    ApschedulerSqlite(),
    DbosSqlite(),
    HueySqlite(),
)
