"""The preview of a schedule on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from duly.domain.choices import DstGap, DstOverlap, JobType, OnExcluded
from duly.wire.shapes import CalendarName, Moment, ScheduleText, Seconds, Shape, View, ZoneName


class TimingShape(Shape, kw_only=True):
    """When something fires. `type` may be left out when the schedule's own key says it."""

    type: JobType | None = None
    schedule: ScheduleText | None = None
    seconds: bool = False
    timezone: ZoneName | None = None
    dst_gap: DstGap = DstGap.RUN_AFTER
    dst_overlap: DstOverlap = DstOverlap.FIRST
    interval_sec: Annotated[float, Meta(ge=1, le=315_360_000)] | None = None
    anchor_at: Moment | None = None
    run_at: Moment | None = None
    delay_sec: Seconds | None = None
    start_at: Moment | None = None
    end_at: Moment | None = None
    calendars: Annotated[list[CalendarName], Meta(max_length=8)] = []
    on_excluded: OnExcluded = OnExcluded.SKIP
    jitter_sec: Annotated[float, Meta(ge=0, le=86_400)] = 0


class PreviewShape(TimingShape, kw_only=True):
    """A schedule to be explained; the same keys as in a job."""

    after: Moment | None = None
    count: Annotated[int, Meta(ge=1, le=1000)] = 10


class FireView(View, kw_only=True):
    """One future fire; `note` says what the clocks, a calendar or jitter do to it."""

    at: str
    local: str
    note: str | None


class JobFireView(FireView, kw_only=True):
    """One future fire of a job. `isSkipped`: somebody asked to skip it."""

    is_skipped: bool


class ExcludedView(View, kw_only=True):
    """A time that the schedule names and a calendar excludes: left out, or moved to another day."""

    at: str
    local: str
    reason: str


class PreviewView(View, kw_only=True):
    """A schedule in words, its next fires, what calendars exclude among them, and what to look out for."""

    words: str
    fires: list[FireView]
    warnings: list[str]
    excluded: list[ExcludedView] = []
