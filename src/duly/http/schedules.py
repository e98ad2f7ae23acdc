"""Schedules: explain one before it is used."""

from __future__ import annotations

from duly.domain.access import Role
from duly.http.routing import Call, Reply, route
from duly.usecases.preview import preview_in_turns
from duly.wire.schedules import PreviewShape, PreviewView


@route(
    "POST",
    "/v1/schedules/preview",
    role=Role.VIEWER,
    answer=PreviewView,
    problems=("DULY-E101", "DULY-E102", "DULY-E103", "DULY-E104", "DULY-E105", "DULY-E114", "DULY-E134", "DULY-E251"),
    examples={
        "daily": {"type": "CRON", "schedule": "30 2 * * *", "timezone": "America/New_York", "after": "2026-03-07T12:00:00Z", "count": 2}
    },
)
async def preview_schedule(call: Call, body: PreviewShape) -> Reply:
    """A schedule in words, its next fires with what the clocks and calendars do to them, and what to look out for"""
    calendars = await call.services.calendars.named(call.actor, body.calendars)
    return Reply(await preview_in_turns(body, call.services.clock, calendars))


ROUTES = [preview_schedule]
