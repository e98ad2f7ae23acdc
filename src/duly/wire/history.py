"""What happened, minute by minute, on the wire."""

from __future__ import annotations

from msgspec import field

from duly.domain.history import Minute
from duly.domain.instants import MINUTE, to_rfc3339
from duly.wire.shapes import View


class MinuteStatsView(View, kw_only=True):
    """One minute: what ended in it, how late began what began in it (first attempts), and how many ran in it on average."""

    at: str
    ended: dict[str, int]
    lateness_p50_ms: float | None
    lateness_p95_ms: float | None
    lateness_p99_ms: float | None
    running: float


class HistoryView(View, kw_only=True):
    """Minutes in order. Of very many executions the newest are looked at; `from` says since when the figures are complete."""

    since: str = field(name="from")
    until: str
    minutes: list[MinuteStatsView]
    lateness_p95_ms: float | None


def minute_view(minute: Minute) -> MinuteStatsView:
    """A minute as the API answers it."""
    return MinuteStatsView(
        at=to_rfc3339(minute.at),
        ended={state.name: count for state, count in sorted(minute.ended.items())},
        lateness_p50_ms=milliseconds(minute.lateness_at(0.5)),
        lateness_p95_ms=milliseconds(minute.lateness_at(0.95)),
        lateness_p99_ms=milliseconds(minute.lateness_at(0.99)),
        running=round(minute.busy / MINUTE, 3),
    )


def milliseconds(micros: int | None) -> float | None:
    """As the wire has spans."""
    return None if micros is None else micros / 1000
