"""The audit trail on the wire."""

from __future__ import annotations

from typing import Any

from duly.domain.audit import Record, content
from duly.wire.shapes import View


class AuditView(View, kw_only=True):
    """One record. All but `hash` is what the link vouches for; `seq` and `hash` are null until it has one, which takes seconds."""

    audit_id: str
    seq: int | None
    at: str
    actor: str
    role: str
    channel: str
    request_id: str | None
    action: str
    kind: str
    subject: str
    job_id: str | None
    reason: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    hash: str | None


class LinkView(View, kw_only=True):
    """A link of the chain: its number and its hash."""

    seq: int
    hash: str


class AnchorView(View, kw_only=True):
    """The last link that was kept long enough and is gone, and when its record was made."""

    seq: int
    hash: str
    at: str | None


class BreakView(View, kw_only=True):
    """The first place at which the chain is not as it was written."""

    seq: int
    what: str
    audit_id: str | None


class ChainView(View, kw_only=True):
    """What a walk along the chain has found. Keep the head elsewhere: it shows later whether the end was cut off."""

    intact: bool
    checked: int
    head: LinkView
    anchor: AnchorView
    waiting: int
    broken: BreakView | None
    next_cursor: str | None


def audit_view(record: Record, seq: int | None, hash: bytes | None) -> AuditView:
    """A record as the API answers it, with its link if it has one."""
    fields = content(record, seq)
    return AuditView(
        audit_id=fields["auditId"],
        seq=fields["seq"],
        at=fields["at"],
        actor=fields["actor"],
        role=fields["role"],
        channel=fields["channel"],
        request_id=fields["requestId"],
        action=fields["action"],
        kind=fields["kind"],
        subject=fields["subject"],
        job_id=fields["jobId"],
        reason=fields["reason"],
        before=fields["before"],
        after=fields["after"],
        hash=None if hash is None else hash.hex(),
    )
