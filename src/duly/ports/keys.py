"""API keys, as the store has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from duly.domain.audit import Deed
from duly.domain.instants import Instant, Micros
from duly.domain.keys import KeyRow, Minted
from duly.ports.dispatch import Idempotency

__all__ = ["KeyRow", "Keys"]


class Keys(Protocol):
    """API keys."""

    async def key(self, id: str) -> KeyRow | None:
        """A key by its public id."""

    async def add_key(self, row: KeyRow, *, deed: Deed | None = None, idempotency: Idempotency | None = None) -> bool:
        """False when a key of that id exists already. Raises Conflict (DULY-E213) when the idempotency key has made one before."""

    async def keys(self, tenant: int) -> list[KeyRow]:
        """Every key of the tenant, oldest first, revoked ones too."""

    async def revoke_key(self, tenant: int, id: str, now: Instant, *, deed: Deed | None = None) -> KeyRow | None:
        """The key opens nothing from now on; revoking it again changes nothing. None when the tenant has no such key.

        Raises Conflict when it is the last one that can administer the tenant: of two who revoke one another, one stays.
        """

    async def rotate_key(
        self,
        tenant: int,
        id: str,
        minted: Minted,
        overlap: Micros,
        lasts: Micros | None,
        now: Instant,
        *,
        deed: Deed | None = None,
        idempotency: Idempotency | None = None,
    ) -> tuple[KeyRow, KeyRow] | None:
        """A new key in the place of an old one, which ends after the overlap: (old, new). None when the tenant has no such key.

        Raises Conflict for a key that has ended, when the tenant would be left without anybody to administer it, and (DULY-E213) when
        the idempotency key has rotated it before.
        """

    async def any_admin_key(self, tenant: int, now: Instant) -> bool:
        """Whether somebody can administer the tenant."""

    async def any_key(self, now: Instant) -> bool:
        """Whether anybody can ask anything at all."""

    async def touch_keys(self, used: Mapping[str, Instant]) -> None:
        """Note when keys were last used; an older time changes nothing."""
