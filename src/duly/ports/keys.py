"""API keys, as the store has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from duly.domain.audit import Deed
from duly.domain.instants import Instant


@dataclass(frozen=True, slots=True)
class KeyRow:
    """An API key as the store has it: never the secret."""

    id: str
    tenant: int
    tenant_name: str
    role: str
    name: str
    hash: bytes
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None


class Keys(Protocol):
    """API keys."""

    async def key(self, id: str) -> KeyRow | None:
        """A key by its public id."""

    async def add_key(self, row: KeyRow, *, deed: Deed | None = None) -> bool:
        """False when a key of that id exists already."""

    async def keys(self, tenant: int) -> list[KeyRow]:
        """Every key of the tenant, oldest first, revoked ones too."""

    async def revoke_key(self, tenant: int, id: str, now: Instant, *, deed: Deed | None = None) -> KeyRow | None:
        """The key opens nothing from now on; revoking it again changes nothing. None when the tenant has no such key."""

    async def any_admin_key(self) -> bool:
        """Whether somebody can administer this store."""
