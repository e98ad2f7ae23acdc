"""The audit trail: list it, check its chain."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

from duly.domain.access import Role
from duly.domain.audit import Break, parse_action
from duly.domain.errors import Invalid
from duly.domain.ids import execution_text, parse_execution_id, parse_job_id
from duly.http.cursors import Limit, LogCursor, from_log_cursor, paged
from duly.http.routing import Call, Reply, route
from duly.ports.audit import AuditFilter
from duly.usecases.audit import MOST_LINKS
from duly.wire.audit import AnchorView, AuditView, BreakView, ChainView, LinkView, audit_view
from duly.wire.bulk import JobIdText
from duly.wire.shapes import NO_NUL, Moment, Page, moment, pattern, shown

LINK_PATTERN = "^[0-9]{1,18}:[0-9a-f]{64}$"
_LINK = re.compile(LINK_PATTERN.replace("$", r"\Z"))

FilterText = Annotated[str, Meta(min_length=1, max_length=128, extra_json_schema=NO_NUL)]
LinkText = Annotated[str, Meta(description="A link as number:hash.", extra_json_schema=pattern(LINK_PATTERN))]


class AuditQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which records to list."""

    actor: FilterText | None = None
    action: Annotated[FilterText, Meta(description="An action, such as job.pause, or what it begins with: job.")] | None = None
    job_id: JobIdText | None = None
    execution_id: Annotated[str, Meta(extra_json_schema=pattern("^run_[0-9a-f]{32}$"))] | None = None
    subject: Annotated[FilterText, Meta(description="The id or the name of what it was done to.")] | None = None
    channel: Literal["api", "cli", "sdk", "dashboard", "proxy", "server"] | None = None
    since: Moment | None = None
    until: Moment | None = None
    order: Literal["newest", "oldest"] = "newest"
    limit: Limit = 50
    cursor: LogCursor | None = None


class ChainQuery(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Where to go on, and what must be there."""

    cursor: LinkText | None = None
    expect: LinkText | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LINKS)] = MOST_LINKS


@route("GET", "/v1/audit", role=Role.ADMIN, answer=Page[AuditView], problems=("DULY-E105", "DULY-E111", "DULY-E112"))
async def list_audit(call: Call, query: AuditQuery) -> Reply:
    """Who did what in the key's tenant, newest first"""
    subject = query.subject
    if query.execution_id is not None:
        if subject is not None:
            raise Invalid("DULY-E106", "subject and executionId name the same thing twice.", field="subject", hint="Send one of them.")
        subject = execution_text(parse_execution_id(query.execution_id))
    found = await call.services.audit.find(
        AuditFilter(
            tenant=call.actor.tenant,
            actor=query.actor,
            action=None if query.action is None else parse_action(query.action),
            subject=subject,
            job_id=None if query.job_id is None else parse_job_id(query.job_id),
            channel=query.channel,
            since=moment(query.since, "since"),
            until=moment(query.until, "until"),
            oldest_first=query.order == "oldest",
            past=None if query.cursor is None else from_log_cursor(query.cursor),
            limit=query.limit + 1,
        )
    )
    page, cursor = paged(found, query.limit, lambda listed: str(listed.record.place))
    return Reply(Page(items=[audit_view(listed.record, listed.seq, listed.hash) for listed in page], next_cursor=cursor))


@route("GET", "/v1/audit/verify", role=Role.ADMIN, answer=ChainView, problems=("DULY-E112", "DULY-E274"))
async def verify_audit(call: Call, query: ChainQuery) -> Reply:
    """Walk along the chain of the audit trail, and name the first link that is not as it was written"""
    start, expected = _link(query.cursor, "cursor"), _link(query.expect, "expect")
    checked = await call.services.audit.check(call.actor, start, query.limit)
    head = checked.head
    broken = checked.broken
    if broken is None and expected is not None:
        broken = await call.services.audit.compare(call.actor, *expected)
    return Reply(
        ChainView(
            intact=broken is None,
            checked=checked.checked,
            head=LinkView(seq=head.seq, hash=head.hash.hex()),
            anchor=AnchorView(seq=head.anchor_seq, hash=head.anchor_hash.hex(), at=shown(head.anchor_at)),
            waiting=checked.waiting,
            broken=None if broken is None else _break_view(broken),
            next_cursor=None if checked.following is None else f"{checked.following[0]}:{checked.following[1].hex()}",
        )
    )


def _link(text: str | None, field: str) -> tuple[int, bytes] | None:
    if text is None:
        return None
    if not _LINK.match(text):
        raise Invalid("DULY-E112", "This is not a link of the chain.", field=field, hint="Its number, a colon, and 64 hex digits.")
    number, _, digits = text.partition(":")
    return int(number), bytes.fromhex(digits)


def _break_view(broken: Break) -> BreakView:
    return BreakView(seq=broken.seq, what=broken.what, audit_id=None if broken.record is None else str(broken.record.place))


ROUTES = [list_audit, verify_audit]
