"""A declared schedule before anybody runs it: in words, with its next fires and what to look out for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.domain.durations import format_duration
from duly.domain.instants import MINUTE, Instant, from_datetime, to_datetime
from duly.domain.job import JobSpec, Timing, schedule_of
from duly.domain.schedule import Schedule, explain_fire, fires
from duly.domain.spreading import HERD, loads
from duly.domain.words import describe, lint
from duly.domain.zones import load_zone
from duly.sdk.moments import instant_of

if TYPE_CHECKING:
    from duly.sdk.app import App

# `H` takes its slot from the id that a job gets when it is created, which nobody knows yet.
_NOBODY = UUID(int=0)


class DeclaredSchedule:
    """What `task.schedule` answers. `explain()` is text for people; `fires()` are the times."""

    __slots__ = ("_app", "_spec")

    def __init__(self, app: App, spec: JobSpec) -> None:
        self._app = app
        self._spec = spec

    def fires(self, count: int = 10, *, after: datetime | None = None) -> list[datetime]:
        """The next times at which it fires, on the clocks of its own zone."""
        timing, zone = self.timing, load_zone(self._spec.timing.zone)
        schedule = schedule_of(timing, _NOBODY)
        found = [] if schedule is None else fires(schedule, _instant(after), None, count)
        return [to_datetime(at).astimezone(zone) for at in found]

    def explain(self, count: int = 10, *, after: datetime | None = None) -> str:
        """The schedule in words, its next fires with what the clocks do to them, and what a person may not have meant."""
        timing, start = self.timing, _instant(after)
        schedule = schedule_of(timing, _NOBODY)
        if schedule is None:
            return f"{self._spec.name}: only when enqueued"
        lines = [f"{self._spec.name}: {describe(schedule)}"]
        found = fires(schedule, start, None, count)
        lines += [_line(schedule, timing.zone, at) for at in found] or ["  never again"]
        lines += [f"! {told}" for told in (*self._notes(timing), *lint(schedule, now=start), *self._herd(timing, start))]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.explain()

    @property
    def timing(self) -> Timing:
        """With the calendars that the application declares: what those of elsewhere leave out is not known here."""
        timing = self._spec.timing
        known = tuple(self._app.calendars[one.name] for one in timing.calendars if one.name in self._app.calendars)
        return replace(timing, calendars=known, on_excluded=timing.on_excluded if known else Timing().on_excluded)

    def _notes(self, timing: Timing) -> Iterator[str]:
        if _has_slot(timing):
            yield "H is a slot of the job's own, chosen when it is created: the times here stand for it"
        if timing.jitter:
            yield f"each starts up to {format_duration(timing.jitter)} later (jitter)"
        for one in self._spec.timing.calendars:
            if one.name not in self._app.calendars:
                yield f"the calendar {one.name!r} is not declared by {self._app.name}: the times here do without it"

    def _herd(self, timing: Timing, start: Instant) -> Iterator[str]:
        """The busiest minute of the next day in which it fires, where that is crowded by jobs of this application."""
        if _has_slot(timing):
            return
        declared = [one.schedule.timing for one in self._app.declared.values()]
        counted = loads({UUID(int=nth): one for nth, one in enumerate(declared) if not _has_slot(one)}, start)
        mine = loads({_NOBODY: timing}, start)
        most = max(mine, key=lambda minute: (counted[minute], -minute), default=None)
        if most is not None and counted[most] >= HERD:
            crowd = f"{counted[most]} fires of {self._app.name} share the minute {to_datetime(most * MINUTE):%H:%M} UTC"
            yield f"{crowd}: H in place of the minute, or jitter, spreads them"


def _has_slot(timing: Timing) -> bool:
    return timing.cron is not None and "H" in timing.cron.upper()


def _instant(after: Any) -> Instant:
    return from_datetime(datetime.now(UTC)) if after is None else instant_of(after, "after")


def _line(schedule: Schedule, zone: str, at: Instant) -> str:
    local = to_datetime(at).astimezone(load_zone(zone))
    shown = f"  {local:%a} {local.isoformat(sep=' ', timespec='auto' if local.microsecond else 'seconds' if local.second else 'minutes')}"
    note = explain_fire(schedule, at)
    return shown if note is None else f"{shown}   {note}"
