"""Upcoming: what will fire, as lanes of an hour, as a map of minutes or hours, as a calendar, and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta, tzinfo
from math import ceil
from typing import Annotated, Any, Literal

from msgspec import Meta

from duly.dashboard.commands import commands
from duly.dashboard.drawing import lanes, month
from duly.dashboard.drawing.heat import changed_hours, hour_lines, midnight, this_hour, week_lines
from duly.dashboard.drawing.overlay import Overlay
from duly.dashboard.maintenance import maintenance
from duly.dashboard.view import PageQuery, View, page
from duly.dashboard.words import local, moment
from duly.domain.errors import Invalid
from duly.domain.instants import DAY, HOUR, LATEST, MINUTE, Instant, minute_of, to_rfc3339
from duly.http.routing import Call, Reply

SHOWN = 100
FULL = 100
MOST = 10
HOURS = 6
# Of an hour so many fires are drawn one by one, at most so many of one job; the others are counted.
PER_READ = 200
READS = 3
PER_JOB = 60
WEEK = timedelta(days=7)

Minute = Annotated[int, Meta(ge=0, le=LATEST // MINUTE)]


class UpcomingPageQuery(PageQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which hour, day, week or month (in the chosen zone); how many fires, or how much they keep running; of all pools or of one.

    `hour` and `at` are minutes, counted from 1970 on: when the hour begins, and when what is opened begins, which is `span` minutes
    long. `most` is how many jobs may share a minute once they are spread.
    """

    show: Literal["hour", "day", "week", "month", "table", "spread"] = "day"
    mode: Literal["count", "load"] = "count"
    day: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d\Z")] | None = None
    hour: Minute | None = None
    at: Minute | None = None
    span: Annotated[int, Meta(ge=1, le=60)] | None = None
    pool: Annotated[str, Meta(max_length=128)] | None = None
    most: Annotated[int, Meta(ge=1, le=10_000)] = MOST
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """The time that is shown: from when until when, the day with which it begins, and how it is called.

    `earlier`, `later` and `home` are what leads to its neighbours and back to now; None where there is nothing to be led to.
    """

    first: Instant
    last: Instant
    day: date
    words: str
    title: str
    earlier: dict[str, Any] | None
    later: dict[str, Any]
    home: dict[str, Any] | None


@page("/upcoming")
async def show_upcoming_page(call: Call, query: UpcomingPageQuery) -> Reply:
    """What comes"""
    view = await View.of(call, "/upcoming", query)
    pools = {pool["pool"]: pool["slots"] for pool in (await view.get("/v1/stats"))["pools"]}
    # An empty choice in a form is none.
    of_pool = {"pool": query.pool or None}
    zone = view.preferences.zone_for()
    frame = _frame(query, zone, view.now)
    window: dict[str, str | None] = {"from": to_rfc3339(frame.first), "until": to_rfc3339(frame.last)}
    context: dict[str, Any] = {
        "fires": [],
        "following": None,
        "opened": None,
        "frame": frame,
        "known_until": window["until"],
        "pools": pools,
        "zone": view.preferences.zone_name(),
    }
    if query.show == "spread":
        return await _spread(view, query, zone, context)
    if query.show == "table":
        answer = await view.get("/v1/upcoming", **window, **of_pool, perJob=PER_JOB, limit=SHOWN, cursor=query.cursor)
        context |= {"fires": answer["items"], "following": answer["nextCursor"]}
    elif query.show == "hour" and view.wants("hour"):
        context |= await _hour(view, frame, window | of_pool, zone)
    elif query.show == "month" and view.wants("month"):
        context |= await _month(view, frame, of_pool, zone)
    elif query.show in ("day", "week") and view.wants("map"):
        context |= await _map(view, query, window | of_pool, frame, zone, pools)
    if query.at is not None and view.wants("opened"):
        opened = query.at * MINUTE
        until = opened + (query.span * MINUTE if query.span else HOUR if query.show == "week" else MINUTE)
        cell = {"from": to_rfc3339(opened), "until": to_rfc3339(until)}
        found = await view.get("/v1/upcoming", **cell, **of_pool, perJob=PER_JOB, limit=SHOWN)
        held = await view.get("/v1/upcoming", **cell, **of_pool, state="PAUSED", perJob=PER_JOB, limit=SHOWN)
        context |= {"opened_at": opened, "opened": found, "held": held["items"]}
    context["is_cut"] = context["known_until"] != window["until"]
    what = f"Upcoming{' load' if query.mode == 'load' else ''}{f' of {query.pool}' if query.pool else ''}"
    return view.page("upcoming", f"{what}, {frame.title}", commands("duly next -n 50", "/v1/upcoming", **window, **of_pool), **context)


def _frame(query: UpcomingPageQuery, zone: tzinfo, now: Instant) -> Frame:
    """What of the time to come is shown. Who names no time is shown what comes, and not what is over."""
    today, hour = local(now, zone).date(), this_hour(now, zone)
    opened = None if query.at is None else query.at * MINUTE
    day = _day(query.day) if query.day is not None else today if opened is None else local(opened, zone).date()
    if query.show == "hour":
        at = midnight(day, zone) if query.day is not None else hour if opened is None else this_hour(opened, zone)
        return _hour_frame(at if query.hour is None else this_hour(query.hour * MINUTE, zone), zone, hour)
    if query.show == "month":
        first, last = month.first_of(day), month.following(day)
        shown = f"{first:%B %Y}"
        return Frame(
            midnight(first, zone),
            midnight(last, zone),
            first,
            shown,
            shown,
            {"day": month.before(day).isoformat()} if day > today and first > month.first_of(today) else None,
            {"day": last.isoformat()},
            {"day": None} if first != month.first_of(today) else None,
        )
    if query.show == "day" and query.day is None and (opened is None or hour <= opened < hour + DAY):
        shown = "the coming 24 hours"
        later = {"day": (today + timedelta(days=1)).isoformat()}
        return Frame(hour, hour + DAY, today, shown.capitalize(), shown, None, later, None)
    step = WEEK if query.show == "week" else timedelta(days=1)
    is_week = query.show == "week"
    return Frame(
        midnight(day, zone),
        midnight(day + step, zone),
        day,
        f"{day:%A} {day.day} {day:%B %Y}" + (" and the six days after" if is_week else ""),
        f"{day:%a} {day.day} {day:%b}" + (" and the week after" if is_week else ""),
        {"day": max(day - step, today).isoformat()} if day > today else None,
        {"day": (day + step).isoformat()},
        {"day": None} if day != today or query.show == "day" else None,
    )


def _hour_frame(start: Instant, zone: tzinfo, hour: Instant) -> Frame:
    then = local(start, zone)
    clocks = f"{then:%H:%M} to {local(start + HOUR, zone):%H:%M}"
    return Frame(
        start,
        start + HOUR,
        then.date(),
        f"{then:%A} {then.day} {then:%B %Y}, {clocks}",
        f"{then:%a} {then.day} {then:%b}, {clocks}",
        {"hour": (start - HOUR) // MINUTE, "day": None} if start > hour else None,
        {"hour": (start + HOUR) // MINUTE, "day": None},
        {"hour": None, "day": None} if start != hour else None,
    )


async def _overlay(view: View, frame: Frame, of_pool: dict[str, str | None], paused: Mapping[Instant, int] | None = None) -> Overlay:
    """What lies over the time that is shown; `paused` where that is known already."""
    first, last = max(frame.first, view.now - view.now % MINUTE), frame.last
    if first >= last:
        return Overlay()
    window = {"from": to_rfc3339(first), "until": to_rfc3339(last)}
    held = (await view.get("/v1/upcoming", **window, **of_pool, state="PAUSED", perJob=1, limit=SHOWN))["items"]
    if held and paused is None:
        paused = _counts(await view.get("/v1/upcoming", **window, **of_pool, state="PAUSED", summary="minute"))
    return Overlay(await maintenance(view, first, last), paused or {}, held)


def _counts(answer: dict[str, Any]) -> dict[Instant, int]:
    return {minute_of(minute["at"]): minute["fires"] for minute in answer["minutes"]}


async def _hour(view: View, frame: Frame, window: dict[str, str | None], zone: tzinfo) -> dict[str, Any]:
    """Lanes of jobs: the first fires one by one, and how many others each minute has."""
    counted = await view.get("/v1/upcoming", **window, summary="minute")
    counts = _counts(counted)
    fires: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(READS):
        answer = await view.get("/v1/upcoming", **window, perJob=PER_JOB, limit=PER_READ, cursor=cursor)
        fires += answer["items"]
        cursor = answer["nextCursor"]
        if cursor is None:
            break
    shown = lanes.Hour(frame.first, zone, view.here(at=None, span=None, hour=frame.first // MINUTE, day=None), view.now)
    drawn = lanes.lanes(fires, counts, shown)
    over = await _overlay(view, frame, {"pool": window["pool"]}, {})
    held = (await view.get("/v1/upcoming", **window, state="PAUSED", perJob=PER_JOB, limit=PER_READ))["items"] if over.held else []
    return {
        "lanes": drawn,
        "paused": lanes.held_back(held, shown),
        "bands": lanes.bands(over.stretches, shown) if over.stretches else None,
        "over": over,
        "scale": lanes.scale(shown),
        "known_until": counted["until"],
        "whole": sum(counts.values()),
        "has_unknown": any(lane.job_id is not None and lane.expected_ms is None for lane in drawn),
        "has_skipped": any(fire["isSkipped"] for fire in fires),
        "twin": sorted((batch for lane in drawn for batch in lane.batches), key=lambda batch: batch.first)[:SHOWN],
    }


async def _month(view: View, frame: Frame, of_pool: dict[str, str | None], zone: tzinfo) -> dict[str, Any]:
    """The days of a month, read a week at a time: of each as much is computed as of a week."""
    counts: dict[Instant, int] = {}
    today = local(view.now, zone).date()
    day, end = max(frame.day, today), local(frame.last, zone).date()
    known_until = frame.first
    while day < end:
        until = midnight(min(day + WEEK, end), zone)
        window = {"from": to_rfc3339(midnight(day, zone)), "until": to_rfc3339(until)}
        answer = await view.get("/v1/upcoming", **window, **of_pool, summary="minute")
        counts |= _counts(answer)
        known_until = moment(answer["until"])
        if known_until < until:
            break
        day += WEEK
    over = await _overlay(view, frame, of_pool)
    weeks = month.weeks(counts, frame.day, zone, today, known_until, over)
    return {
        "weeks": weeks,
        "over": over,
        "known_until": to_rfc3339(known_until) if day < end else to_rfc3339(frame.last),
        "whole": sum(counts.values()),
        "twin": [day for week in weeks for day in week if day is not None and (day.fires or day.paused or day.is_maintained)],
    }


async def _spread(view: View, query: UpcomingPageQuery, zone: tzinfo, context: dict[str, Any]) -> Reply:
    """Crowded minutes of the coming day as they are, and as they would be."""
    wanted = {"most": query.most, "pool": query.pool or None}
    found = await view.get("/v1/schedules/spread", **wanted)
    before = {minute_of(minute["at"]): minute["before"] for minute in found["minutes"]}
    after = {minute_of(minute["at"]): minute["after"] for minute in found["minutes"]}
    busiest = sorted(before, key=lambda at: -before[at])
    context |= {
        "found": found,
        "hours": changed_hours(before, after, zone, view.now, HOURS),
        "peak_before": max(before.values(), default=0),
        "peak_after": max(after.values(), default=0),
        "shown": found["moves"][:SHOWN],
        "own": sum(move["source"] is None for move in found["moves"][:SHOWN]),
        "changed": [(at, before[at], after[at]) for at in busiest if before[at] != after[at]][:20],
    }
    words = f"duly schedule spread --most {query.most}" + (f" --pool {query.pool}" if query.pool else "")
    return view.page("upcoming", "Spread crowded minutes", commands(words, "/v1/schedules/spread", **wanted), **context)


async def _map(
    view: View,
    query: UpcomingPageQuery,
    window: dict[str, str | None],
    frame: Frame,
    zone: tzinfo,
    pools: dict[str, int],
) -> dict[str, Any]:
    """The map: how many fires each cell has, or which share of the slots what fires keeps busy in it."""
    slots = 0
    if query.mode == "load":
        slots = pools.get(query.pool, 0) if query.pool else sum(pools.values())
    answer = await view.get("/v1/upcoming", **window, summary="load" if slots else "minute")
    fires = _counts(answer)
    shown, whole = fires, None
    if slots:
        # In hundredths of all slots; what is little is still something.
        shown = {minute_of(minute["at"]): ceil(100 * minute["busySec"] / (60 * slots)) for minute in answer["minutes"]}
        whole = FULL
    over = await _overlay(view, frame, {"pool": window["pool"]})
    if query.show == "week":
        lines = week_lines(shown, frame.day, zone, view.now, whole, over)
    else:
        lines = hour_lines(shown, frame.first, frame.last, zone, view.now, whole, over)
    return {
        "lines": lines,
        "over": over,
        "known_until": answer["until"],
        "whole": sum(fires.values()),
        "slots": slots,
        "unknown": answer["unknown"],
        "peak": max(shown.items(), key=lambda pair: pair[1], default=None),
        "twin": sorted(shown.items(), key=lambda pair: -pair[1])[:20],
    }


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise Invalid("DULY-E106", "is no day of the calendar.", field="day") from None


ROUTES = [show_upcoming_page]
