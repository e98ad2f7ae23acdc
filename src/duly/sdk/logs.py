"""The API's calls about the logs of a job's executions; see `calls` for those of one."""

from __future__ import annotations

from datetime import datetime

from duly.domain.instants import from_datetime, to_rfc3339
from duly.sdk.calls import Call, Request
from duly.sdk.encoding import with_query
from duly.wire.executions import FoundLineView
from duly.wire.shapes import Page


def list_job_logs(
    job_id: str,
    *,
    level: str | None = None,
    contains: str | None = None,
    since: datetime | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[FoundLineView]]:
    """What a job's executions logged, newest execution first, each in order."""
    from_then_on = None if since is None else to_rfc3339(from_datetime(since))
    path = with_query(f"/v1/jobs/{job_id}/logs", level=level, contains=contains, since=from_then_on, limit=limit, cursor=cursor)
    return Call(Request("GET", path), Page[FoundLineView], True)
