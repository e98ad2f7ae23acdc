"""ETags of definitions: the version of a job or a calendar, and the version that If-Match names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from duly.domain.errors import Conflict, Invalid
from duly.http.routing import Call

_ETAG = re.compile(rb'(?:W/)?"[!#-~]{1,64}"')
_OUR_ETAG = re.compile(rb'"v([1-9][0-9]{0,8})"')

IF_MATCH: Mapping[str, Mapping[str, Any]] = {
    "If-Match": {
        "description": "Change it only if it still has this ETag.",
        "schema": {"type": "string", "pattern": '^([*]|"v[1-9][0-9]{0,8}")$', "examples": ['"v3"']},
    }
}


def etag(version: int) -> tuple[bytes, bytes]:
    """The header that names a version."""
    return b"etag", b'"v%d"' % version


def expected_version(call: Call) -> int | None:
    """The version that If-Match names; None when any will do."""
    sent = call.headers.get(b"if-match")
    if sent is None or sent == b"*":
        return None
    if ours := _OUR_ETAG.fullmatch(sent):
        return int(ours.group(1))
    if _ETAG.fullmatch(sent):
        # Well formed, and never handed out: whatever it was read from, it is not this as it stands.
        raise Conflict("DULY-E209", "It does not have this ETag.", field="If-Match")
    raise Invalid("DULY-E106", "must be one ETag in double quotes, or *.", field="If-Match", hint='For example If-Match: "v3".')
