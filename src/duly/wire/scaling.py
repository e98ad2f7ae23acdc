"""How many workers a pool should have, on the wire: plain numbers, for what reads them by their names."""

from __future__ import annotations

from duly.domain.scaling import Goal, Load, recommended
from duly.wire.shapes import View


class ScalingView(View, kw_only=True):
    """What a pool has to do, and how many workers of `slotsPerWorker` slots would do that within `targetWaitSec`."""

    pool: str
    pending: int
    running: int
    oldest_wait_sec: float
    arrivals_per_sec: float
    mean_run_sec: float | None
    workers: int
    slots: int
    target_wait_sec: float
    slots_per_worker: int
    recommended_replicas: int


def scaling_view(pool: str, load: Load, goal: Goal) -> ScalingView:
    """A load as the wire has it."""
    return ScalingView(
        pool=pool,
        pending=load.pending,
        running=load.running,
        oldest_wait_sec=round(load.oldest_wait, 3),
        arrivals_per_sec=round(load.arrivals, 3),
        mean_run_sec=None if load.mean_run is None else round(load.mean_run, 6),
        workers=load.workers,
        slots=load.slots,
        target_wait_sec=goal.target_wait,
        slots_per_worker=goal.slots_per_worker,
        recommended_replicas=recommended(load, goal),
    )
