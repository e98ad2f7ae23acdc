"""The API's calls on tenants: values like those in calls.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from duly.sdk.calls import Call, Request
from duly.wire.keys import NewKeyView
from duly.wire.shapes import Page
from duly.wire.tenants import NewTenantView, TenantChangeShape, TenantDetailView, TenantShape, TenantView

JSON = {"Content-Type": "application/json"}


def create_tenant(tenant: TenantShape | Mapping[str, Any]) -> Call[NewTenantView]:
    """Make a tenant; the secret of its first key is in the answer and nowhere else."""
    return Call(Request("POST", "/v1/tenants", msgspec.json.encode(tenant), JSON), NewTenantView)


def list_tenants(*, limit: int = 50, cursor: str | None = None) -> Call[Page[TenantView]]:
    """The tenants that the key may see, by name."""
    query = urlencode({"limit": limit} | ({} if cursor is None else {"cursor": cursor}))
    return Call(Request("GET", f"/v1/tenants?{query}"), Page[TenantView], True)


def show_tenant(name: str) -> Call[TenantDetailView]:
    """A tenant with what it uses."""
    return Call(Request("GET", _path(name)), TenantDetailView, True)


def change_tenant(name: str, change: TenantChangeShape | Mapping[str, Any], *, version: int | None = None) -> Call[TenantView]:
    """Give a tenant another weight or other quotas; with `version`, only if that is still the current one."""
    headers = JSON if version is None else {**JSON, "If-Match": f'"v{version}"'}
    return Call(Request("PUT", _path(name), msgspec.json.encode(change), headers), TenantView)


def create_tenant_key(name: str, role: str, key_name: str, *, expires_in_sec: float | None = None) -> Call[NewKeyView]:
    """Make a key of a tenant; its secret is in the answer and nowhere else."""
    body = {"role": role, "name": key_name, "expiresInSec": expires_in_sec}
    return Call(Request("POST", f"{_path(name)}/keys", msgspec.json.encode(body), JSON), NewKeyView)


def _path(name: str) -> str:
    return f"/v1/tenants/{quote(name, safe='')}"
