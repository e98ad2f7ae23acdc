"""Executions: the list, searched by anything."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from duly.dashboard.commands import commands
from duly.dashboard.terms import EXECUTION_KEYS, parse
from duly.dashboard.view import PageQuery, View, page
from duly.domain.errors import Invalid
from duly.http.routing import Call, Reply

PER_PAGE = 50
FLAGS = ("state", "since", "until")


class ExecutionsQuery(PageQuery, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which executions: `q` has `key:value` terms, and a word is a job's name."""

    q: Annotated[str, Meta(max_length=400)] = ""
    cursor: str | None = None


@page("/executions")
async def show_executions(call: Call, query: ExecutionsQuery) -> Reply:
    """The executions"""
    view = await View.of(call, "/executions", query)
    terms = parse(query.q, EXECUTION_KEYS, view.now)
    wanted: dict[str, str] = dict(terms.wanted)
    if terms.words:
        wanted.setdefault("jobName", terms.words)
    answer: dict[str, Any] = {"items": [], "nextCursor": None}
    trouble = terms.trouble
    if trouble is None:
        try:
            answer = await view.get("/v1/executions", **wanted, limit=PER_PAGE, cursor=query.cursor)
        except Invalid as error:
            trouble = f"{error.field}: {error.message}"
    return view.page(
        "executions",
        f"Executions: {query.q}" if query.q else "Executions",
        commands(
            "duly run list"
            + "".join(f" --{name} {value.lower() if name == 'state' else value}" for name, value in wanted.items() if name in FLAGS),
            "/v1/executions",
            **wanted,
        ),
        runs=answer["items"],
        following=answer["nextCursor"],
        trouble=trouble,
        keys=EXECUTION_KEYS,
    )


ROUTES = [show_executions]
