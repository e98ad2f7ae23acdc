"""Explain a schedule before it is used: words, next fires with what clocks and calendars do to them, and lint."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from uuid import UUID

from duly.domain.calendars import Calendar
from duly.domain.durations import format_duration
from duly.domain.errors import Invalid
from duly.domain.instants import SECOND, Instant, Micros, to_datetime, to_rfc3339
from duly.domain.jitter import jitter_of
from duly.domain.job import Job, Timing, check_once, schedule_of
from duly.domain.schedule import CalendarSchedule, Schedule, Search, ended, excluded, explain_fire, plain_of, search_fire, zone_of
from duly.domain.words import describe, lint
from duly.domain.zones import load_zone
from duly.ports.clock import Clock
from duly.usecases.turns import Turns
from duly.wire.schedules import ExcludedView, FireView, JobFireView, PreviewShape, PreviewView
from duly.wire.shapes import moment
from duly.wire.specs import timing_of

# So many excluded times are listed.
MOST_EXCLUDED = 50
# So long a preview works beside others.
MOST_WORK: Micros = SECOND // 2


def preview(shape: PreviewShape, now: Instant, calendars: Sequence[Calendar] = (), job_id: UUID | None = None) -> PreviewView:
    """The preview as the API answers it; `calendars` are those that the shape names. Raises Invalid for what can never fire."""
    return ended(_previewing(shape, now, calendars, job_id, lambda: False))


async def preview_in_turns(shape: PreviewShape, clock: Clock, calendars: Sequence[Calendar] = ()) -> PreviewView:
    """The same beside other work: it gives way again and again, and is cut short, with a warning, when it takes too long."""
    turns = Turns(clock)
    work = _previewing(shape, clock.now(), calendars, None, lambda: turns.spent() > MOST_WORK)
    while True:
        try:
            next(work)
        except StopIteration as end:
            view: PreviewView = end.value
            return view
        await turns.give_way()


def _previewing(
    shape: PreviewShape, now: Instant, calendars: Sequence[Calendar], job_id: UUID | None, is_over: Callable[[], bool]
) -> Generator[None, None, PreviewView]:
    timing = replace(timing_of(shape, now), calendars=tuple(calendars))
    after = moment(shape.after, "after")
    after = now if after is None else after
    job_id = job_id or UUID(int=0)
    schedule = schedule_of(timing, job_id)
    if schedule is None:
        raise Invalid("DULY-E106", "needs a schedule: one of schedule, intervalSec, runAt and delaySec.", field="type")
    check_once(timing)
    found: list[FireView] = []
    left_out: list[ExcludedView] = []
    cut: list[str] = []
    at: Instant | None = after
    while at is not None and len(found) < shape.count:
        before, search = at, search_fire(schedule, at)
        at = yield from _unless(is_over, search)
        if is_over():
            cut = [f"Cut short after {len(found)} of {shape.count} fires: to find more takes longer than a preview may."]
            break
        if at is None:
            break
        found.append(FireView(at=to_rfc3339(at), local=_local(schedule, at), note=_note(schedule, timing.jitter, job_id, at)))
        for excluded_at, reason in excluded(schedule, before, at, MOST_EXCLUDED - len(left_out)):
            left_out.append(ExcludedView(at=to_rfc3339(excluded_at), local=_local(schedule, excluded_at), reason=reason))
        yield
    # As for a job that is created with it. Of a time that is over a warning tells.
    if not found and not cut and timing.run_at is None and (after <= now or (yield from search_fire(schedule, now)) is None):
        raise _never_fires(timing, schedule)
    return PreviewView(
        words=describe(schedule),
        fires=found,
        warnings=[*lint(schedule), *_late(timing, now), *cut],
        excluded=left_out,
    )


def _unless(is_over: Callable[[], bool], search: Search) -> Search:
    """What a search finds, or None when it is over before."""
    while not is_over():
        try:
            yield next(search)
        except StopIteration as end:
            found: Instant | None = end.value
            return found
    return None


def _never_fires(timing: Timing, schedule: Schedule) -> Invalid:
    if timing.end_at is not None:
        return Invalid("DULY-E102", "The schedule has no fire in the future that comes before endAt.", field="endAt")
    if isinstance(schedule, CalendarSchedule):
        return Invalid("DULY-E102", "The calendars leave no fire in the future.", field="calendars", hint="Look at onExcluded.")
    return Invalid("DULY-E102", "The schedule has no fire in the future.", field="schedule")


def fire_view(job: Job, at: Instant) -> JobFireView:
    """A job's fire as the API answers it."""
    schedule = job.version.schedule
    assert schedule is not None
    note = _note(schedule, job.version.spec.timing.jitter, job.id, at)
    return JobFireView(at=to_rfc3339(at), local=_local(schedule, at), note=note, is_skipped=job.skip_at == at)


def _late(timing: Timing, now: Instant) -> list[str]:
    """Of a time that is over the list of fires says nothing, and a job would not wait for it."""
    if timing.run_at is None or timing.run_at >= now:
        return []
    return ["The time lies in the past: a job that is created with it runs at once."]


def words_of(timing: Timing, job_id: UUID) -> str:
    """A job's schedule in words."""
    schedule = schedule_of(timing, job_id)
    return "Only when enqueued" if schedule is None else describe(schedule)


def _local(schedule: Schedule, at: Instant) -> str:
    """The time in the schedule's own zone."""
    return to_datetime(at).astimezone(load_zone(zone_of(plain_of(schedule)))).isoformat()


def _note(schedule: Schedule, jitter: Micros, job_id: UUID, at: Instant) -> str | None:
    """What the clocks and calendars did to the fire, and how much later it starts. The delay differs from job to job."""
    notes = [explain_fire(schedule, at)]
    delay = jitter_of(schedule, jitter, job_id, at)
    if delay > 0:
        notes.append(f"starts {format_duration(-(-delay // SECOND) * SECOND)} later (jitter)")
    return "; ".join(note for note in notes if note is not None) or None
