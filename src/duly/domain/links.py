"""Links: addresses that show one thing to whoever has them."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.ids import JobId
from duly.domain.instants import Instant


@dataclass(frozen=True, slots=True)
class LinkAddress:
    """A link as the store has it: never its token."""

    id: str
    tenant: int
    tenant_name: str
    kind: str
    job_id: JobId | None
    hash: bytes
    created_at: Instant
    created_by: str
    expires_at: Instant | None = None
    revoked_at: Instant | None = None

    def is_alive(self, now: Instant) -> bool:
        """Whether it opens anything."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
