"""The preview of a schedule on the wire."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from duly.domain.job import JobType
from duly.domain.schedule import DstGap, DstOverlap
from duly.wire.shapes import CronText, Moment, Seconds, Shape, View, ZoneName


class TimingShape(Shape, kw_only=True):
    """When something fires. `type` may be left out when the schedule's own key says it."""

    type: JobType | None = None
    schedule: CronText | None = None
    seconds: bool = False
    timezone: ZoneName | None = None
    dst_gap: DstGap = DstGap.RUN_AFTER
    dst_overlap: DstOverlap = DstOverlap.FIRST
    interval_sec: Annotated[int, Meta(ge=1, le=315_360_000)] | None = None
    anchor_at: Moment | None = None
    run_at: Moment | None = None
    delay_sec: Seconds | None = None
    start_at: Moment | None = None
    end_at: Moment | None = None


class PreviewShape(TimingShape, kw_only=True):
    """A schedule to be explained; the same keys as in a job."""

    after: Moment | None = None
    count: Annotated[int, Meta(ge=1, le=1000)] = 10


class FireView(View, kw_only=True):
    """One future fire; `note` says what a change of the clocks does to it."""

    at: str
    local: str
    note: str | None


class PreviewView(View, kw_only=True):
    """A schedule in words, its next fires, and what to look out for."""

    words: str
    fires: list[FireView]
    warnings: list[str]
