"""The audit trail: look at it, and check that it is as it was written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from duly.domain.access import Actor
from duly.domain.audit import Break, Head, check_end, check_links, slipped_in
from duly.domain.errors import NotFound
from duly.ports.audit import Audit, AuditFilter, Listed

# So many links are checked in one call, and so many without a pause.
MOST_LINKS = 5_000
AT_ONCE = 250


@dataclass(frozen=True, slots=True)
class Checked:
    """What a walk has found: how far it came, where it goes on (None: it is at the end), and the first break."""

    head: Head
    checked: int
    waiting: int
    following: tuple[int, bytes] | None = None
    broken: Break | None = None


class AuditTrail:
    """The use cases on the audit trail of one's own tenant."""

    def __init__(self, store: Audit) -> None:
        self._store = store

    async def find(self, wanted: AuditFilter) -> list[Listed]:
        """Records in the order that was asked for."""
        return await self._store.records(wanted)

    async def check(self, actor: Actor, start: tuple[int, bytes] | None = None, limit: int = MOST_LINKS) -> Checked:
        """Walk along the chain, from its beginning or from a link (number and hash) that was checked before, at most `limit` links."""
        after, hash = start or (0, b"")
        stretch = await self._store.stretch(actor.tenant, after, limit)
        head = stretch.head
        if start is None or after < head.anchor_seq:
            # The beginning, or the old end was given up while we walked: what is left begins at the anchor.
            after, hash = head.anchor_seq, head.anchor_hash
        seq, broken = after, None
        for first in range(0, len(stretch.links), AT_ONCE):
            seq, hash, broken = check_links(seq, hash, stretch.links[first : first + AT_ONCE])
            if broken is not None:
                break
            # Others have something to ask meanwhile.
            await asyncio.sleep(0)
        is_end = len(stretch.links) < limit
        if broken is None and is_end:
            broken = check_end(seq, hash, head)
        if broken is None and stretch.stray is not None:
            broken = slipped_in(seq, stretch.stray)
        return Checked(head, seq - after, stretch.waiting, None if is_end or broken is not None else (seq, hash), broken)

    async def compare(self, actor: Actor, seq: int, hash: bytes) -> Break | None:
        """Whether a link that was kept elsewhere is still the one of its number. Raises NotFound when it is too old to be there."""
        found = await self._store.link_hash(actor.tenant, seq)
        if found == hash:
            return None
        if found is not None:
            return Break(seq, f"link {seq} is not the one that was kept elsewhere")
        head = (await self._store.stretch(actor.tenant, seq, 1)).head
        if seq < head.anchor_seq:
            raise NotFound("DULY-E274", f"Link {seq} is older than the trail: it begins after link {head.anchor_seq}.", field="expect")
        return Break(head.seq + 1, f"the chain was cut: link {seq} was kept elsewhere, and it ends with link {head.seq}")
