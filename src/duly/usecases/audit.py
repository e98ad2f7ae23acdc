"""The audit trail: look at it, and check that it is as it was written."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.access import Actor
from duly.domain.audit import Break, Head, check_end, check_links
from duly.domain.errors import NotFound
from duly.ports.audit import Audit, AuditFilter, Listed

# So many links are checked in one call.
MOST_LINKS = 10_000


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
        seq, hash, broken = check_links(after, hash, stretch.links)
        more = broken is None and len(stretch.links) == limit
        if broken is None and not more:
            broken = check_end(seq, hash, head, stretch.stray)
        return Checked(head, seq - after, stretch.waiting, (seq, hash) if more else None, broken)

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
