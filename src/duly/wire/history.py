"""What happened, minute by minute, on the wire."""

from __future__ import annotations

from msgspec import field

from duly.domain.history import Change, Minute
from duly.domain.ids import job_text
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


class ChangeView(View, kw_only=True):
    """What was done to jobs within a minute (`job.change`, `job.pause` or `job.resume`): how many, and which if it was one."""

    at: str
    action: str
    jobs: int
    job_id: str | None
    job_name: str | None


class HistoryView(View, kw_only=True):
    """Minutes in order. Of very many executions the newest are looked at; `from` says since when the figures are complete."""

    since: str = field(name="from")
    until: str
    minutes: list[MinuteStatsView]
    changes: list[ChangeView]
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


def change_view(change: Change) -> ChangeView:
    """A change as the API answers it."""
    is_one = change.jobs == 1
    return ChangeView(
        at=to_rfc3339(change.at),
        action=change.action,
        jobs=change.jobs,
        job_id=job_text(change.job_id) if is_one else None,
        job_name=change.name if is_one else None,
    )


def milliseconds(micros: int | None) -> float | None:
    """As the wire has spans."""
    return None if micros is None else micros / 1000
