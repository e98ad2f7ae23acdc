"""Links, and what they show: a badge, a calendar of fires. Both also take a key."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from duly.domain.access import Role
from duly.domain.badge import badge, standing_of
from duly.domain.errors import NotFound
from duly.domain.feed import Fire, calendar_feed
from duly.domain.ids import JobId, id_floor, job_text, parse_job_id
from duly.domain.instants import DAY, SECOND
from duly.domain.lifecycle import JobState
from duly.domain.schedule import explain_fire
from duly.http.routing import Call, Reply, route
from duly.usecases.links import BADGE, CALENDAR
from duly.usecases.upcoming import Window
from duly.wire.links import LinkShape, LinkView, NewLinkView, link_fields
from duly.wire.shapes import Page

FEED = "/v1/upcoming.ics"
AHEAD = 14 * DAY
PER_JOB = 60
MOST_FIRES = 1000
LOOKED_AT = 30
# A badge is asked for by every reader of a page; a picture that is some seconds old is as good.
BRIEFLY = (b"cache-control", b"private, max-age=30")

Token = Annotated[
    str,
    Meta(min_length=73, max_length=73, pattern="^dulylink_[0-9a-f]{64}$", description="What opens it, where no key is sent."),
]


class LinkQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What opens it without a key."""

    token: Token | None = None


@route("GET", "/v1/links", role=Role.VIEWER, answer=Page[LinkView])
async def list_links(call: Call) -> Reply:
    """List links to badges and calendars, without what opens them"""
    return Reply(Page(items=[LinkView(**link_fields(link)) for link in await call.services.links.find(call.actor)]))  # type: ignore[arg-type]


@route(
    "POST",
    "/v1/links",
    role=Role.OPERATOR,
    answer=NewLinkView,
    status=201,
    problems=("DULY-E106", "DULY-E111", "DULY-E204", "DULY-E213"),
    idempotent=True,
    examples={"calendar": {"kind": "calendar", "expiresInSec": 31_536_000}},
)
async def create_link(call: Call, body: LinkShape) -> Reply:
    """Make a link that shows a badge or a calendar to whoever has it, until it ends or is revoked"""
    job_id = None if body.job_id is None else parse_job_id(body.job_id)
    if job_id is not None:
        await call.services.jobs.show(call.actor, job_id)
    lasts = None if body.expires_in_sec is None else round(body.expires_in_sec * SECOND)
    link, token = await call.services.links.create(call.actor, body.kind.value, job_id, lasts, call.idempotency)
    where = FEED if job_id is None or link.kind == CALENDAR else f"/v1/jobs/{job_text(job_id)}/badge.svg"
    return Reply(NewLinkView(path=f"{where}?token={token}", **link_fields(link)))  # type: ignore[arg-type]


@route("DELETE", "/v1/links/{linkId}", role=Role.OPERATOR, answer=LinkView, problems=("DULY-E111", "DULY-E259"))
async def revoke_link(call: Call, link_id: str) -> Reply:
    """Revoke a link"""
    return Reply(LinkView(**link_fields(await call.services.links.revoke(call.actor, link_id))))  # type: ignore[arg-type]


@route(
    "GET",
    "/v1/jobs/{jobId}/badge.svg",
    role=Role.VIEWER,
    answer=None,
    text="<svg>",
    media="image/svg+xml",
    by_link=BADGE,
    problems=("DULY-E111", "DULY-E204"),
)
async def show_badge(call: Call, job_id: JobId, query: LinkQuery) -> Reply:
    """How a job is, as a small picture"""
    if call.link is not None and call.link.job_id != job_id:
        raise NotFound("DULY-E204", f"There is no job {job_text(job_id)}.", field="jobId")
    now = call.services.clock.now()
    job = await call.services.jobs.show(call.actor, job_id)
    runs = await call.services.alerts.runs(call.actor, job_id, id_floor(now - 30 * DAY), LOOKED_AT)
    standing = standing_of(runs, is_stopped=job.standing(now) in (JobState.PAUSED, JobState.CANCELLED), now=now)
    return Reply(badge(job.version.spec.name, standing).encode(), media=b"image/svg+xml", headers=[BRIEFLY])


@route("GET", FEED, role=Role.VIEWER, answer=None, text="BEGIN:VCALENDAR", media="text/calendar", by_link=CALENDAR, problems=("DULY-E204",))
async def show_calendar_feed(call: Call, query: LinkQuery) -> Reply:
    """The fires of the coming two weeks as a calendar that others can subscribe to"""
    now = call.services.clock.now()
    forecast = await call.services.upcoming.fires(call.actor, Window(now, now + AHEAD), PER_JOB, None, MOST_FIRES)
    only = None if call.link is None else call.link.job_id
    shown = [(at, job) for at, job in forecast.fires if (only is None or job.id == only) and job.skip_at != at]
    expected = await call.services.upcoming.expected(call.actor, (job.id for _, job in shown))
    fires: list[Fire] = []
    for at, job in shown:
        schedule, takes = job.version.schedule, expected.get(job.id)
        note = None if schedule is None else explain_fire(schedule, at)
        spec = job.version.spec
        fires.append(Fire(at, job.id, spec.name, spec.target.pool, None if takes is None else takes.p50, note))
    return Reply(
        calendar_feed(fires, f"Duly: {call.actor.tenant_name}", now).encode(), media=b"text/calendar; charset=utf-8", headers=[BRIEFLY]
    )


ROUTES = [list_links, create_link, revoke_link, show_badge, show_calendar_feed]
