"""Values that are typed: JSON, files, `key=value` words, times and durations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid
from duly.domain.instants import SECOND, from_rfc3339, to_datetime

BAD_JSON = "DULY-E107"


def json_value(text: str, field: str) -> Any:
    """JSON as it stands, `@file`, or `-` for standard input."""
    source = read_text(text, field)
    try:
        return msgspec.json.decode(source)
    except msgspec.DecodeError as error:
        hint = 'Put it in single quotes: \'{"region": "eu"}\'. @file reads a file, - standard input.'
        raise Invalid(BAD_JSON, f"is not JSON: {error}.", field=field, hint=hint) from error


def read_text(text: str, field: str) -> str:
    """The text itself, the contents of `@file`, or standard input for `-`."""
    if text == "-":
        return sys.stdin.read()
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise Invalid("DULY-E604", f"{text[1:]} cannot be read: {error.strerror}.", field=field) from error
    except UnicodeDecodeError as error:
        raise Invalid(BAD_JSON, f"{text[1:]} is not UTF-8.", field=field) from error


def payload_of(words: Sequence[str], base: str | None) -> Any:
    """`key=value` words over `--payload`. A value that is JSON is taken as such, anything else is text; UNSET when nothing was given."""
    given: Any = msgspec.UNSET if base is None else json_value(base, "--payload")
    if not words:
        return given
    if given is msgspec.UNSET:
        given = {}
    if not isinstance(given, dict):
        raise Invalid("DULY-E604", "key=value goes with an object only.", field="--payload", hint="Leave one of the two out.")
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or not key:
            raise Invalid("DULY-E604", f"{word!r} is not key=value.", hint='For example region=eu, n=5 or tags=\'["a", "b"]\'.')
        try:
            given[key] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            given[key] = value
    return given


def moment_of(text: str, field: str) -> datetime:
    """A time with an offset."""
    try:
        return to_datetime(from_rfc3339(text))
    except (ValueError, OverflowError) as error:
        hint = 'Write 2026-03-08T07:00:00Z, 2026-03-08T08:00:00+01:00, or on the command line 09:00, "2026-03-08 09:00" or 2h.'
        raise Invalid("DULY-E105", f"{text[:60]!r} is not a time.", field=field, hint=hint) from error


def seconds_of(text: str, field: str) -> float:
    """A duration in seconds, without a fraction where there is none."""
    seconds = parse_duration(text if not text.isdigit() else int(text), field=field) / SECOND
    return int(seconds) if seconds.is_integer() else seconds
