"""Browsers' sessions, as the store has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from duly.domain.audit import Deed
from duly.domain.instants import Instant
from duly.domain.sessions import LinkRow, SessionRow
from duly.ports.dispatch import Idempotency


class SessionStore(Protocol):
    """Sessions and the links that begin them, by the hashes of their secrets. Both end with the key that they came from."""

    async def add_link(self, link: LinkRow, now: Instant, *, deed: Deed | None = None, idempotency: Idempotency | None = None) -> None:
        """A new link. Raises Conflict (DULY-E213) when the idempotency key has made one before."""

    async def begin(
        self,
        link: bytes,
        session: bytes,
        instead_of: bytes | None,
        now: Instant,
        *,
        deed: Callable[[SessionRow], Deed] | None = None,
    ) -> SessionRow | None:
        """Use a link up and begin a session with it, in the place of an older one. None when the link is unknown, used or too old."""

    async def session(self, hash: bytes, now: Instant) -> SessionRow | None:
        """A session whose key lives; whether it has been idle for too long is the caller's to judge."""

    async def end(self, hash: bytes, *, deed: Deed | None = None) -> None:
        """The session is gone."""

    async def touch_sessions(self, used: Mapping[bytes, Instant]) -> None:
        """Note when sessions were last used; an older time changes nothing."""

    async def drop_ended(self, now: Instant) -> None:
        """Forget links and sessions that have ended."""

    async def tenant(self, name: str) -> int | None:
        """The number of a tenant by its name."""
