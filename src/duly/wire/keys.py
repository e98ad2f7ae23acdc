"""API keys on the wire. A secret is shown once, when its key is made."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from duly.wire.shapes import PoolName, Seconds, Shape, View, pattern

KeyName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        description="What people call it: one line of text.",
        examples=["gpu-fleet"],
        # What else cannot be printed is refused too; no pattern says that shortly.
        extra_json_schema=pattern("^[^\\u0000-\\u001f\\u007f]*[^\\u0000-\\u0020\\u007f][^\\u0000-\\u001f\\u007f]*$"),
    ),
]
Lifetime = Annotated[float, Meta(ge=1, le=315_360_000)]


class RoleName(StrEnum):
    """Roles by name."""

    WORKER = "WORKER"
    VIEWER = "VIEWER"
    OPERATOR = "OPERATOR"
    ADMIN = "ADMIN"


class KeyShape(Shape, kw_only=True):
    """A key to be made, in the tenant of whoever asks."""

    role: RoleName
    name: KeyName
    expires_in_sec: Lifetime | None = None
    pools: (
        Annotated[list[PoolName], Meta(min_length=1, max_length=100, description="The pools that a WORKER key opens; all otherwise.")]
        | None
    ) = None


class RotateShape(Shape, kw_only=True):
    """How long the old key goes on beside the new one, and how long the new one lasts: as long as the old one was made for, otherwise."""

    overlap_sec: Seconds = 3600
    expires_in_sec: Lifetime | None = None


class KeyView(View, kw_only=True):
    """A key as it is read: never its secret."""

    key_id: str
    name: str
    role: RoleName
    tenant: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    # The first characters of its secret, to tell keys apart.
    prefix: str | None = None
    pools: list[str] | None = None
    last_used_at: str | None = None
    # The chain of rotations: the key it took the place of, and the one that took its place.
    replaces: str | None = None
    replaced_by: str | None = None


class NewKeyView(KeyView, kw_only=True):
    """A key that was just made, with its secret: keep it, it is not shown again."""

    secret: str


class RotatedKeyView(NewKeyView, kw_only=True):
    """The new key with its secret, and the old one with its end."""

    replaced: KeyView
