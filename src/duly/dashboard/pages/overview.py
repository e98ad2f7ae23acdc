"""Overview: is all well? What needs somebody, what runs, what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from msgspec import Meta

from duly.dashboard.commands import commands
from duly.dashboard.drawing import charts
from duly.dashboard.view import PageQuery, View, page
from duly.dashboard.words import counted, local, moment, span
from duly.domain.instants import DAY, LATEST, MINUTE, Instant, to_rfc3339
from duly.http.routing import Call, Reply

PAUSED_LONG = 7 * DAY
WAITED_LONG = MINUTE
SHOWN = 10
MOST_CAUSES = 6
# Of the table beside the charts: pages stay small.
MOST_ROWS = 180
# A minute of which nothing is known.
NOTHING: dict[str, Any] = {"ended": {}, "latenessP50Ms": None, "latenessP95Ms": None, "latenessP99Ms": None, "running": 0.0}
# With so many jobs nobody begins.
FEW_JOBS = 5


HOUR_MINUTES = 60
# So far back the API tells what happened minute by minute, and so few minutes are still a chart.
MOST_MINUTES = 1440
FEWEST_MINUTES = 2
# Times to choose from are so many minutes apart.
STEP = 5

Minute = Annotated[int, Meta(ge=0, le=LATEST // MINUTE)]


class OverviewQuery(PageQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which time the charts show, in minutes counted from 1970 on: from `since` to just before `until`; the last hour otherwise."""

    since: Minute | None = None
    until: Minute | None = None


@dataclass(frozen=True, slots=True)
class Zoom:
    """The time that the charts show, in minutes counted from 1970 on. It is chosen, or it is the last hour."""

    since: int
    until: int
    now: int
    is_chosen: bool

    @property
    def length(self) -> int:
        """How many minutes that is."""
        return self.until - self.since

    def moved(self, by: int) -> dict[str, int]:
        """As long, so many minutes later, and no later than now."""
        until = min(self.until + by, self.now + 1)
        return {"since": until - self.length, "until": until}

    def scaled(self, length: int) -> dict[str, int]:
        """Another length around the same middle, and no later than now."""
        until = min((self.since + self.until + length) // 2, self.now + 1)
        return {"since": until - length, "until": until}

    @property
    def closer(self) -> dict[str, int] | None:
        """Half as much; None where that would be too little."""
        return self.scaled(self.length // 2) if self.length // 2 >= FEWEST_MINUTES else None

    @property
    def wider(self) -> dict[str, int] | None:
        """Twice as much, up to an hour."""
        return self.scaled(min(self.length * 2, HOUR_MINUTES)) if self.length < HOUR_MINUTES else None

    @property
    def choices(self) -> list[int]:
        """Times to choose from, the chosen ones among them."""
        first = min(self.since, self.now + 1 - HOUR_MINUTES)
        every = STEP * max(1, -(-(self.now + 1 - first) // HOUR_MINUTES))
        return sorted({self.since, self.until, *range(first - first % every + every, self.now + 1, every)})


def zoom_of(query: OverviewQuery, now: Instant) -> Zoom:
    """What is asked for, as far as there is anything to draw; the last hour otherwise."""
    minute = now // MINUTE
    since, until = query.since, query.until
    if since is not None and until is not None:
        until = min(until, minute + 1)
        if until - since >= 1 and minute - since < MOST_MINUTES:
            return Zoom(since, until, minute, is_chosen=True)
    return Zoom(minute + 1 - HOUR_MINUTES, minute + 1, minute, is_chosen=False)


@dataclass(frozen=True, slots=True)
class Concern:
    """Something that needs somebody: what it is, the sentence, where it is, and what can be done there."""

    kind: str
    text: str
    detail: str
    href: str
    action: str


@page("/")
async def show_overview(call: Call, query: OverviewQuery) -> Reply:
    """The overview"""
    view = await View.of(call, "/", query)
    zoom = zoom_of(query, view.now)
    stats = await view.get("/v1/stats")
    slots = sum(pool["slots"] for pool in stats["pools"])
    context: dict[str, Any] = {"stats": stats, "slots": slots, "running": [], "fires": [], "concerns": []}
    if view.wants("running"):
        context["running"] = (await view.get("/v1/executions", state="RUNNING", limit=SHOWN))["items"]
    has_ended, context["is_new"] = await _beginning(view, stats)
    context["has_ended"] = has_ended
    if view.wants("next", "first"):
        context["fires"] = (await view.get("/v1/upcoming", limit=SHOWN, perJob=1))["items"]
    if view.wants("charts", "verdict"):
        history = await view.get("/v1/stats/history", minutes=HOUR_MINUTES)
        context["late"] = history["latenessP95Ms"]
        if view.wants("charts"):
            context |= await _zoomed(view, zoom, history, slots)
    if view.wants("causes"):
        context["causes"] = causes_of((await view.get("/v1/dead-letters"))["items"])
    if view.wants("verdict", "attention"):
        context["concerns"] = await _concerns(view, stats)
    context["verdict"] = _verdict(stats, context["concerns"], context.get("late"))
    title = f"Overview, {context['shown']}" if zoom.is_chosen and "shown" in context else "Overview"
    return view.page("overview", title, commands("duly cluster", "/v1/stats"), **context)


async def _beginning(view: View, stats: dict[str, Any]) -> tuple[bool, bool]:
    """Whether a run has ended, and whether everything is new: there is no job, or there are a few and none of their runs has ended."""
    if sum(stats["lastHour"]["ended"].values()):
        return True, False
    jobs = sum(stats["jobs"].values())
    if jobs > FEW_JOBS:
        return False, False
    runs = (await view.get("/v1/executions", limit=FEW_JOBS))["items"] if jobs else []
    has_ended = any(run["finishedAt"] is not None for run in runs)
    return has_ended, not has_ended and len(runs) < FEW_JOBS


async def _zoomed(view: View, zoom: Zoom, history: dict[str, Any], slots: int) -> dict[str, Any]:
    """The charts of the time that is shown, and what leads to the runs that were due in it."""
    first, last = zoom.since * MINUTE, zoom.until * MINUTE
    if zoom.is_chosen:
        back = max(zoom.now - zoom.since + 1, 1)
        history = await view.get("/v1/stats/history", minutes=min(back, MOST_MINUTES))
    minutes = history["minutes"]
    if zoom.is_chosen:
        minutes = [minute for minute in minutes if first <= moment(minute["at"]) < last]
    if not minutes:
        minutes = [dict(NOTHING, at=to_rfc3339(at)) for at in range(first, last, MINUTE)]
    zone, start = view.preferences.zone_for(), moment(minutes[0]["at"])
    changes = [change for change in history["changes"] if start <= moment(change["at"]) < last]
    twin = twin_of(minutes, changes)
    return {
        "zoom": zoom,
        "drawn": {"first": start // MINUTE, "count": len(minutes)},
        "shown": f"{local(first, zone):%H:%M} to {local(last, zone):%H:%M}",
        "runs": urlencode({"q": f"since:{to_rfc3339(first)} until:{to_rfc3339(last)}"}),
        "charts": _charts(view, charts.Lapse(minutes, changes), slots),
        "signs": [sign for action, sign in charts.CHANGES.items() if any(change["action"] == action for change in changes)],
        "twin": twin[:MOST_ROWS],
        "left_out": max(len(twin) - MOST_ROWS, 0),
    }


def _charts(view: View, lapse: charts.Lapse, slots: int) -> dict[str, Any]:
    return {
        "throughput": charts.throughput(lapse, view),
        "lateness": charts.lateness(lapse, view),
        "running": charts.running(lapse, slots, view),
    }


def twin_of(minutes: list[dict[str, Any]], changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The charts as a table: the minutes in which anything was or was done, newest first."""
    done: dict[Instant, list[str]] = {}
    for change in changes:
        done.setdefault(moment(change["at"]), []).append(charts.change_words(change))
    rows = [{**minute, "changes": done.get(moment(minute["at"]), [])} for minute in reversed(minutes)]
    return [row for row in rows if row["ended"] or row["latenessP50Ms"] is not None or row["running"] or row["changes"]]


def causes_of(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What dead letters died of, over all jobs, the most frequent first; each with the part that it is of all."""
    whole = sum(group["count"] for group in groups)
    found: dict[str, dict[str, Any]] = {}
    for group in groups:
        cause = found.setdefault(group["type"] or "Error", {"type": group["type"] or "Error", "count": 0, "jobs": {}})
        cause["count"] += group["count"]
        cause["jobs"][group["jobName"]] = None
    shown = sorted(found.values(), key=lambda cause: -cause["count"])[:MOST_CAUSES]
    for cause in shown:
        cause["jobs"] = list(cause["jobs"])[:MOST_CAUSES]
        cause["bar"] = charts.part(cause["count"], whole, f"{cause['count']} of {whole} dead letters")
    return shown


def _verdict(stats: dict[str, Any], concerns: list[Concern], late: float | None) -> tuple[str, str, str]:
    """How it stands: the tone, the answer, and the figures behind it."""
    hour = stats["lastHour"]
    said = [f"{counted(hour['executions'], 'run')} in the last hour"]
    if late is not None:
        said.append(f"p95 lateness {span(late)}")
    if hour["ended"].get("DEAD"):
        said.append(f"{counted(hour['ended']['DEAD'], 'run')} of them dead")
    said.append(f"{counted(stats['executions'].get('RUNNING', 0), 'run')} now")
    said.append(f"{counted(stats['workers'], 'worker')} live")
    if concerns:
        return "bad", f"{counted(len(concerns), 'thing needs', 'things need')} attention.", ", ".join(said) + "."
    if not sum(stats["jobs"].values()):
        return "idle", "Nothing is declared yet.", "Three steps, and this page comes to life."
    return "good", "All well.", ", ".join(said) + "."


async def _concerns(view: View, stats: dict[str, Any]) -> list[Concern]:
    """What the API tells that somebody should look at, worst first."""
    found: list[Concern] = []
    letters = await view.get("/v1/dead-letters")
    for group in letters["items"][:5]:
        found.append(
            Concern(
                "dead",
                f"{group['jobName']}: {counted(group['count'], 'dead letter')}",
                f"{group['type'] or 'Error'}: {group['message']}"[:200],
                f"/dead-letters?cause={group['cause']}",
                "Look",
            )
        )
    for pool in stats["pools"]:
        waits = 0 if pool["oldestPendingAt"] is None else view.now - moment(pool["oldestPendingAt"])
        if pool["pending"] and not pool["workers"]:
            found.append(
                Concern(
                    "lost",
                    f"Pool {pool['pool']} has no worker",
                    f"{counted(pool['pending'], 'run waits', 'runs wait')} for one.",
                    f"/workers?pool={pool['pool']}",
                    "Workers",
                )
            )
        elif pool["pending"] and waits > WAITED_LONG and pool["running"] >= pool["slots"]:
            detail = f"{counted(pool['pending'], 'run waits', 'runs wait')}, all {pool['slots']} slots are in use."
            found.append(Concern("blocked", f"Pool {pool['pool']} is saturated", detail, f"/workers?pool={pool['pool']}", "Workers"))
    for worker in (await view.get("/v1/workers"))["items"]:
        if worker["state"] == "LOST" and worker["running"]:
            detail = f"It held {counted(worker['running'], 'run')}; they are given to others."
            found.append(Concern("lost", f"Worker {worker['name']} is gone", detail, "/workers", "Workers"))
    for job in (await view.get("/v1/jobs", state="PAUSED", limit=50))["items"]:
        paused = job["pausedAt"]
        if paused is not None and job["pausedUntil"] is None and view.now - moment(paused) > PAUSED_LONG:
            detail = (
                f"By {job['pausedBy'] or 'somebody'}" + (f": {job['pauseReason']}" if job["pauseReason"] else ", without a reason") + "."
            )
            found.append(Concern("paused", f"{job['name']} has been paused for more than a week", detail, f"/jobs/{job['jobId']}", "Job"))
    return found


ROUTES = [show_overview]
