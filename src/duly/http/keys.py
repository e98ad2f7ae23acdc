"""API keys: make, list, revoke."""

from __future__ import annotations

from typing import Any

from duly.domain.access import Role
from duly.domain.instants import SECOND
from duly.http.routing import Call, Reply, route
from duly.ports.keys import KeyRow
from duly.wire.keys import KeyShape, KeyView, NewKeyView, RoleName
from duly.wire.shapes import Page, shown


@route("POST", "/v1/keys", role=Role.ADMIN, status=201, answer=NewKeyView, examples={"worker": {"role": "WORKER", "name": "gpu-fleet"}})
async def create_key(call: Call, body: KeyShape) -> Reply:
    """Make a key in the tenant of this one; its secret is shown this once"""
    lasts = None if body.expires_in_sec is None else round(body.expires_in_sec * SECOND)
    row, secret = await call.services.keyring.create(call.actor, Role[body.role.name], body.name, lasts)
    return Reply(new_key_view(row, secret))


@route("GET", "/v1/keys", role=Role.ADMIN, answer=Page[KeyView])
async def list_keys(call: Call) -> Reply:
    """The keys of the tenant, oldest first, revoked ones too"""
    return Reply(Page(items=[KeyView(**_fields(row)) for row in await call.services.keyring.all(call.actor)]))


@route("DELETE", "/v1/keys/{keyId}", role=Role.ADMIN, answer=KeyView, problems=("DULY-E225",))
async def revoke_key(call: Call, key_id: str) -> Reply:
    """Revoke a key: within seconds it opens nothing, on any server"""
    return Reply(KeyView(**_fields(await call.services.keyring.revoke(call.actor, key_id))))


def new_key_view(row: KeyRow, secret: str) -> NewKeyView:
    """A key that was just made."""
    return NewKeyView(**_fields(row), secret=secret)


def _fields(row: KeyRow) -> dict[str, Any]:
    return {
        "key_id": row.id,
        "name": row.name,
        "role": RoleName[row.role],
        "tenant": row.tenant_name,
        "created_at": shown(row.created_at),
        "expires_at": shown(row.expires_at),
        "revoked_at": shown(row.revoked_at),
    }


ROUTES = [create_key, list_keys, revoke_key]
