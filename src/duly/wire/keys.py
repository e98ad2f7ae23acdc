"""API keys on the wire. A secret is shown once, when its key is made."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from duly.wire.shapes import NO_NUL, Shape, View


class RoleName(StrEnum):
    """Roles by name."""

    WORKER = "WORKER"
    VIEWER = "VIEWER"
    OPERATOR = "OPERATOR"
    ADMIN = "ADMIN"


class KeyShape(Shape, kw_only=True):
    """A key to be made, in the tenant of whoever asks."""

    role: RoleName
    name: Annotated[str, Meta(min_length=1, max_length=128, description="For people; need not be unique.", extra_json_schema=NO_NUL)]
    expires_in_sec: Annotated[float, Meta(ge=1, le=315_360_000)] | None = None


class KeyView(View, kw_only=True):
    """A key as it is read: never its secret."""

    key_id: str
    name: str
    role: RoleName
    tenant: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None


class NewKeyView(KeyView, kw_only=True):
    """A key that was just made, with its secret: keep it, it is not shown again."""

    secret: str
