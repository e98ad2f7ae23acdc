"""Calendars: list, show, set, delete, import."""

from __future__ import annotations

from duly.domain.access import Role
from duly.http.etags import IF_MATCH, IF_NONE_MATCH, PUT_IF, UNCHANGED, expected_of_put, expected_version, tagged, tagged_as_read
from duly.http.limits import LARGEST_BATCH
from duly.http.routing import Call, Reply, route
from duly.ports.calendars import CalendarRow
from duly.wire.calendars import CalendarShape, CalendarView, ImportShape, ImportView, calendar_view
from duly.wire.shapes import Page
from duly.wire.specs import calendar_of

BAD_CALENDAR = ("DULY-E102", "DULY-E103", "DULY-E105", "DULY-E135", "DULY-E209")

EXAMPLES = {
    "holidays": {
        "businessDays": ["MON", "TUE", "WED", "THU", "FRI"],
        "holidays": [{"date": "2026-12-25", "name": "Christmas Day"}],
    },
    "maintenance": {
        "timezone": "Europe/Berlin",
        "windows": [{"start": "2026-12-01T22:00:00Z", "end": "2026-12-02T02:00:00Z", "name": "new disks"}],
        "weekly": [{"days": ["SUN"], "from": "02:00", "to": "04:00"}],
    },
}


@route("GET", "/v1/calendars", role=Role.VIEWER, answer=Page[CalendarView])
async def list_calendars(call: Call) -> Reply:
    """List calendars, by name"""
    return Reply(Page(items=[_view(row) for row in await call.services.calendars.find(call.actor)]))


@route(
    "GET",
    "/v1/calendars/{name}",
    role=Role.VIEWER,
    answer=CalendarView,
    also=UNCHANGED,
    problems=("DULY-E251",),
    request_headers=IF_NONE_MATCH,
    response_headers={"ETag": "What was answered, for If-None-Match and If-Match."},
)
async def show_calendar(call: Call, name: str) -> Reply:
    """Show a calendar"""
    row = await call.services.calendars.show(call.actor, name)
    return tagged(call, _view(row), row.calendar.version)


@route(
    "PUT",
    "/v1/calendars/{name}",
    role=Role.ADMIN,
    answer=CalendarView,
    problems=BAD_CALENDAR,
    request_headers=PUT_IF,
    response_headers={"ETag": "What was answered, for If-None-Match and If-Match."},
    examples=EXAMPLES,
)
async def set_calendar(call: Call, name: str, body: CalendarShape) -> Reply:
    """Make or change a calendar; every job that names it gets a new version in the same moment"""
    row = await call.services.calendars.put(call.actor, calendar_of(body, name), expected_of_put(call))
    return tagged_as_read(_view(row), row.calendar.version)


@route(
    "DELETE",
    "/v1/calendars/{name}",
    role=Role.ADMIN,
    answer=CalendarView,
    problems=("DULY-E209", "DULY-E251", "DULY-E252"),
    request_headers=IF_MATCH,
)
async def delete_calendar(call: Call, name: str) -> Reply:
    """Delete a calendar that no job names"""
    return Reply(_view(await call.services.calendars.delete(call.actor, name, expected_version(call))))


@route(
    "POST",
    "/v1/calendars/{name}/import",
    role=Role.ADMIN,
    answer=ImportView,
    problems=BAD_CALENDAR,
    limit=LARGEST_BATCH,
    request_headers=PUT_IF,
    examples={
        "oneDay": {
            "ics": "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20261225\nSUMMARY:Christmas Day\nEND:VEVENT\nEND:VCALENDAR",
            "dryRun": True,
        }
    },
)
async def import_calendar(call: Call, name: str, body: ImportShape) -> Reply:
    """Add the days and times of an iCalendar file"""
    expected = expected_of_put(call)
    done = await call.services.calendars.import_ics(call.actor, name, body.ics, dry_run=body.dry_run, expected=expected)
    return Reply(ImportView(calendar=_view(done.row), holidays=done.holidays, windows=done.windows, remarks=done.remarks))


def _view(row: CalendarRow) -> CalendarView:
    return calendar_view(row.calendar, row.updated_at)


ROUTES = [list_calendars, show_calendar, set_calendar, delete_calendar, import_calendar]
