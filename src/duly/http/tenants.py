"""Tenants: make, list, show, change, and a key for one that has lost its own."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from duly.domain.access import Role
from duly.domain.tenants import NO_QUOTAS, parse_tenant_name
from duly.http.cursors import Limit, paged
from duly.http.etags import PUT_IF, etag, expected_of_change
from duly.http.keys import asked_for, new_key_view
from duly.http.routing import Call, Reply, route
from duly.usecases.tenants import TenantChange
from duly.wire.keys import KeyShape, NewKeyView
from duly.wire.shapes import Page, pattern
from duly.wire.tenants import (
    NewTenantView,
    TenantChangeShape,
    TenantDetailView,
    TenantShape,
    TenantView,
    detail_view,
    new_view,
    quotas_of,
    tenant_view,
)

ETAG = {"ETag": "The tenant's version, for If-Match."}
NameCursor = Annotated[
    str, Meta(description="nextCursor of the page before, unchanged.", extra_json_schema=pattern("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))
]


class TenantsQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which page of the tenants."""

    limit: Limit = 50
    cursor: NameCursor | None = None


@route(
    "POST",
    "/v1/tenants",
    role=Role.ADMIN,
    status=201,
    answer=NewTenantView,
    problems=("DULY-E114", "DULY-E213", "DULY-E261", "DULY-E263"),
    idempotent=True,
    response_headers=ETAG,
    examples={"acme": {"name": "acme", "weight": 200, "quotas": {"maxJobs": 1000, "maxQueued": 100_000, "maxConcurrent": 50}}},
)
async def create_tenant(call: Call, body: TenantShape) -> Reply:
    """Make a tenant and its first ADMIN key, whose secret is shown this once; only for ADMIN keys of the tenant default"""
    quotas = NO_QUOTAS if body.quotas is None else quotas_of(body.quotas)
    tenant, row, secret = await call.services.tenants.create(call.actor, body.name, body.weight, quotas, call.idempotency)
    return Reply(new_view(tenant, new_key_view(row, secret)), headers=[etag(tenant.version)])


@route("GET", "/v1/tenants", role=Role.VIEWER, answer=Page[TenantView], problems=("DULY-E114",))
async def list_tenants(call: Call, query: TenantsQuery) -> Reply:
    """List tenants, by name: all of them for ADMIN keys of the tenant default, its own for any other key"""
    after = "" if query.cursor is None else parse_tenant_name(query.cursor)
    found = await call.services.tenants.find(call.actor, after, query.limit + 1)
    page, cursor = paged(found, query.limit, lambda tenant: tenant.name)
    return Reply(Page(items=[tenant_view(tenant) for tenant in page], next_cursor=cursor))


@route("GET", "/v1/tenants/{tenant}", role=Role.VIEWER, answer=TenantDetailView, problems=("DULY-E262",), response_headers=ETAG)
async def show_tenant(call: Call, tenant: str) -> Reply:
    """Show a tenant, with what it uses beside its quotas"""
    found, usage = await call.services.tenants.show(call.actor, tenant)
    return Reply(detail_view(found, usage), headers=[etag(found.version)])


@route(
    "PUT",
    "/v1/tenants/{tenant}",
    role=Role.ADMIN,
    answer=TenantView,
    problems=("DULY-E209", "DULY-E262", "DULY-E263"),
    request_headers=PUT_IF,
    response_headers=ETAG,
    examples={"quotas": {"quotas": {"maxConcurrent": 20, "maxFiresPerMinute": 600}}, "weight": {"weight": 500}},
)
async def change_tenant(call: Call, tenant: str, body: TenantChangeShape) -> Reply:
    """Give a tenant another weight or other quotas; only for ADMIN keys of the tenant default"""
    change = TenantChange(weight=body.weight, quotas=None if body.quotas is None else quotas_of(body.quotas))
    changed = await call.services.tenants.change(call.actor, tenant, change, expected_of_change(call))
    return Reply(tenant_view(changed), headers=[etag(changed.version)])


@route(
    "POST",
    "/v1/tenants/{tenant}/keys",
    role=Role.ADMIN,
    status=201,
    answer=NewKeyView,
    problems=("DULY-E114", "DULY-E213", "DULY-E262"),
    idempotent=True,
    examples={"admin": {"role": "ADMIN", "name": "a new beginning"}},
)
async def create_tenant_key(call: Call, tenant: str, body: KeyShape) -> Reply:
    """Make a key of that tenant, when its own are lost; its secret is shown this once"""
    row, secret = await call.services.tenants.add_key(call.actor, tenant, *asked_for(body), idempotency=call.idempotency)
    return Reply(new_key_view(row, secret))


ROUTES = [create_tenant, list_tenants, show_tenant, change_tenant, create_tenant_key]
