"""The life of a key: whether it lives, what comes after it, and why the last one that can administer a tenant must stay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from duly.domain.access import Role
from duly.domain.errors import Conflict, Invalid
from duly.domain.homes import Standing
from duly.domain.instants import Instant, Micros
from duly.domain.job import POOL

PREFIX_LENGTH = 12


@dataclass(frozen=True, slots=True)
class KeyRow:
    """An API key as the store has it: never the secret.

    Keys that were rotated from one another are one `family`, named by the first of them. `lasts` is how long it was made for,
    whatever became of its end since; `pools` None are all of them.
    """

    id: str
    tenant: int
    tenant_name: str
    role: str
    name: str
    hash: bytes
    created_at: Instant
    expires_at: Instant | None = None
    revoked_at: Instant | None = None
    prefix: str | None = None
    pools: tuple[str, ...] | None = None
    lasts: Micros | None = None
    replaces: str | None = None
    replaced_by: str | None = None
    family: str | None = None
    last_used_at: Instant | None = None
    # How its tenant stands to the store that has it.
    standing: Standing = Standing.HERE

    def is_alive(self, now: Instant) -> bool:
        """Whether it opens anything."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


@dataclass(frozen=True, slots=True)
class Minted:
    """What the store keeps of a new secret."""

    id: str
    hash: bytes
    prefix: str


def shown_prefix(secret: str) -> str:
    """The beginning of a secret that people may see to tell keys apart; of a short one, which nobody made here, hardly anything."""
    return secret[: min(PREFIX_LENGTH, len(secret) // 4)]


def rotated(old: KeyRow, minted: Minted, overlap: Micros, lasts: Micros | None, now: Instant) -> tuple[Instant, KeyRow]:
    """When the old key ends, and the one that takes its place: as long-lived as the old one was made, unless `lasts` says else.

    Raises Conflict (DULY-E307) for a key that opens nothing any more.
    """
    if not old.is_alive(now):
        raise Conflict("DULY-E307", f"The key {old.id} has ended already.", field="keyId")
    lifetime = old.lasts if lasts is None else lasts
    new = KeyRow(
        id=minted.id,
        tenant=old.tenant,
        tenant_name=old.tenant_name,
        role=old.role,
        name=old.name,
        hash=minted.hash,
        created_at=now,
        expires_at=None if lifetime is None else now + lifetime,
        prefix=minted.prefix,
        pools=old.pools,
        lasts=lifetime,
        replaces=old.id,
        family=old.family or old.id,
    )
    ends = now + overlap
    return (ends if old.expires_at is None else min(ends, old.expires_at)), new


def check_revocation(going: KeyRow, keys: Iterable[KeyRow], now: Instant) -> None:
    """Raises Conflict (DULY-E306) when nobody could administer the tenant any more once this key is revoked."""
    if going.is_alive(now) and not _has_other_admin(going, keys, now):
        raise Conflict("DULY-E306", f"{going.id} is the last ADMIN key of the tenant that lasts.", field="keyId")


def check_rotation(old: KeyRow, new: KeyRow, keys: Iterable[KeyRow], now: Instant) -> None:
    """Raises Conflict (DULY-E306) when the last ADMIN key would be followed by one that ends before it would have."""
    if _is_sooner(new.expires_at, old.expires_at) and not _has_other_admin(old, keys, now):
        raise Conflict(
            "DULY-E306", f"{old.id} is the last ADMIN key of the tenant, and the new one would end before it.", field="expiresInSec"
        )


def check_name(name: str) -> None:
    """Raises Invalid (DULY-E114) for what people could not read: a name is one line of text."""
    if not name.isprintable() or not name.strip():
        raise Invalid("DULY-E114", f"{name[:40]!r} is not a name for a key.", field="name", hint="1 to 128 visible characters.")


def check_pools(role: Role, pools: tuple[str, ...] | None) -> None:
    """Raises Invalid for pools of a key that does not work (DULY-E106), and for what no pool can be called (DULY-E114)."""
    if pools is not None and role is not Role.WORKER:
        raise Invalid("DULY-E106", "only a WORKER key has pools.", field="pools")
    for pool in pools or ():
        if not POOL.match(pool):
            raise Invalid("DULY-E114", f"{pool[:40]!r} is not a pool name.", field="pools", hint="1 to 64 letters, digits and . _ -")


def _has_other_admin(going: KeyRow, keys: Iterable[KeyRow], now: Instant) -> bool:
    """Whether it does not matter: the key is no ADMIN's, or another one lives that is not itself on its way out by a rotation."""
    if going.role != Role.ADMIN.name:
        return True
    return any(key.id != going.id and key.role == Role.ADMIN.name and key.is_alive(now) and key.replaced_by is None for key in keys)


def _is_sooner(end: Instant | None, other: Instant | None) -> bool:
    return end is not None and (other is None or end < other)
