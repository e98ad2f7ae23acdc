"""Links: addresses that show one thing to whoever has them. The token in such an address is 256 random bits; only its hash is kept."""

from __future__ import annotations

import hmac
import re
from hashlib import sha256

from duly.domain.access import Actor, Role
from duly.domain.audit import Deed
from duly.domain.errors import Invalid, NotFound
from duly.domain.ids import JobId, job_text
from duly.domain.instants import DAY, Micros, to_rfc3339
from duly.ports.clock import Clock, Entropy
from duly.ports.dispatch import Idempotency
from duly.ports.links import LinkAddress
from duly.ports.links import Links as LinkStore

PREFIX = "dulylink_"
BADGE, CALENDAR = "badge", "calendar"
KINDS = (BADGE, CALENDAR)
LONGEST: Micros = 3650 * DAY

_LINK = re.compile("[0-9a-f]{16}")


def parse_link_id(text: str) -> str:
    """Read the public id of a link; raises Invalid for anything else."""
    if _LINK.fullmatch(text) is None:
        raise Invalid("DULY-E111", f"{text[:60]!r} is not a link's id.", field="linkId", hint="It has 16 hexadecimal digits.")
    return text


class Links:
    """The use cases on links."""

    def __init__(self, store: LinkStore, clock: Clock, entropy: Entropy) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy

    async def create(
        self, actor: Actor, kind: str, job_id: JobId | None, lasts: Micros | None, idempotency: Idempotency | None = None
    ) -> tuple[LinkAddress, str]:
        """A new link and its token, which is kept nowhere. A badge is one job's; the calendar of one job, or of all."""
        if kind == BADGE and job_id is None:
            raise Invalid("DULY-E106", "is needed for a badge.", field="jobId")
        if lasts is not None and not 0 < lasts <= LONGEST:
            raise Invalid("DULY-E106", "must be more than 0 and at most ten years.", field="expiresInSec")
        token = f"{PREFIX}{self._entropy(256):064x}"
        now = self._clock.now()
        row = LinkAddress(
            _id(token),
            actor.tenant,
            actor.tenant_name,
            kind,
            job_id,
            _hash(token),
            now,
            actor.key_id,
            None if lasts is None else now + lasts,
        )
        after = {"kind": kind, "expiresAt": None if row.expires_at is None else to_rfc3339(row.expires_at)}
        after |= {} if job_id is None else {"jobId": job_text(job_id)}
        deed = Deed(actor, now, "link.create", "link", row.id, job_id, after=after)
        await self._store.add(row, deed=deed, idempotency=idempotency)
        return row, token

    async def find(self, actor: Actor) -> list[LinkAddress]:
        """All of the tenant's."""
        return await self._store.links(actor.tenant)

    async def revoke(self, actor: Actor, id: str) -> LinkAddress:
        """It opens nothing from now on."""
        now = self._clock.now()
        row = await self._store.revoke(actor.tenant, id, now, deed=Deed(actor, now, "link.revoke", "link", id))
        if row is None:
            raise NotFound("DULY-E259", f"There is no link {id}.", field="linkId")
        return row

    async def recognise(self, token: str, kind: str) -> tuple[Actor, LinkAddress] | None:
        """On whose behalf this token shows something of this kind; None: it does not, or not any more."""
        if not token.startswith(PREFIX) or len(token) != len(PREFIX) + 64:
            return None
        row = await self._store.link(_id(token))
        if row is None or row.kind != kind or not hmac.compare_digest(row.hash, _hash(token)) or not row.is_alive(self._clock.now()):
            return None
        return Actor(row.tenant, row.tenant_name, Role.VIEWER, f"link:{row.id}"), row


def _id(token: str) -> str:
    return _hash(token).hex()[:16]


def _hash(token: str) -> bytes:
    # A fast hash is right for a random 256-bit secret: there is nothing to guess.
    return sha256(b"duly link\x00" + token.encode("utf-8", "replace")).digest()
