"""Errors on the wire: RFC 9457 problem details with a stable code."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from duly.domain.errors import Conflict, DulyError, Forbidden, Invalid, NotFound, TooLarge, TooMany, Unavailable

UNREACHABLE = "DULY-E603"
_KINDS: dict[int, type[DulyError]] = {
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    412: Conflict,
    413: TooLarge,
}


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


def problem(status: int, headers: Mapping[str, str], body: bytes) -> DulyError:
    """The error of a refused request. Its note names the request, so that it can be found in the server's log."""
    try:
        document = msgspec.json.decode(body, type=Problem)
    except msgspec.DecodeError:
        return not_ours(status, headers)
    if status in (429, 503):
        later = TooMany if status == 429 else Unavailable
        error: DulyError = later(
            document.code, document.detail, field=document.field, hint=document.hint, retry_after=_seconds(headers.get("retry-after"))
        )
    else:
        kind = _KINDS.get(status, Invalid if status < 500 else DulyError)
        error = kind(document.code, document.detail, field=document.field, hint=document.hint)
    if document.request_id is not None:
        error.add_note(f"request {document.request_id}")
    return error


def unreachable(url: str, reason: str) -> Unavailable:
    """The error of a server that did not answer at all."""
    return Unavailable(UNREACHABLE, f"No Duly server answers at {url}: {reason}.", hint="Start one with `duly up`, or set DULY_URL.")


def not_ours(status: int, headers: Mapping[str, str]) -> Unavailable:
    """The error of an answer that no Duly server gives."""
    kind = headers.get("content-type", "no content type").partition(";")[0]
    message = f"The answer (status {status}, {kind}) is not one of a Duly server."
    return Unavailable(UNREACHABLE, message, hint="Look at DULY_URL: does something else listen there, or a proxy in between?")


def _seconds(text: str | None) -> float:
    return float(text) if text is not None and text.isdigit() else 1.0
