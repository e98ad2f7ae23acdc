"""Sessions of browsers: they begin with a link that works once, go on while they are used, and end with the key they came from."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.instants import DAY, HOUR, MINUTE, Instant, Micros

LINK_LASTS: Micros = 5 * MINUTE
IDLE: Micros = 12 * HOUR
LONGEST: Micros = 7 * DAY


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A one-time link as the store has it: the hash of its token, and what a session that begins with it may do."""

    hash: bytes
    tenant: int
    key_id: str
    role: str
    expires_at: Instant


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as the store has it: the hash of its id, never the id."""

    hash: bytes
    tenant: int
    tenant_name: str
    key_id: str
    role: str
    created_at: Instant
    used_at: Instant

    def ends_at(self, used_at: Instant | None = None) -> Instant:
        """When it ends unless it is used again (or, with `used_at`, once it was used then): idle too long, or simply too old."""
        return min((self.used_at if used_at is None else used_at) + IDLE, self.created_at + LONGEST)
