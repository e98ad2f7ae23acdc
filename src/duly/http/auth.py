"""Who asks: the key in `Authorization: Bearer`, and nothing else, names the tenant and the role."""

from __future__ import annotations

from duly.domain.access import Actor, Role
from duly.domain.errors import Forbidden
from duly.usecases.access import Access

SCHEME = "bearer "


def bearer(headers: dict[bytes, bytes]) -> str:
    """The key that was sent. Raises Forbidden (DULY-E301, a 401) when there is none."""
    sent = headers.get(b"authorization")
    if sent is not None:
        text = sent.decode("latin-1")
        if text[: len(SCHEME)].lower() == SCHEME:
            return text[len(SCHEME) :].strip(" ")
    raise Forbidden("DULY-E301", "This needs a key.", field="Authorization")


async def recognise(access: Access, key: str) -> Actor:
    """The actor behind a key. Raises Forbidden (DULY-E302, a 401) for a key that is unknown, expired or revoked: which, is not said."""
    actor = await access.recognise(key)
    if actor is None:
        raise Forbidden("DULY-E302", "The key is not valid.", field="Authorization")
    return actor


def demand(actor: Actor, role: Role) -> None:
    """Raises Forbidden when the actor's role does not suffice."""
    if not actor.may(role):
        raise Forbidden("DULY-E303", f"This needs the role {role.name}; the key has {actor.role.name}.", field="Authorization")
