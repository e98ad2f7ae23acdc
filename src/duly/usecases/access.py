"""Keys: making, recognising and bootstrapping them. Secrets are 256 random bits and never stored, only their hash."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Protocol

from duly.domain.access import BY_SERVER, DEFAULT_TENANT, DEFAULT_TENANT_NUMBER, Actor, Role
from duly.domain.audit import Deed
from duly.domain.errors import Invalid, NotFound
from duly.domain.homes import Standing, on_its_way
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.keys import KeyRow, Minted, check_name, check_pools, shown_prefix
from duly.ports.clock import Clock, Entropy
from duly.ports.dispatch import Idempotency
from duly.ports.keys import Keys
from duly.usecases.deeds import key_created
from duly.usecases.uses import Uses

PREFIX = "duly_"
# A key is looked up again after this long, so a revocation takes effect everywhere within it.
TRUSTED_FOR: Micros = 3 * SECOND


class Access:
    """Recognises keys. Answers are kept for a few seconds, so that a busy client does not cost a query each time."""

    def __init__(self, store: Keys, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, tuple[Instant, Actor]] = {}
        self.uses: Uses[str] = Uses()

    async def recognise(self, secret: str) -> Actor | None:
        """The actor behind a key; None when it is unknown, expired or revoked, or when its tenant has left this store.

        Raises TooMany (DULY-E405) when its tenant has not arrived here yet.
        """
        now = self._clock.boottime()
        known = self._known.get(secret)
        if known is not None and 0 <= now - known[0] < TRUSTED_FOR:
            self.uses.note(known[1].key_id, self._clock.now())
            return known[1]
        self._known.pop(secret, None)
        if not is_key_shaped(secret):
            return None
        row = await self._store.key(key_id(secret))
        if row is None or not hmac.compare_digest(row.hash, _hash(secret)) or not row.is_alive(self._clock.now()):
            return None
        if row.standing is Standing.GONE:
            return None
        if row.standing is Standing.ARRIVING:
            raise on_its_way()
        actor = _actor(row)
        if len(self._known) > 10_000:
            self._known.clear()
        self._known[secret] = (now, actor)
        self.uses.note(row.id, self._clock.now())
        return actor


class Keyring:
    """The keys of a tenant, for its administrators."""

    def __init__(self, store: Keys, clock: Clock, entropy: Entropy) -> None:
        self._store = store
        self._clock = clock
        self._entropy = entropy

    async def create(
        self,
        actor: Actor,
        role: Role,
        name: str,
        lasts: Micros | None = None,
        pools: tuple[str, ...] | None = None,
        idempotency: Idempotency | None = None,
    ) -> tuple[KeyRow, str]:
        """A new key and its secret, which is kept nowhere. The name is for people and need not be unique.

        `pools` are those that a worker's key opens; None are all of them.
        """
        check_name(name)
        check_pools(role, pools)
        now = self._clock.now()
        secret = new_secret(self._entropy)
        row = KeyRow(
            id=key_id(secret),
            tenant=actor.tenant,
            tenant_name=actor.tenant_name,
            role=role.name,
            name=name,
            hash=_hash(secret),
            created_at=now,
            expires_at=None if lasts is None else now + lasts,
            prefix=shown_prefix(secret),
            pools=pools,
            lasts=lasts,
        )
        await self._store.add_key(row, deed=key_created(actor, row), idempotency=idempotency)
        return row, secret

    async def all(self, actor: Actor) -> list[KeyRow]:
        """Every key of the tenant, oldest first, revoked ones too."""
        return await self._store.keys(actor.tenant)

    async def revoke(self, actor: Actor, id: str) -> KeyRow:
        """The key opens nothing any more. Raises NotFound when the tenant has none of that id.

        Raises Conflict (DULY-E306) when nobody could administer the tenant after it.
        """
        now = self._clock.now()
        row = await self._store.revoke_key(actor.tenant, id, now, deed=Deed(actor, now, "key.revoke", "key", id))
        if row is None:
            raise _no_such_key(id)
        return row

    async def rotate(
        self, actor: Actor, id: str, overlap: Micros, lasts: Micros | None = None, idempotency: Idempotency | None = None
    ) -> tuple[KeyRow, KeyRow, str]:
        """A new key in the place of an old one: (old, new, the new secret). Both work until the overlap is over.

        It may be repeated when an answer was lost: a secret that nobody saw is in nobody's hands, and its key can be revoked.
        """
        secret = new_secret(self._entropy)
        minted = Minted(key_id(secret), _hash(secret), shown_prefix(secret))
        now = self._clock.now()
        deed = Deed(actor, now, "key.rotate", "key", id, after={"replacedBy": minted.id, "overlapSec": overlap / SECOND})
        found = await self._store.rotate_key(actor.tenant, id, minted, overlap, lasts, now, deed=deed, idempotency=idempotency)
        if found is None:
            raise _no_such_key(id)
        return *found, secret


class Keeper(Protocol):
    """Where a key that is made here is kept for its owner."""

    def __call__(self, secret: str, instead_of: str | None = None) -> str:
        """Keep a secret durably and return it. One that is kept already stays and is returned, unless it is `instead_of`."""


async def ensure_admin_key(store: Keys, wanted: str | None, now: Instant, entropy: Entropy, keep: Keeper) -> str | None:
    """See to it that somebody can administer the store: `wanted` if given, else a new key when none is alive.

    A new key is kept before the store knows it, and one that is kept is used again: whenever we are interrupted, and however
    many processes start at once, the key that is kept works in the end. Returns the secret only when it was made here: it is
    shown once and cannot be read again.
    """
    if wanted is not None:
        if not is_key_shaped(wanted):
            hint = "For example: duly_$(openssl rand -hex 32)"
            raise Invalid("DULY-E601", "DULY_ADMIN_KEY must have 8 to 200 visible ASCII characters.", hint=hint)
        await _add_admin(store, wanted, now)
        return None
    if await store.any_admin_key(DEFAULT_TENANT_NUMBER, now):
        return None
    made = new_secret(entropy)
    secret = keep(made)
    if not await _add_admin(store, secret, now) and not await _is_alive(store, secret, now):
        # The kept one was revoked, and stays so.
        secret = keep(made, instead_of=secret)
        await _add_admin(store, secret, now)
    return made if secret == made else None


async def _add_admin(store: Keys, secret: str, now: Instant) -> bool:
    row = _admin_row(secret, now)
    server = Actor(row.tenant, row.tenant_name, Role.ADMIN, BY_SERVER, channel=BY_SERVER)
    return await store.add_key(row, deed=key_created(server, row))


async def _is_alive(store: Keys, secret: str, now: Instant) -> bool:
    row = await store.key(key_id(secret))
    return row is not None and row.is_alive(now)


def is_key_shaped(secret: str) -> bool:
    """Whether it could be a key at all: 8 to 200 visible ASCII characters. Keys made here start with `duly_`."""
    return 8 <= len(secret) <= 200 and all("!" <= c <= "~" for c in secret)


def key_id(secret: str) -> str:
    """The public id of a key: derived from its hash, safe to show, to log and to index."""
    return _hash(secret).hex()[:16]


def new_secret(entropy: Entropy) -> str:
    """256 random bits, as everything secret of ours looks."""
    return f"{PREFIX}{entropy(256):064x}"


def _hash(secret: str) -> bytes:
    # A fast hash is right for a random 256-bit secret: there is nothing to guess.
    return sha256(b"duly key\x00" + secret.encode()).digest()


def _admin_row(secret: str, now: Instant) -> KeyRow:
    return KeyRow(
        id=key_id(secret),
        tenant=DEFAULT_TENANT_NUMBER,
        tenant_name=DEFAULT_TENANT,
        role=Role.ADMIN.name,
        name="first admin key",
        hash=_hash(secret),
        created_at=now,
        prefix=shown_prefix(secret),
    )


def _actor(row: KeyRow) -> Actor:
    return Actor(
        tenant=row.tenant,
        tenant_name=row.tenant_name,
        role=Role[row.role],
        key_id=row.id,
        family=row.family or row.id,
        pools=None if row.pools is None else frozenset(row.pools),
    )


def _no_such_key(id: str) -> NotFound:
    return NotFound("DULY-E225", f"There is no key {id}.", field="keyId")
