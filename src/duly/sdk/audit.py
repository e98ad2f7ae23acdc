"""The API's calls about the audit trail; see `calls`."""

from __future__ import annotations

from datetime import datetime

from duly.domain.instants import from_datetime, to_rfc3339
from duly.sdk.calls import Call, Request
from duly.sdk.encoding import with_query
from duly.wire.audit import AuditView, ChainView
from duly.wire.shapes import Page


def list_audit(
    *,
    actor: str | None = None,
    action: str | None = None,
    job_id: str | None = None,
    execution_id: str | None = None,
    subject: str | None = None,
    channel: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    oldest_first: bool = False,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[AuditView]]:
    """Records of the audit trail, newest first unless the oldest are wanted first."""
    path = with_query(
        "/v1/audit",
        actor=actor,
        action=action,
        jobId=job_id,
        executionId=execution_id,
        subject=subject,
        channel=channel,
        since=None if since is None else to_rfc3339(from_datetime(since)),
        until=None if until is None else to_rfc3339(from_datetime(until)),
        order="oldest" if oldest_first else None,
        limit=limit,
        cursor=cursor,
    )
    return Call(Request("GET", path), Page[AuditView], True)


def verify_audit(*, expect: str | None = None, cursor: str | None = None) -> Call[ChainView]:
    """Check some of the chain; `next_cursor` of the answer says where to go on. `expect` is a link that was kept elsewhere."""
    return Call(Request("GET", with_query("/v1/audit/verify", expect=expect, cursor=cursor)), ChainView, True)
