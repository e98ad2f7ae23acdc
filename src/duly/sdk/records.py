"""The API's calls about finished executions for analysis; see `calls`."""

from __future__ import annotations

from datetime import datetime

from duly.domain.instants import from_datetime, to_rfc3339
from duly.sdk.calls import Call, Request
from duly.sdk.encoding import with_query
from duly.wire.records import RecordsView


def list_finished(
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    count_only: bool = False,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[RecordsView]:
    """Finished executions, oldest first, by the time that their ids carry."""
    path = with_query(
        "/v1/executions:finished",
        since=None if since is None else to_rfc3339(from_datetime(since)),
        until=None if until is None else to_rfc3339(from_datetime(until)),
        only="count" if count_only else None,
        limit=limit,
        cursor=cursor,
    )
    return Call(Request("GET", path), RecordsView, True)
