"""Errors on the wire: RFC 9457 problem details with a stable code."""

from __future__ import annotations

from msgspec import Struct


class Problem(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """`code` is stable and explained by `duly help CODE`; `field` names what is wrong; `detail` says what to do."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    field: str | None = None
    hint: str | None = None
    request_id: str | None = None
