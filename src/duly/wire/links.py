"""Links on the wire."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from duly.domain.ids import job_text
from duly.domain.instants import to_rfc3339
from duly.domain.links import LinkAddress
from duly.wire.shapes import Shape, View, pattern, shown


class LinkKind(StrEnum):
    """What a link shows."""

    BADGE = "badge"
    CALENDAR = "calendar"


class LinkShape(Shape, kw_only=True):
    """A link to be made. A badge is one job's; a calendar has the fires of one job, or of all."""

    kind: LinkKind
    job_id: Annotated[str, Meta(extra_json_schema=pattern("^job_[0-9a-f]{32}$"))] | None = None
    expires_in_sec: Annotated[float, Meta(gt=0, le=315_360_000)] | None = None


class LinkView(View, kw_only=True):
    """A link, without what opens it."""

    link_id: str
    kind: str
    job_id: str | None
    created_at: str
    created_by: str
    expires_at: str | None
    revoked_at: str | None


class NewLinkView(LinkView, kw_only=True):
    """A link that was just made. `path` has the token that opens it, and is shown this once."""

    path: str


def link_fields(link: LinkAddress) -> dict[str, str | None]:
    """What every view of a link has."""
    return {
        "link_id": link.id,
        "kind": link.kind,
        "job_id": None if link.job_id is None else job_text(link.job_id),
        "created_at": to_rfc3339(link.created_at),
        "created_by": link.created_by,
        "expires_at": shown(link.expires_at),
        "revoked_at": shown(link.revoked_at),
    }
