"""The API's calls about who owns what; see `calls`."""

from __future__ import annotations

from duly.sdk.calls import Call, Request
from duly.wire.cluster import ClusterView, StoreHealthView


def show_cluster() -> Call[ClusterView]:
    """Dispatchers, the shards that they own, and what tells who is there."""
    return Call(Request("GET", "/v1/cluster"), ClusterView, True)


def show_store() -> Call[StoreHealthView]:
    """How the store fares, for administrators of the installation."""
    return Call(Request("GET", "/v1/cluster/store"), StoreHealthView, True)
