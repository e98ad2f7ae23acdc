"""What a server would refuse of definitions, found before anything is sent: all of it, and not the first alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar
from uuid import UUID

from duly.cli.definitions import Definition, snake
from duly.cli.errors import Several
from duly.domain.calendars import Calendar
from duly.domain.dependencies import FARTHEST, refuse_circle
from duly.domain.errors import DulyError, Invalid, NotFound
from duly.domain.instants import Instant
from duly.domain.job import JobSpec, check_spec, schedule_of
from duly.domain.pauses import demand_fire
from duly.domain.schedule import CalendarSchedule
from duly.sdk import alert_calls, calls
from duly.sdk.client import Client
from duly.wire.specs import spec_of, viewed_calendar

T = TypeVar("T")


class Checker:
    """Judges definitions as the server does that would make jobs of them; each calendar and channel is asked for once.

    What the server alone knows is left to it: what is left of a quota, and whether its payloads may have secret values in them.
    """

    def __init__(self, client: Client, now: Instant) -> None:
        self._client = client
        self._now = now
        self._faults: list[DulyError] = []
        self._specs: dict[str, tuple[Definition, JobSpec]] = {}
        self._calendars: dict[str, Calendar | None] = {}
        self._channels: set[str] | None = None

    def check(self, one: Definition, *, is_new: bool) -> bool:
        """Look for every fault of one of them. False for what is so wrong that it cannot be read."""
        spec = self._noting(one, lambda: spec_of(one.shape, self._now, fallback_name=one.name))
        if spec is None:
            return False
        self._specs[one.name] = (one, spec)
        self._noting(one, lambda: check_spec(spec, sealed=True))
        known = [self._noting(one, partial(self._calendar, calendar.name)) for calendar in spec.timing.calendars]
        if None not in known:
            self._noting(one, lambda: self._timing(spec, [each for each in known if each is not None], is_new=is_new))
        for channel in () if spec.alert is None else spec.alert.to:
            self._noting(one, partial(self._channel, channel))
        return True

    def refuse(self) -> None:
        """Raises Several when there are faults."""
        self._circles()
        if self._faults:
            raise Several(self._faults)

    def _noting(self, one: Definition, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except (Invalid, NotFound) as fault:
            self._note(one, fault)
            return None

    def _note(self, one: Definition, fault: DulyError) -> None:
        """With the file, the job and the field in front, however the message begins."""
        field = f"{snake(fault.field)}: " if fault.field else ""
        self._faults.append(Invalid(fault.code, f"{one.where}: {one.name}: {field}{fault.message}", hint=fault.hint))

    def _timing(self, spec: JobSpec, calendars: Sequence[Calendar], *, is_new: bool) -> None:
        """A job that is there may have fired for the last time; one that is made must have a fire to wait for."""
        schedule = schedule_of(replace(spec.timing, calendars=tuple(calendars)), UUID(int=0))
        if is_new or isinstance(schedule, CalendarSchedule):
            demand_fire(schedule, self._now)

    def _calendar(self, name: str) -> Calendar:
        if name not in self._calendars:
            try:
                self._calendars[name] = viewed_calendar(self._client.send(calls.show_calendar(name)))
            except NotFound:
                self._calendars[name] = None
        found = self._calendars[name]
        if found is None:
            hint = "`duly calendar list` shows those that there are."
            raise NotFound("DULY-E251", f"There is no calendar {name!r}.", field="calendars", hint=hint)
        return found

    def _channel(self, name: str) -> None:
        if self._channels is None:
            self._channels = {channel.name for channel in self._client.send(alert_calls.list_channels()).items}
        if name not in self._channels:
            hint = "`duly alert channels` shows those that there are."
            raise NotFound("DULY-E255", f"There is no alert channel {name!r}.", field="alert.to", hint=hint)

    def _circles(self) -> None:
        waits = {name: [each.job for each in spec.after] for name, (_, spec) in self._specs.items()}
        self._follow(waits, [name for names in waits.values() for name in names])
        for name, (one, _) in self._specs.items():
            # One that waits for itself was told already.
            if name not in waits[name]:
                self._noting(one, partial(refuse_circle, name, waits))

    def _follow(self, waits: dict[str, list[str]], left: list[str]) -> None:
        """Also what the jobs wait for that are there already."""
        asked = 0
        while left and asked < FARTHEST:
            if (name := left.pop()) in waits:
                continue
            asked += 1
            jobs = self._client.send(calls.list_jobs(name=name, limit=10)).items
            live = next((job for job in jobs if job.state != "CANCELLED"), None)
            waits[name] = [] if live is None else [each.job for each in live.after]
            left += waits[name]
