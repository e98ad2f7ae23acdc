"""Finished executions for analysis: what `duly export` reads."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from duly.domain.access import Role
from duly.domain.instants import LATEST
from duly.http.cursors import Cursor, from_cursor, to_cursor
from duly.http.routing import Call, Reply, route
from duly.wire.records import RecordsView, record_view
from duly.wire.shapes import Moment, moment


class Only(StrEnum):
    """What may be asked for instead of everything."""

    COUNT = "count"


class RecordQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which stretch of history, by the time that ids carry: when an execution was asked for, or what its schedule named."""

    since: Annotated[Moment, Meta(description="From this time on.")] | None = None
    until: Annotated[Moment, Meta(description="To before this time.")] | None = None
    only: Annotated[Only, Meta(description="Only how many there are: quick, and without items.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="How many executions are looked at.")] = 500
    cursor: Cursor | None = None


@route(
    "GET", "/v1/executions:finished", role=Role.VIEWER, answer=RecordsView, problems=("DULY-E105", "DULY-E106", "DULY-E112", "DULY-E120")
)
async def list_finished(call: Call, query: RecordQuery) -> Reply:
    """Read finished executions for analysis, oldest first; a page may have fewer than `limit`, even none, and still a next one"""
    since = moment(query.since, "since") or 0
    until = moment(query.until, "until")
    after = from_cursor(query.cursor, call.listing)
    found = await call.services.records.stretch(
        call.actor, since, LATEST if until is None else until, after, query.limit, counted_only=query.only is Only.COUNT
    )
    return Reply(
        RecordsView(
            items=[record_view(record) for record in found.records],
            finished=found.finished,
            unfinished=found.unfinished,
            next_cursor=None if found.reached is None else to_cursor(found.reached, call.listing),
        )
    )


ROUTES = [list_finished]
