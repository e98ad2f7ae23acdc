"""Sessions of browsers: a link that works once begins one; it does what its key may, or less, and ends with it.

Tokens and session ids are 256 random bits, kept as hashes only, like keys. The token against forged requests is derived from
the session's id, so whoever does not have the cookie cannot know it.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from hashlib import sha256

from duly.domain.access import Actor, Role
from duly.domain.audit import Deed
from duly.domain.errors import Forbidden
from duly.domain.instants import MINUTE, Instant, Micros
from duly.domain.sessions import LINK_LASTS, LinkRow, SessionRow
from duly.ports.clock import Clock, Entropy
from duly.ports.dispatch import Idempotency
from duly.ports.sessions import SessionStore
from duly.usecases.access import TRUSTED_FOR, is_key_shaped, new_secret
from duly.usecases.uses import Uses

# A browser is given its cookie anew when the last use that was written down lies that far back.
RENEW_AFTER: Micros = 10 * MINUTE
MOST_TRUSTED = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    """A session that was recognised. `renew` says that its cookie should be given anew, to last until `ends_at`."""

    id: str
    actor: Actor
    ends_at: Instant
    renew: bool = False

    @property
    def csrf_token(self) -> str:
        """What every request that changes something must carry."""
        return csrf_token(self.id)


class Sessions:
    """The sessions that begin, go on and end here. Like keys they are trusted for a few seconds without a look at the store."""

    def __init__(self, store: SessionStore, clock: Clock, entropy: Entropy) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self._known: dict[str, tuple[Micros, SessionRow]] = {}
        self._tenants: dict[str, tuple[Micros, int]] = {}
        self.uses: Uses[bytes] = Uses()

    async def link(self, actor: Actor, role: Role | None = None, idempotency: Idempotency | None = None) -> tuple[str, LinkRow]:
        """A token for one login within five minutes, as the actor's role or a lower one. It ends with the actor's key."""
        if not actor.has_key:
            raise Forbidden("DULY-E313", "A link is made with a key, not from within a session.", field="Authorization")
        wanted = actor.role if role is None else role
        if wanted > actor.role:
            raise Forbidden("DULY-E303", f"This needs the role {wanted.name}; the key has {actor.role.name}.", field="role")
        token = new_secret(self._entropy)
        now = self._clock.now()
        link = LinkRow(_hash("link", token), actor.tenant, actor.key_id, wanted.name, now + LINK_LASTS)
        deed = Deed(actor, now, "session.link", "key", actor.key_id, after={"role": wanted.name})
        await self._store.add_link(link, now, deed=deed, idempotency=idempotency)
        return token, link

    async def log_in(self, token: str, instead_of: str | None = None, request_id: str | None = None) -> Session:
        """Begin a session with a link's token, always under a new id; a session that the browser still had ends.

        Raises Forbidden (DULY-E312) when the token is unknown, used, too old, or its key has ended: which, is not said.
        """
        id, now = new_secret(self._entropy), self._clock.now()
        before = None if instead_of is None else _hash("session", instead_of)

        def deed(row: SessionRow) -> Deed:
            actor = replace(_actor(row), request_id=request_id)
            return Deed(actor, now, "session.begin", "key", row.key_id, after={"role": row.role})

        hashes = (_hash("link", token), _hash("session", id), before)
        row = await self._store.begin(*hashes, now, deed=deed) if is_key_shaped(token) else None
        if row is None:
            raise Forbidden("DULY-E312", "The link is not valid: it was used, or it is too old.", field="token")
        self._known.pop(instead_of or "", None)
        return Session(id, _actor(row), row.ends_at())

    async def recognise(self, id: str, *, is_use: bool = True) -> Session | None:
        """The session of an id; None when it is unknown, has ended, or its key has. To look whether a stream may go on is no use."""
        asked, now = self._clock.boottime(), self._clock.now()
        known = self._known.get(id)
        if known is None or not 0 <= asked - known[0] < TRUSTED_FOR:
            self._known.pop(id, None)
            row = await self._store.session(_hash("session", id), now) if is_key_shaped(id) else None
            if row is None:
                return None
            if len(self._known) > MOST_TRUSTED:
                self._known.clear()
            known = self._known[id] = (asked, row)
        row = known[1]
        if row.ends_at() <= now:
            return None
        if is_use:
            self.uses.note(row.hash, now)
        return Session(id, _actor(row), row.ends_at(now), renew=now - row.used_at >= RENEW_AFTER)

    async def log_out(self, actor: Actor, id: str) -> None:
        """The session is over: at once here, within seconds elsewhere."""
        self._known.pop(id, None)
        await self._store.end(_hash("session", id), deed=Deed(actor, self._clock.now(), "session.end", "key", actor.key_id))

    async def tenant(self, name: str) -> int | None:
        """The number of a tenant by its name."""
        now = self._clock.boottime()
        known = self._tenants.get(name)
        if known is not None and 0 <= now - known[0] < TRUSTED_FOR:
            return known[1]
        number = await self._store.tenant(name)
        if number is not None:
            self._tenants[name] = (now, number)
        return number


def csrf_token(secret: str, whose: str = "") -> str:
    """The token against forged requests that belongs to a cookie's secret."""
    return hmac.new(secret.encode(), f"duly csrf\x00{whose}".encode(), sha256).hexdigest()


def _actor(row: SessionRow) -> Actor:
    return Actor(row.tenant, row.tenant_name, Role[row.role], row.key_id, channel="dashboard")


def _hash(kind: str, secret: str) -> bytes:
    # Of another kind than keys, and than one another: no one of them can stand for the other.
    return sha256(f"duly {kind}\x00{secret}".encode()).digest()
