"""Calendars: list, show, set, delete, import. A change of one is a change of every job that names it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from duly.domain.access import Actor
from duly.domain.calendars import Calendar, check_calendar, parse_calendar_name
from duly.domain.errors import Conflict, Invalid, NotFound
from duly.domain.ics import read_ics
from duly.domain.instants import Instant
from duly.domain.job import Job, schedule_of
from duly.domain.pauses import first_fire, past_pause
from duly.domain.preconditions import holds, unmet
from duly.ports.calendars import CalendarRow, Rewritten
from duly.ports.calendars import Calendars as CalendarStore
from duly.ports.clock import Clock
from duly.ports.transport import Transport
from duly.usecases.deeds import calendar_deleted, calendar_set

TRIES = 5
# So many jobs are named in a message; the rest are counted.
NAMED_JOBS = 10


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import brought: the calendar as it is (or would be), how much is new, and what could not be read."""

    row: CalendarRow
    holidays: int
    windows: int
    remarks: list[str]


class Calendars:
    """The use cases on calendars."""

    def __init__(self, store: CalendarStore, clock: Clock, transport: Transport) -> None:
        self._store = store
        self._clock = clock
        self._transport = transport

    async def find(self, actor: Actor) -> list[CalendarRow]:
        """All of the tenant's, by name."""
        return await self._store.calendars(actor.tenant)

    async def show(self, actor: Actor, name: str) -> CalendarRow:
        """One of them, or NotFound."""
        row = await self._store.calendar(actor.tenant, name)
        if row is None:
            raise _no_such(name)
        return row

    async def named(self, actor: Actor, names: Sequence[str]) -> tuple[Calendar, ...]:
        """These calendars, in this order. Raises NotFound for one that there is not."""
        return tuple([(await self.show(actor, parse_calendar_name(name, "calendars"))).calendar for name in names])

    async def put(self, actor: Actor, calendar: Calendar, expected: int | None = None) -> CalendarRow:
        """Make it so. Jobs that name it get a new version and wait for the fire that follows from it, all at once or not at all."""
        check_calendar(calendar)
        for _ in range(TRIES):
            now = self._clock.now()
            changed = await self._store.put_calendar(
                actor.tenant, calendar, expected, partial(_rewritten, now=now), now, deed=partial(calendar_set, actor, now, calendar)
            )
            if changed is not None:
                if changed:
                    # Some wait for an earlier fire now; whoever watches the schedules looks at once.
                    await self._transport.announce_due(now)
                return await self.show(actor, calendar.name)
            if expected is not None:
                break
        raise unmet("calendar", expected)

    async def delete(self, actor: Actor, name: str, expected: int | None = None) -> CalendarRow:
        """Forget it, unless a job still names it, or it has another version than the one that the caller has read."""
        row = await self.show(actor, name)
        if expected is not None and row.calendar.version != expected:
            raise Conflict("DULY-E209", "The calendar has changed meanwhile.", hint="Read it again, then delete it.")
        deed = calendar_deleted(actor, self._clock.now(), row.calendar)
        users = await self._store.delete_calendar(actor.tenant, name, row.calendar.version, deed=deed)
        if users is None:
            await self.show(actor, name)
            raise Conflict("DULY-E209", "The calendar has changed meanwhile.", hint="Read it again, then delete it.")
        if users:
            more = f" and {len(users) - NAMED_JOBS} more" if len(users) > NAMED_JOBS else ""
            raise Conflict("DULY-E252", f"The calendar is in use by {', '.join(users[:NAMED_JOBS])}{more}.", field="name")
        return row

    async def import_ics(self, actor: Actor, name: str, text: str, *, dry_run: bool, expected: int | None = None) -> Imported:
        """Add what an iCalendar file says: whole days as holidays, times as windows. A calendar that is not there yet is made."""
        now = self._clock.now()
        for _ in range(TRIES):
            row = await self._store.calendar(actor.tenant, name)
            before = Calendar(name=name) if row is None else row.calendar
            if not holds(expected, before.version):
                raise unmet("calendar", expected)
            found = read_ics(text, before.zone or "UTC", now)
            holidays = {holiday.day: holiday for holiday in (*found.holidays, *before.holidays)}
            windows = {(window.start, window.end): window for window in (*found.windows, *before.windows)}
            after = replace(
                before,
                holidays=tuple(holidays[day] for day in sorted(holidays)),
                windows=tuple(windows[span] for span in sorted(windows)),
            )
            check_calendar(after)
            new = (len(after.holidays) - len(before.holidays), len(after.windows) - len(before.windows))
            if dry_run:
                return Imported(CalendarRow(after, now), *new, found.remarks)
            try:
                return Imported(await self.put(actor, after, before.version), *new, found.remarks)
            except Conflict as error:
                if error.code != "DULY-E209":
                    raise
        raise Conflict("DULY-E209", "The calendar has changed meanwhile.", hint="Repeat the import.")


def _rewritten(job: Job, calendar: Calendar, now: Instant) -> Rewritten:
    """The job with the calendar written out anew, and the fire that it waits for then. A pause with an end is kept."""
    spec = job.version.spec
    written = tuple(calendar if known.name == calendar.name else known for known in spec.timing.calendars)
    timing = replace(spec.timing, calendars=written)
    schedule = schedule_of(timing, job.id)
    # A fire that is due and not dispatched yet is still owed, if the new calendar has it too.
    since = now if job.next_fire_at is None else min(now, job.next_fire_at - 1)
    following = past_pause(schedule, first_fire(schedule, since), job.paused_until, now)
    if following is None:
        hint = "Change the job first, or cancel it."
        raise Invalid("DULY-E102", f"With this calendar the job {spec.name!r} would never fire again.", field="holidays", hint=hint)
    return Rewritten(replace(spec, timing=timing), following)


def _no_such(name: str) -> NotFound:
    hint = "`duly calendar list` shows those that there are."
    return NotFound("DULY-E251", f"There is no calendar {name!r}.", field="name", hint=hint)
