"""Who owns what."""

from __future__ import annotations

from collections import Counter

from duly.domain.access import Role
from duly.domain.instants import Micros
from duly.http.routing import Call, Reply, route
from duly.ports.store import DispatcherAbout
from duly.usecases.cluster import ClusterState
from duly.wire.cluster import (
    ClusterStoreView,
    ClusterView,
    DispatcherView,
    LeaseServiceView,
    ShardView,
    StoreHealthView,
    TableHealthView,
)
from duly.wire.shapes import shown


@route("GET", "/v1/cluster", role=Role.VIEWER, answer=ClusterView)
async def show_cluster(call: Call) -> Reply:
    """Dispatchers, the shards that they own, and what tells who is there"""
    return Reply(_view(await call.services.cluster.show(call.actor)))


@route("GET", "/v1/cluster/store", role=Role.ADMIN, answer=StoreHealthView)
async def show_store(call: Call) -> Reply:
    """How the store fares: size, connections, dead rows, the oldest transaction; other tenants than default learn the kind alone"""
    kind, found = await call.services.cluster.store(call.actor)
    return Reply(
        StoreHealthView(
            kind=kind,
            bytes=found.bytes,
            free_bytes=found.free_bytes,
            connections=found.connections,
            most_connections=found.most_connections,
            oldest_transaction_at=shown(found.oldest_transaction_at),
            tables=[
                TableHealthView(
                    name=table.name, rows=table.rows, dead_rows=table.dead, bytes=table.bytes, vacuumed_at=shown(table.vacuumed_at)
                )
                for table in found.tables
            ],
        )
    )


def _view(state: ClusterState) -> ClusterView:
    held = Counter(lease.owner for lease in state.shards)
    service = state.service
    return ClusterView(
        now=shown(state.now) or "",
        clock_skew_ms=_millis(state.skew),
        store=ClusterStoreView(kind=state.store.kind, round_trip_ms=state.store.took / 1000),
        lease_service=LeaseServiceView(
            kind=service.kind, is_reachable=service.is_reachable, members=list(service.members), trouble=service.trouble
        ),
        dispatchers=[
            DispatcherView(
                name=row.name,
                host=about.host,
                pid=about.pid,
                version=about.version,
                expires_at=shown(row.expires_at) or "",
                shards=held[row.name],
                is_present=None if service.kind == "store" or not service.is_reachable else row.name in service.members,
                clock_skew_ms=_millis(about.skew),
                tzdata=about.tzdata or None,
            )
            for row in state.dispatchers
            for about in [row.about or DispatcherAbout()]
        ],
        shards=[
            ShardView(
                shard=lease.shard,
                owner=lease.owner,
                epoch=lease.epoch,
                # Before anybody held it there is neither.
                lease_until=shown(lease.lease_until or None),
                progress_at=shown(lease.progress_at or None),
            )
            for lease in state.shards
        ],
    )


def _millis(micros: Micros | None) -> float | None:
    return None if micros is None else micros / 1000


ROUTES = [show_cluster, show_store]
