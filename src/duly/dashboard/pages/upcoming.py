"""Upcoming: what will fire, as a map of minutes or hours, and as a table."""

from __future__ import annotations

from datetime import date, timedelta, tzinfo
from math import ceil
from typing import Annotated, Any, Literal

from msgspec import Meta

from duly.dashboard.commands import commands
from duly.dashboard.drawing.heat import changed_hours, hour_lines, midnight, this_hour, week_lines
from duly.dashboard.view import PageQuery, View, page
from duly.dashboard.words import local, moment
from duly.domain.errors import Invalid
from duly.domain.instants import DAY, HOUR, LATEST, MINUTE, Instant, to_rfc3339
from duly.http.routing import Call, Reply

SHOWN = 100
FULL = 100
MOST = 10
HOURS = 6


class UpcomingPageQuery(PageQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which day (in the chosen zone) or the week from it; how many fires, or how much they keep running; of all pools or of one.

    `at` opens a cell of the map: its minute, counted from 1970 on. `most` is how many jobs may share a minute once they are spread.
    """

    show: Literal["day", "week", "table", "spread"] = "day"
    mode: Literal["count", "load"] = "count"
    day: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d\Z")] | None = None
    at: Annotated[int, Meta(ge=0, le=LATEST // MINUTE)] | None = None
    pool: Annotated[str, Meta(max_length=128)] | None = None
    most: Annotated[int, Meta(ge=1, le=10_000)] = MOST
    cursor: str | None = None


@page("/upcoming")
async def show_upcoming_page(call: Call, query: UpcomingPageQuery) -> Reply:
    """What comes"""
    view = await View.of(call, "/upcoming", query)
    pools = {pool["pool"]: pool["slots"] for pool in (await view.get("/v1/stats"))["pools"]}
    # An empty choice in a form is none.
    of_pool = {"pool": query.pool or None}
    zone = view.preferences.zone_for()
    today = local(view.now, zone).date()
    opened = None if query.at is None else query.at * MINUTE
    day = _day(query.day) if query.day is not None else today if opened is None else local(opened, zone).date()
    until = day + timedelta(days=7 if query.show == "week" else 1)
    first, last = midnight(day, zone), midnight(until, zone)
    hour = this_hour(view.now, zone)
    # Who names no day is shown what comes, and not the hours that are over.
    is_coming = query.show == "day" and query.day is None and (opened is None or hour <= opened < hour + DAY)
    if is_coming:
        day, first, last = today, hour, hour + DAY
    window: dict[str, str | None] = {"from": to_rfc3339(first), "until": to_rfc3339(last)}
    context: dict[str, Any] = {
        "lines": [],
        "fires": [],
        "following": None,
        "opened": None,
        "day": day,
        "today": today,
        "known_until": window["until"],
        "pools": pools,
        "is_coming": is_coming,
    }
    if query.show == "spread":
        return await _spread(view, query, zone, context)
    if query.show == "table":
        answer = await view.get("/v1/upcoming", **window, **of_pool, perJob=60, limit=SHOWN, cursor=query.cursor)
        context |= {"fires": answer["items"], "following": answer["nextCursor"]}
    elif view.wants("map"):
        context |= await _map(view, query, window | of_pool, (first, last, day), zone, pools)
    if opened is not None and view.wants("opened"):
        cell = {"from": to_rfc3339(opened), "until": to_rfc3339(opened + (MINUTE if query.show == "day" else HOUR))}
        context |= {"opened_at": opened, "opened": await view.get("/v1/upcoming", **cell, **of_pool, perJob=60, limit=SHOWN)}
    step = timedelta(days=7 if query.show == "week" else 1)
    context |= {
        "previous": max(day - step, today),
        "next": day + step,
        "is_cut": context["known_until"] != window["until"],
        "zone": view.preferences.zone_name(),
    }
    what = f"Upcoming{' load' if query.mode == 'load' else ''}{f' of {query.pool}' if query.pool else ''}"
    title = f"{what}, {day:%a} {day.day} {day:%b}" + (" and the week after" if query.show == "week" else "")
    if is_coming:
        title = f"{what}, the coming 24 hours"
    return view.page("upcoming", title, commands("duly next -n 50", "/v1/upcoming", **window, **of_pool), **context)


async def _spread(view: View, query: UpcomingPageQuery, zone: tzinfo, context: dict[str, Any]) -> Reply:
    """Crowded minutes of the coming day as they are, and as they would be."""
    wanted = {"most": query.most, "pool": query.pool or None}
    found = await view.get("/v1/schedules/spread", **wanted)
    before = {moment(minute["at"]): minute["before"] for minute in found["minutes"]}
    after = {moment(minute["at"]): minute["after"] for minute in found["minutes"]}
    busiest = sorted(before, key=lambda at: -before[at])
    context |= {
        "found": found,
        "hours": changed_hours(before, after, zone, view.now, HOURS),
        "peak_before": max(before.values(), default=0),
        "peak_after": max(after.values(), default=0),
        "shown": found["moves"][:SHOWN],
        "own": sum(move["source"] is None for move in found["moves"][:SHOWN]),
        "changed": [(at, before[at], after[at]) for at in busiest if before[at] != after[at]][:20],
        "zone": view.preferences.zone_name(),
    }
    words = f"duly schedule spread --most {query.most}" + (f" --pool {query.pool}" if query.pool else "")
    return view.page("upcoming", "Spread crowded minutes", commands(words, "/v1/schedules/spread", **wanted), **context)


async def _map(
    view: View,
    query: UpcomingPageQuery,
    window: dict[str, str | None],
    drawn: tuple[Instant, Instant, date],
    zone: tzinfo,
    pools: dict[str, int],
) -> dict[str, Any]:
    """The map: how many fires each cell has, or which share of the slots what fires keeps busy in it."""
    slots = 0
    if query.mode == "load":
        slots = pools.get(query.pool, 0) if query.pool else sum(pools.values())
    answer = await view.get("/v1/upcoming", **window, summary="load" if slots else "minute")
    fires = {moment(minute["at"]): minute["fires"] for minute in answer["minutes"]}
    shown, whole = fires, None
    if slots:
        # In hundredths of all slots; what is little is still something.
        shown = {moment(minute["at"]): ceil(100 * minute["busySec"] / (60 * slots)) for minute in answer["minutes"]}
        whole = FULL
    first, last, day = drawn
    is_week = query.show == "week"
    return {
        "lines": week_lines(shown, day, zone, view.now, whole) if is_week else hour_lines(shown, first, last, zone, view.now, whole),
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
