"""Dead letters: grouped by what they died of, replayed with care, followed while they are."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from duly.dashboard.commands import commands
from duly.dashboard.view import PageQuery, View, page
from duly.http.routing import Call, Reply

SHOWN_LETTERS = 50


class LettersQuery(PageQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which letters: of a job, of a cause. `batch` follows a replay."""

    cause: Annotated[str, Meta(max_length=64)] | None = None
    job_id: Annotated[str, Meta(max_length=64)] | None = None
    batch: Annotated[str, Meta(max_length=64)] | None = None
    cursor: str | None = None


@page("/dead-letters")
async def show_dead_letters(call: Call, query: LettersQuery) -> Reply:
    """The dead letters"""
    view = await View.of(call, "/dead-letters", query)
    wanted = {"cause": query.cause, "jobId": query.job_id}
    context: dict[str, Any] = {"groups": [], "letters": [], "following": None, "batch": None, "whole": 0, "complete": True}
    if view.wants("groups"):
        answer = await view.get("/v1/dead-letters", **wanted)
        context |= {"groups": answer["items"], "whole": answer["letters"], "complete": answer["complete"]}
    if (query.cause or query.job_id) and view.wants("letters"):
        answer = await view.get("/v1/dead-letters/open", **wanted, limit=SHOWN_LETTERS, cursor=query.cursor)
        context |= {"letters": answer["items"], "following": answer["nextCursor"]}
    if query.batch and view.wants("batch"):
        context["batch"] = await view.get(f"/v1/batches/{query.batch}")
    return view.page("dead_letters", "Dead letters", commands("duly dead list", "/v1/dead-letters", **wanted), **context)


ROUTES = [show_dead_letters]
