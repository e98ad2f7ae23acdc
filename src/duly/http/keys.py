"""API keys: make, list, rotate, revoke."""

from __future__ import annotations

from typing import Any

from duly.domain.access import Role
from duly.domain.instants import SECOND, Micros
from duly.domain.keys import KeyRow
from duly.http.routing import Call, Reply, route
from duly.wire.keys import KeyShape, KeyView, NewKeyView, RoleName, RotatedKeyView, RotateShape
from duly.wire.shapes import Page, shown


@route(
    "POST",
    "/v1/keys",
    role=Role.ADMIN,
    status=201,
    answer=NewKeyView,
    problems=("DULY-E114", "DULY-E213"),
    idempotent=True,
    examples={"worker": {"role": "WORKER", "name": "gpu-fleet", "pools": ["etl", "mail"]}},
)
async def create_key(call: Call, body: KeyShape) -> Reply:
    """Make a key in the tenant of this one; its secret is shown this once"""
    row, secret = await call.services.keyring.create(call.actor, *asked_for(body), idempotency=call.idempotency)
    return Reply(new_key_view(row, secret))


@route("GET", "/v1/keys", role=Role.ADMIN, answer=Page[KeyView])
async def list_keys(call: Call) -> Reply:
    """The keys of the tenant, oldest first, revoked ones too"""
    return Reply(Page(items=[KeyView(**_fields(row)) for row in await call.services.keyring.all(call.actor)]))


@route(
    "POST",
    "/v1/keys/{keyId}/rotate",
    role=Role.ADMIN,
    status=201,
    answer=RotatedKeyView,
    problems=("DULY-E213", "DULY-E225", "DULY-E306", "DULY-E307"),
    body_optional=True,
    idempotent=True,
    examples={"a day": {"overlapSec": 86400}},
)
async def rotate_key(call: Call, key_id: str, body: RotateShape) -> Reply:
    """Make a key of the same role, name and pools; the old one ends after the overlap"""
    overlap = round(body.overlap_sec * SECOND)
    old, new, secret = await call.services.keyring.rotate(call.actor, key_id, overlap, _micros(body.expires_in_sec), call.idempotency)
    return Reply(RotatedKeyView(**_fields(new), secret=secret, replaced=KeyView(**_fields(old))))


@route("DELETE", "/v1/keys/{keyId}", role=Role.ADMIN, answer=KeyView, problems=("DULY-E225", "DULY-E306"))
async def revoke_key(call: Call, key_id: str) -> Reply:
    """Revoke a key: within seconds it opens nothing, on any server"""
    return Reply(KeyView(**_fields(await call.services.keyring.revoke(call.actor, key_id))))


def asked_for(body: KeyShape) -> tuple[Role, str, Micros | None, tuple[str, ...] | None]:
    """Role, name, length of life and pools of the key that somebody wants."""
    return Role[body.role.name], body.name, _micros(body.expires_in_sec), None if body.pools is None else tuple(sorted(set(body.pools)))


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
        "prefix": row.prefix,
        "pools": None if row.pools is None else list(row.pools),
        "last_used_at": shown(row.last_used_at),
        "replaces": row.replaces,
        "replaced_by": row.replaced_by,
    }


def _micros(seconds: float | None) -> Micros | None:
    return None if seconds is None else round(seconds * SECOND)


ROUTES = [create_key, list_keys, rotate_key, revoke_key]
