"""Errors as RFC 9457 problem documents: a stable code, the field, what to do, and the request's id. Never a stack, a path or SQL."""

from __future__ import annotations

import logging
import math
import re

import msgspec

from duly.domain.codes import CODES
from duly.domain.errors import DulyError, Invalid, TooMany, Unavailable
from duly.wire.problems import Problem

MEDIA_TYPE = b"application/problem+json"
FAULT = "DULY-E599"
# What a payload with secrets in it may be refused for.
SECRET_PROBLEMS = ("DULY-E141", "DULY-E142", "DULY-E143")
# The identifier of a problem type need not be fetched; it only has to stay the same.
TYPE_PREFIX = "urn:duly:problem:"

logger = logging.getLogger("duly.http")

_LONGEST_DETAIL = 400
_UNKNOWN_KEY = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING_KEY = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_WHERE = re.compile(r" - at `\$([\w.\[\]]*)`\Z")
_TIMES = ("Invalid RFC3339 encoded datetime", "Expected `datetime")

Headers = list[tuple[bytes, bytes]]


def problem_of(error: DulyError, request_id: str) -> tuple[int, Problem, Headers]:
    """Status, document and extra headers for an error that a caller may meet."""
    code = CODES.get(error.code, CODES[FAULT])
    is_ours = code.status >= 500
    if is_ours:
        # What is wrong on our side (a file, a host, a statement) is for the log, not for the caller.
        logger.warning("%s: %s (request %s)", error.code, error.message, request_id)
    problem = Problem(
        type=TYPE_PREFIX + code.code,
        title=code.title,
        status=code.status,
        code=code.code,
        detail=f"{code.title}." if is_ours else _shortened(error.message),
        field=None if error.field is None or is_ours else _shortened(error.field),
        hint=code.fix if is_ours else error.hint or code.fix,
        request_id=request_id,
    )
    headers: Headers = []
    if isinstance(error, Unavailable | TooMany):
        headers.append((b"retry-after", str(max(1, math.ceil(error.retry_after))).encode()))
    elif code.status == 408:
        # What is still to come of the request would be taken for the next one's beginning.
        headers.append((b"connection", b"close"))
    elif code.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="duly"' + (b', error="invalid_token"' if code.code == "DULY-E302" else b"")))
    return code.status, problem, headers


def fault(error: Exception, request_id: str, where: str) -> tuple[int, Problem, Headers]:
    """Our own bug: the whole story goes to the log, the caller gets the id under which it stands there."""
    logger.error("unexpected %s in %s (request %s)", type(error).__name__, where, request_id, exc_info=error)
    return problem_of(DulyError(FAULT, f"an unexpected {type(error).__name__}"), request_id)


def refusal(error: msgspec.DecodeError | UnicodeDecodeError | RecursionError) -> Invalid:
    """What a decoder refused, as a caller understands it."""
    if not isinstance(error, msgspec.ValidationError):
        return Invalid("DULY-E107", f"{_shortened(str(error))}.")
    message, field = str(error), ""
    if found := _WHERE.search(message):
        message, field = message[: found.start()], found.group(1).removeprefix(".")
    for pattern, said in ((_UNKNOWN_KEY, "is not a known key"), (_MISSING_KEY, "is needed")):
        if found := pattern.fullmatch(message):
            key = found.group(1)
            return Invalid("DULY-E106", f"{said}.", field=f"{field}.{key}" if field else key)
    code = "DULY-E105" if message.startswith(_TIMES) else "DULY-E106"
    return Invalid(code, f"{message}.", field=field or None)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_DETAIL else text[: _LONGEST_DETAIL - 1] + "…"
