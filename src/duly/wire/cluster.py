"""Who owns what, on the wire."""

from __future__ import annotations

from duly.wire.shapes import View


class ClusterStoreView(View, kw_only=True):
    """The store: the one truth. `roundTripMs` is how long it took to say what time it is."""

    kind: str
    round_trip_ms: float


class LeaseServiceView(View, kw_only=True):
    """What tells who is there: the store's own leases, or a service beside them. While that is away, the store's leases tell."""

    kind: str
    is_reachable: bool
    members: list[str]
    trouble: str | None


class DispatcherView(View, kw_only=True):
    """A live dispatcher, how many shards it holds, how far its machine's clock is ahead of the store's, and which release of the time
    zones it computes with; null where it does not say.

    `isPresent` is whether the lease service knows of it; null where the store alone tells.
    """

    name: str
    host: str
    pid: int
    version: str
    expires_at: str
    shards: int
    is_present: bool | None
    clock_skew_ms: float | None
    tzdata: str | None = None


class ShardView(View, kw_only=True):
    """A shard, who holds it and under which epoch, until when, and when he last showed progress."""

    shard: int
    owner: str | None
    epoch: int
    lease_until: str | None
    progress_at: str | None


class TableHealthView(View, kw_only=True):
    """A table by the store's own statistics. Dead rows wait to be cleaned up."""

    name: str
    rows: int
    dead_rows: int
    bytes: int
    vacuumed_at: str | None


class StoreHealthView(View, kw_only=True):
    """How the store fares; null is what this kind of store does not have or does not tell.

    While a transaction of anybody on the server is open, what died since `oldestTransactionAt` cannot be cleaned up. `tables` are those
    with most to clean up.
    """

    kind: str
    bytes: int | None
    free_bytes: int | None
    connections: int | None
    most_connections: int | None
    oldest_transaction_at: str | None
    tables: list[TableHealthView]


class ClusterView(View, kw_only=True):
    """Who owns what at one moment, by the store's clock. `clockSkewMs` is that of the server that answers."""

    now: str
    clock_skew_ms: float | None
    store: ClusterStoreView
    lease_service: LeaseServiceView
    dispatchers: list[DispatcherView]
    shards: list[ShardView]
