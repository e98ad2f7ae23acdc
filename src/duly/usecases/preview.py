"""Explain a schedule before it is used: words, next fires with what the clocks do to them, and lint."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from duly.domain.errors import Invalid
from duly.domain.instants import Instant, to_datetime, to_rfc3339
from duly.domain.job import Timing, schedule_of
from duly.domain.schedule import CronSchedule, Schedule, explain_fire, fires
from duly.domain.words import describe, lint
from duly.domain.zones import load_zone
from duly.wire.jobs import timing_of
from duly.wire.schedules import FireView, PreviewShape, PreviewView
from duly.wire.shapes import moment


@dataclass(frozen=True, slots=True)
class PreviewedFire:
    """A fire with its local time and what a change of the clocks did to it."""

    at: Instant
    local: str
    note: str | None


def preview(shape: PreviewShape, now: Instant, job_id: UUID | None = None) -> PreviewView:
    """The preview as the API answers it. Raises Invalid for what is malformed or can never fire."""
    timing = timing_of(shape, now)
    after = moment(shape.after, "after")
    after = now if after is None else after
    schedule = schedule_of(timing, job_id or UUID(int=0))
    if schedule is None:
        raise Invalid("DULY-E106", "needs a schedule: one of schedule, intervalSec, runAt and delaySec.", field="type")
    found = [FireView(at=to_rfc3339(fire.at), local=fire.local, note=fire.note) for fire in next_fires(schedule, after, shape.count)]
    if not found and timing.end_at is not None and timing.end_at <= after:
        raise Invalid("DULY-E102", "The schedule has no fire after endAt.", field="endAt")
    return PreviewView(words=describe(schedule), fires=found, warnings=lint(schedule))


def next_fires(schedule: Schedule, after: Instant, count: int) -> list[PreviewedFire]:
    """The next fires, each in the schedule's own zone."""
    zone = load_zone(schedule.zone if isinstance(schedule, CronSchedule) else "UTC")
    return [
        PreviewedFire(at, to_datetime(at).astimezone(zone).isoformat(), explain_fire(schedule, at))
        for at in fires(schedule, after, None, count)
    ]


def words_of(timing: Timing, job_id: UUID) -> str:
    """A job's schedule in words."""
    schedule = schedule_of(timing, job_id)
    return "Only when enqueued" if schedule is None else describe(schedule)
