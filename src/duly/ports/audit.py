"""The audit trail, as the store offers it. Writing is no part of it: a deed goes with the change that it records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from duly.domain.audit import Head, Link, Record
from duly.domain.ids import JobId
from duly.domain.instants import Instant


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which records to list, past a place: newest first, or oldest first. `action` is how actions begin: `job` or `job.pause`."""

    tenant: int
    actor: str | None = None
    action: str | None = None
    subject: str | None = None
    job_id: JobId | None = None
    channel: str | None = None
    since: Instant | None = None
    until: Instant | None = None
    oldest_first: bool = False
    past: int | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Listed:
    """A record, and its link once it has one."""

    record: Record
    seq: int | None
    hash: bytes | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some links of a chain in one snapshot, with its head; `stray` is a record beside them that has none and should;
    at the end, `waiting` have none yet."""

    head: Head
    links: list[Link]
    stray: Record | None = None
    waiting: int = 0


class Audit(Protocol):
    """Reading, linking and, in the end, forgetting."""

    async def records(self, wanted: AuditFilter) -> list[Listed]:
        """Records of the tenant, those without a link too."""

    async def stretch(self, tenant: int, after: int, limit: int) -> Stretch:
        """The links after the number `after`, or after the anchor if that lies further on, at most `limit`, in order."""

    async def link_hash(self, tenant: int, seq: int) -> bytes | None:
        """The hash of one link; None when there is none of that number (any more)."""

    async def link(self, limit: int) -> int:
        """Link records that nothing can come before any more, at most `limit`; answers how many. Any number may try at once."""

    async def forget(self, before: Instant, limit: int) -> int:
        """Remove linked records older than `before` from the old end of every chain; the anchor keeps the rest checkable."""
