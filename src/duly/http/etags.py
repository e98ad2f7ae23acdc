"""ETags of definitions: the version of a job or a calendar, and the version that If-Match names.

What a read answers has more in it than the definition (the next fires, the latest executions), so its ETag goes on with a hash of
all that was answered: `"v3-9f86d081884c7d65"`. If-None-Match compares it as a whole; If-Match reads the version alone, so that
whoever has read a job may change it although it has fired meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from duly.domain.errors import Conflict, Invalid
from duly.domain.preconditions import ABSENT, PRESENT
from duly.http.routing import Call, Reply

_ETAG = re.compile(rb'(?:W/)?"[!#-~]{1,64}"')
_OUR_ETAG = re.compile(rb'"v([1-9][0-9]{0,8})(?:-[0-9a-f]{16})?"')
_ETAGS = re.compile(rb'(?:W/)?"[!#-~]{0,64}"(?:[ \t]*,[ \t]*(?:W/)?"[!#-~]{0,64}"){0,31}')
NOT_MODIFIED = 304

IF_MATCH: Mapping[str, Mapping[str, Any]] = {
    "If-Match": {
        "description": "Change it only if it still has this ETag.",
        "schema": {"type": "string", "pattern": '^([*]|"v[1-9][0-9]{0,8}(-[0-9a-f]{16})?")$', "examples": ['"v3"']},
    }
}

PUT_IF: Mapping[str, Mapping[str, Any]] = {
    "If-Match": {**IF_MATCH["If-Match"], "description": "Change it only if it still has this ETag; *: only if it is there."},
    "If-None-Match": {"description": "Only if it is not there: what is there stays as it is.", "schema": {"type": "string", "const": "*"}},
}
IF_NONE_MATCH: Mapping[str, Mapping[str, Any]] = {
    "If-None-Match": {
        "description": "Answer 304, without a body, if it still has one of these ETags.",
        "schema": {"type": "string", "pattern": '^([*]|"[!#-~]{0,64}")$', "examples": ['"v3-9f86d081884c7d65"']},
    }
}
UNCHANGED: Mapping[int, str] = {NOT_MODIFIED: "It still has the ETag that If-None-Match names."}

_encoder = msgspec.json.Encoder()


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


def expected_of_put(call: Call) -> int | None:
    """What a PUT that may make its definition expects of it, as `domain/preconditions` has it; None: whatever there is."""
    match, none_match = call.headers.get(b"if-match"), call.headers.get(b"if-none-match")
    if none_match is None:
        return PRESENT if match == b"*" else expected_version(call)
    if none_match != b"*":
        raise Invalid("DULY-E106", "must be *.", field="If-None-Match", hint="To change what you have read, send If-Match.")
    if match is not None:
        raise Conflict("DULY-E209", "It cannot be there and not be there.", field="If-None-Match", hint="Leave one of them out.")
    return ABSENT


def expected_of_change(call: Call) -> int | None:
    """The same of a PUT that makes nothing: what is not there is not found, whatever was expected."""
    expected = expected_of_put(call)
    return None if expected == PRESENT else expected


def tagged_as_read(view: object, version: int) -> Reply:
    """The answer to a change, with the ETag that a read of it has."""
    body = _encoder.encode(view)
    return Reply(msgspec.Raw(body), headers=[(b"etag", _tag(version, body))])


def _tag(version: int, body: bytes) -> bytes:
    return b'"v%d-%b"' % (version, sha256(body).hexdigest()[:16].encode())


def tagged(call: Call, view: object, version: int) -> Reply:
    """The answer to a read, with its ETag; or that it is unchanged, when If-None-Match names that ETag."""
    wanted = call.headers.get(b"if-none-match")
    if wanted is not None and wanted != b"*" and not _ETAGS.fullmatch(wanted):
        hint = 'For example If-None-Match: "v3-9f86d081884c7d65".'
        raise Invalid("DULY-E106", "must be ETags in double quotes, or *.", field="If-None-Match", hint=hint)
    body = _encoder.encode(view)
    tag = _tag(version, body)
    headers = [(b"etag", tag)]
    if wanted is not None and (wanted == b"*" or tag in {one.strip().removeprefix(b"W/") for one in wanted.split(b",")}):
        return Reply(None, status=NOT_MODIFIED, headers=headers)
    return Reply(msgspec.Raw(body), headers=headers)
