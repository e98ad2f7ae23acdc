"""Workers, pools and counts on the wire."""

from __future__ import annotations

from msgspec import field

from duly.wire.shapes import View


class WorkerView(View, kw_only=True):
    """One worker process: alive until `expiresAt` unless it renews. `clockSkewMs`: how far its clock is ahead of the store's."""

    worker_id: str
    name: str
    state: str
    pool: str
    labels: dict[str, str]
    handlers: list[str]
    slots: int
    running: int
    host: str
    pid: int
    version: str
    started_at: str
    expires_at: str
    clock_skew_ms: float | None = None


class PoolView(View, kw_only=True):
    """A pool: how much waits, how much runs, who serves it."""

    pool: str
    workers: int
    slots: int
    pending: int
    running: int
    oldest_pending_at: str | None


class LastHourView(View, kw_only=True):
    """What came up in the last hour: fires and all executions, and how those ended that have ended.

    Of very many the newest are looked at; `from` says since when the figures are complete.
    """

    since: str = field(name="from")
    executions: int
    fires: int
    ended: dict[str, int]


class StatsView(View, kw_only=True):
    """Where everything stands, counted.

    A count ends at 1,000,000, and then means "at least". DEAD are the tenant's among the newest 10,000 of all, those that were replayed or
    discarded as well; `GET /v1/dead-letters` has those that nobody has dealt with.
    """

    jobs: dict[str, int]
    executions: dict[str, int]
    workers: int
    pools: list[PoolView]
    last_hour: LastHourView
    version: str


class HealthView(View, kw_only=True):
    """Whether the process lives (healthz) or can serve (readyz)."""

    status: str


class VersionView(View, kw_only=True):
    """What runs here."""

    version: str
