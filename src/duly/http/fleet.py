"""Workers, pools and counts."""

from __future__ import annotations

from duly.domain.access import Role
from duly.http.routing import Call, Reply, route
from duly.usecases.inspect import Pool
from duly.wire.fleet import LastHourView, PoolView, StatsView, WorkerView
from duly.wire.shapes import Page, shown


@route("GET", "/v1/workers", role=Role.VIEWER, answer=Page[WorkerView])
async def list_workers(call: Call) -> Reply:
    """Live workers, and lost ones of the last hour"""
    fleet = call.services.fleet
    views = [
        WorkerView(
            worker_id=str(worker.id),
            name=worker.name,
            state="LOST" if not fleet.is_live(worker) else "DRAINING" if worker.about.draining else "LIVE",
            pool=worker.about.pool,
            labels=worker.about.labels,
            handlers=worker.about.handlers,
            slots=worker.about.slots,
            running=worker.running,
            host=worker.about.host,
            pid=worker.about.pid,
            version=worker.about.version,
            started_at=shown(worker.started_at) or "",
            expires_at=shown(worker.expires_at) or "",
            clock_skew_ms=None if worker.about.skew is None else worker.about.skew / 1000,
        )
        for worker in await fleet.workers(call.actor)
    ]
    return Reply(Page(items=views))


@route("GET", "/v1/pools", role=Role.VIEWER, answer=Page[PoolView])
async def list_pools(call: Call) -> Reply:
    """Pools that have a live worker or ready work"""
    return Reply(Page(items=[_pool_view(pool) for pool in await call.services.fleet.pools(call.actor)]))


@route("GET", "/v1/stats", role=Role.VIEWER, answer=StatsView)
async def show_stats(call: Call) -> Reply:
    """Where the jobs and executions of the key's tenant stand, counted"""
    counts = await call.services.fleet.counts(call.actor)
    return Reply(
        StatsView(
            jobs={state.name: count for state, count in counts.jobs.items()},
            executions={state.name: count for state, count in counts.executions.items()},
            workers=counts.workers,
            pools=[_pool_view(pool) for pool in counts.pools],
            last_hour=LastHourView(
                since=shown(counts.lately.since) or "",
                executions=counts.lately.executions,
                fires=counts.lately.fires,
                ended={state.name: count for state, count in sorted(counts.lately.ended.items())},
            ),
            version=call.services.version,
        )
    )


def _pool_view(pool: Pool) -> PoolView:
    return PoolView(
        pool=pool.name,
        workers=pool.workers,
        slots=pool.slots,
        pending=pool.pending,
        running=pool.running,
        oldest_pending_at=shown(pool.oldest_rank),
    )


ROUTES = [list_workers, list_pools, show_stats]
