"""Graphile Worker: the bar. It deletes what it has done and keeps no history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from benchmarks.peers.system import OnNode, OnPostgres, Setting

BATCHED = {"CONCURRENT_JOBS": "100", "POOL": "20", "LOCAL_QUEUE": "1000", "BATCH_DELAY_MS": "0"}


class Graphile(OnNode, OnPostgres):
    """With `localQueue` and batched completion it is thirty times as fast as without."""

    name = module = "graphile"
    title = "Graphile Worker"
    package = "graphile-worker"
    default = Setting(name="default", about=1_100)
    best = Setting(name="2 processes, concurrentJobs 100, localQueue 1000, batched", about=45_000, processes=2, options=BATCHED)
    prompt = Setting(
        name="concurrentJobs 10, pollInterval 100", about=3_000, options={"CONCURRENT_JOBS": "10", "POOL": "12", "POLL_MS": "100"}
    )
    special: ClassVar[Mapping[str, Setting]] = {
        # Retries become due; the default looks for them every two seconds.
        "failures": Setting(name=f"{best.name}, pollInterval 100", about=20_000, processes=2, options={**BATCHED, "POLL_MS": "100"}),
        # Its named queues run one job at a time each, which a tenant does not ask for: both ways are measured.
        "tenants-queues": Setting(
            name=f"{best.name}, a queue per tenant", about=5_000, processes=2, options={**BATCHED, "QUEUES": "tenant"}
        ),
    }
    unsettled = "SELECT 1 FROM graphile_worker._private_jobs WHERE attempts < max_attempts OR locked_at IS NOT NULL LIMIT 1"
