"""The alert of a job on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, field

from duly.domain.instants import SECOND, Micros
from duly.wire.shapes import NO_NUL, CalendarName, Shape, Text

if TYPE_CHECKING:
    from duly.domain.alerts.of_job import JobAlert

Patience = Annotated[float, Meta(gt=0, le=31 * 86_400)]


class JobAlertShape(Shape, kw_only=True):
    """What is told about the job, and to which channels. Each condition is a rule that lives with the job."""

    failed: bool = False
    failures: Annotated[int, Meta(ge=1, le=50)] | None = None
    late_after_sec: Patience | None = None
    missed_after_sec: Patience | None = None
    overrun_after_sec: Patience | None = None
    overrun: bool = False
    no_success_in_sec: Patience | None = None
    to: Annotated[list[CalendarName], Meta(max_length=20)] = field(default_factory=list)
    grace_sec: Annotated[float, Meta(ge=0, le=86_400)] = 0
    recovery_runs: Annotated[int, Meta(ge=1, le=50)] = 1
    calendars: Annotated[list[CalendarName], Meta(max_length=8)] = field(default_factory=list)
    owner: Text | None = None
    note: Annotated[str, Meta(max_length=1000, extra_json_schema=NO_NUL)] | None = None


def alert_shape(alert: JobAlert | None) -> JobAlertShape | None:
    """As it is read, and may be sent again."""
    if alert is None:
        return None
    return JobAlertShape(
        failed=alert.failed,
        failures=alert.failures,
        late_after_sec=_seconds(alert.late_after),
        missed_after_sec=_seconds(alert.missed_after),
        overrun_after_sec=_seconds(alert.overrun_after),
        overrun=alert.overrun,
        no_success_in_sec=_seconds(alert.no_success_in),
        to=list(alert.to),
        grace_sec=alert.grace / SECOND,
        recovery_runs=alert.recovery_runs,
        calendars=list(alert.calendars),
        owner=alert.owner,
        note=alert.note,
    )


def _seconds(micros: Micros | None) -> float | None:
    return None if micros is None else micros / SECOND
