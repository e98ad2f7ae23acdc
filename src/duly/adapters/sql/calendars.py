"""Calendars, and the jobs that have them written out: one text on both engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from duly.adapters.sql.audit import append
from duly.adapters.sql.engine import Action, Call, Engine, Many, one
from duly.adapters.sql.rows import NEVER, calendar_of, encode, job_of
from duly.domain.audit import Deed
from duly.domain.calendars import Calendar
from duly.domain.instants import Instant
from duly.domain.job import Job, schedule_of
from duly.domain.pauses import keeps_skip
from duly.domain.preconditions import holds
from duly.ports.calendars import CalendarRow, Rewritten


class SqlCalendars:
    """The calendars' port."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def calendars(self, tenant: int) -> list[CalendarRow]:
        return [calendar_of(row) for row in await self._engine.fetch("calendars", {"tenant": tenant})]

    async def calendar(self, tenant: int, name: str) -> CalendarRow | None:
        row = one(await self._engine.fetch("calendar", {"tenant": tenant, "name": name}))
        return None if row is None else calendar_of(row)

    async def put_calendar(
        self,
        tenant: int,
        calendar: Calendar,
        expected: int | None,
        rewrite: Callable[[Job, Calendar], Rewritten],
        now: Instant,
        *,
        deed: Callable[[Calendar | None, Sequence[Job]], Deed] | None = None,
    ) -> list[Job] | None:
        key = {"tenant": tenant, "name": calendar.name}
        definition = encode(replace(calendar, version=0))

        def action() -> Action[list[Job] | None]:
            row = one((yield Call("lock_calendar", key)))
            version = 0 if row is None else int(row["version"])
            if not holds(expected, version):
                return None
            if row is None:
                if not (yield Call("add_calendar", key | {"definition": definition, "now": now})):
                    return None
                yield from append([None if deed is None else deed(None, [])])
                return []
            if row["definition"] == definition:
                return []
            yield Call("set_calendar", key | {"version": version + 1, "definition": definition, "now": now})
            changed = yield from _rewrite_jobs(key, replace(calendar, version=version + 1), rewrite, now)
            yield from append([None if deed is None else deed(calendar_of({**row, "updated_at": now}).calendar, changed)])
            return changed

        return await self._engine.run(action)

    async def delete_calendar(self, tenant: int, name: str, expected: int, *, deed: Deed | None = None) -> list[str] | None:
        key = {"tenant": tenant, "name": name}

        def action() -> Action[list[str] | None]:
            row = one((yield Call("lock_calendar", key)))
            if row is None or row["version"] != expected:
                return None
            users = [job_of(row).version.spec.name for row in (yield Call("jobs_of_calendar", key))]
            if not users:
                yield Call("drop_uses_of_calendar", key)
                yield Call("drop_calendar", key)
                yield from append([deed])
            return users

        return await self._engine.run(action)


def _rewrite_jobs(
    key: dict[str, object], calendar: Calendar, rewrite: Callable[[Job, Calendar], Rewritten], now: Instant
) -> Action[list[Job]]:
    """Give every job that names the calendar a version with the new one written out. Writes go in bulk: there may be thousands."""
    yield Call("lock_schedules_of_calendar", key)
    yield Call("lock_jobs_of_calendar", key)
    jobs = [job_of(row) for row in (yield Call("jobs_of_calendar", key))]
    versions: list[dict[str, object]] = []
    waits: list[dict[str, object]] = []
    for job in jobs:
        new = rewrite(job, calendar)
        mark = {"job_id": job.id, "version": job.version.version + 1}
        schedule = schedule_of(new.spec.timing, job.id)
        versions.append(
            mark
            | {
                "route": job.version.route,
                "max_attempts": new.spec.retry.max_attempts,
                "definition": encode(new.spec),
                "now": now,
            }
        )
        waits.append(
            mark
            | {
                "next_fire_at": NEVER if new.next_fire_at is None else new.next_fire_at,
                "skip_at": job.skip_at if job.skip_at is not None and keeps_skip(schedule, job.skip_at) else None,
            }
        )
    if jobs:
        yield Many("add_version_of", versions)
        yield Many("follow_version", waits)
        yield Many("adopt_version", [{"job_id": wait["job_id"], "version": wait["version"], "now": now} for wait in waits])
    return jobs
