"""Alerts: what is wrong and since when, who was told, what is watched, and which fires are missing."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import Meta

from duly.dashboard.commands import Commands, commands
from duly.dashboard.view import PageQuery, View, page
from duly.dashboard.words import counted
from duly.domain.alerts.evaluate import INCIDENT_PREFIX
from duly.http.routing import Call, Reply

PER_PAGE = 25
TITLES = {"open": "Alerts", "past": "Past incidents", "rules": "Alert rules", "channels": "Alert channels", "missed": "Missed fires"}


class AlertsQuery(PageQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which tab, and which incidents: of a rule."""

    tab: Literal["open", "past", "rules", "channels", "missed"] = "open"
    rule: Annotated[str, Meta(max_length=64)] | None = None
    cursor: str | None = None


@page("/alerts")
async def show_alerts_page(call: Call, query: AlertsQuery) -> Reply:
    """The alerts"""
    view = await View.of(call, "/alerts", query)
    context: dict[str, Any] = {"rules": [], "channels": [], "incidents": [], "missed": None, "following": None}
    if view.wants("verdict", "rules"):
        context["rules"] = (await view.get("/v1/alert-rules"))["items"]
    if view.wants("verdict", "channels"):
        context["channels"] = (await view.get("/v1/alert-channels"))["items"]
    if view.wants("verdict", "rules"):
        answer = await view.get("/v1/alerts", state="OPEN", limit=200)
        context |= {"standing": answer["items"], "many": answer["nextCursor"] is not None}
        gone = await view.get("/v1/missed-fires", state="OPEN", limit=1)
        context["verdict"] = _verdict(context, gone)
    if query.tab in ("open", "past") and view.wants("incidents"):
        state = "OPEN" if query.tab == "open" else "RESOLVED"
        answer = await view.get("/v1/alerts", state=state, rule=query.rule, limit=PER_PAGE, cursor=query.cursor)
        # Of whom was told only the answer about one incident knows.
        context["incidents"] = await asyncio.gather(*(view.get(f"/v1/alerts/{each['incidentId']}") for each in answer["items"]))
        context["following"] = answer["nextCursor"]
    if query.tab == "missed" and view.wants("missed"):
        context["missed"] = answer = await view.get("/v1/missed-fires", limit=PER_PAGE, cursor=query.cursor)
        context["following"] = answer["nextCursor"]
    title = TITLES[query.tab] + (f" of {query.rule}" if query.rule else "")
    return view.page("alerts", title, _commands(query), **context)


@page("/alerts/{incidentId}")
async def show_incident_page(call: Call, incident_id: UUID, query: PageQuery) -> Reply:
    """One incident"""
    id = f"{INCIDENT_PREFIX}{incident_id.hex}"
    view = await View.of(call, f"/alerts/{id}", query)
    incident = await view.get(f"/v1/alerts/{id}")
    mark = "✓ " if incident["state"] == "RESOLVED" else "✗ "
    return view.page(
        "incident",
        f"{mark}{incident['title']}",
        commands(f"duly alert show {id}", f"/v1/alerts/{id}"),
        incident=incident,
        section="/alerts",
    )


def _verdict(context: dict[str, Any], missed: dict[str, Any]) -> tuple[str, str, str]:
    """How it stands: the tone, the answer, and the figures behind it."""
    standing, rules = context["standing"], [rule for rule in context["rules"] if rule["enabled"]]
    untold = sum(not incident["isTold"] for incident in standing)
    said = [f"{counted(len(rules), 'rule watches', 'rules watch')}, {counted(len(context['channels']), 'channel is', 'channels are')} told"]
    if untold:
        said.append(f"nobody was told of {untold} of the incidents")
    if missed["openCount"]:
        said.append(f"{counted(missed['openCount'], 'fire is', 'fires are')} missing")
    figures = "; ".join(said) + "."
    if standing:
        more = " or more" if context["many"] else ""
        return "bad", f"{counted(len(standing), 'incident')}{more} open.", figures
    if missed["openCount"]:
        return "bad", f"{counted(missed['openCount'], 'fire is', 'fires are')} missing.", figures
    if not rules:
        return "idle", "Nothing is watched.", "Without a rule nobody is told when something goes wrong."
    return "good", "Nothing is wrong.", figures


def _commands(query: AlertsQuery) -> Commands:
    of_rule = f" --rule {query.rule}" if query.rule else ""
    match query.tab:
        case "open":
            return commands(f"duly alert list{of_rule}", "/v1/alerts", state="OPEN", rule=query.rule)
        case "past":
            return commands(f"duly alert list --all{of_rule}", "/v1/alerts", state="RESOLVED", rule=query.rule)
        case "rules":
            return commands("duly alert rules", "/v1/alert-rules")
        case "channels":
            return commands("duly alert channels", "/v1/alert-channels")
        case "missed":
            return commands("duly alert missed --all", "/v1/missed-fires")


ROUTES = [show_alerts_page, show_incident_page]
