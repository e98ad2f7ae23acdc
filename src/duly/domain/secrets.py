"""Secrets: named in definitions and payloads, resolved by the worker that runs them, and shown to nobody.

Two spellings, each for its place:

* `{"$secret": "env:NAME"}` stands for a whole JSON value, anywhere in a payload or in a webhook's body.
* `${secret:env:NAME}` stands inside text that the author of a job writes: a webhook's URL and headers, a command's
  environment. In payloads and bodies it is text like any other: strings there often come from strangers, and a
  stranger's text must never name a secret.

`env:NAME` is a variable of the worker's environment, `file:NAME` a file in its directory of secrets. A value itself,
`{"$secret": {"value": …}}`, may stand in a payload that is encrypted at rest, and is masked wherever it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from json import dumps, loads
from typing import Any, Generic, TypeVar

from duly.domain.errors import Invalid
from duly.domain.redaction import MASK as MASK
from duly.domain.unreadable import Unreadable

MARK = "$secret"
SEALED = "$sealed"
LONGEST_NAME = 200
DEEPEST = 100

T = TypeVar("T")
_NAMES = {
    "env": re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z"),
    # No part of it is `.` or `..`, and none is empty: what it names lies below the directory.
    "file": re.compile(r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._-]+(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._-]+)*\Z"),
}
_IN_TEXT = re.compile(r"\$\{secret:([^{}]*)\}")
_BEGINS = "${secret:"
_HINT = 'For example {"$secret": "env:DULY_SECRET_TOKEN"} or {"$secret": "file:token"}.'


_HINT_IN_TEXT = "Inside text it is ${secret:env:NAME} or ${secret:file:NAME}."
_HINT_ALONE = "For example env:DULY_SECRET_TOKEN or file:token."


class Secret(Generic[T]):
    """A value that is masked wherever it is shown: `Secret("…")`, or a reference, `Secret.env(NAME)` and `Secret.file(NAME)`.

    As the type of a handler's argument it says that what arrives is one: `token: Secret[str]`, read with `token.reveal()`.
    """

    __slots__ = ("_reference", "_value")

    def __init__(self, value: T) -> None:
        self._value = value
        self._reference: Reference | None = None

    @classmethod
    def env(cls, name: str) -> Secret[str]:
        """A variable of the worker's environment. Raises Invalid (DULY-E141) for what is not the name of one."""
        return cls.named(f"env:{name}")

    @classmethod
    def file(cls, name: str) -> Secret[str]:
        """A file in the worker's directory of secrets. Raises Invalid (DULY-E141) for what is not the name of one."""
        return cls.named(f"file:{name}")

    @classmethod
    def named(cls, reference: str) -> Secret[str]:
        """By its reference, such as `env:NAME`."""
        made: Secret[str] = Secret(MASK)
        made._reference = parse_reference(reference, hint=_HINT_ALONE)
        return made

    @property
    def reference(self) -> Reference | None:
        """What it refers to; None for one that has its value."""
        return self._reference

    def reveal(self) -> T:
        """The value. A reference has none outside the worker that runs the handler: raises LookupError."""
        if self._reference is not None:
            raise LookupError(f"{self._reference} is resolved in the worker only")
        return self._value

    def to_json(self) -> dict[str, Any]:
        """As it stands in a payload."""
        return {MARK: {"value": self._value} if self._reference is None else str(self._reference)}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return (self._reference, self._value) == (other._reference, other._value)

    def __hash__(self) -> int:
        return hash((self._reference, self._value))

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"Secret({MASK if self._reference is None else str(self._reference)})"


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a secret is kept: `env:NAME` or `file:NAME`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def parse_reference(text: object, field: str | None = None, hint: str = _HINT) -> Reference:
    """A reference by its text. Raises Invalid (DULY-E141); the text is not repeated, for it may be a secret in the wrong place."""
    kind, colon, name = text.partition(":") if isinstance(text, str) else ("", "", "")
    pattern = _NAMES.get(kind)
    if not colon or pattern is None or len(name) > LONGEST_NAME or not pattern.match(name):
        what = "is the mask of a secret value, not a reference." if text == MASK else "is not a reference to a secret."
        raise Invalid("DULY-E141", what, field=field, hint=hint)
    return Reference(kind, name)


def check_reference(text: str, field: str) -> None:
    """Refuse what is no reference (DULY-E141), where a reference stands alone."""
    parse_reference(text, field, _HINT_ALONE)


def is_marked(text: str) -> bool:
    """Whether JSON text may name a secret, or be sealed; quick, and never wrong when it says no."""
    return '"$se' in text or "\\u0024" in text


def is_sealed(text: str | None) -> bool:
    """Whether a payload's text is an envelope. Ours begin so, and nobody else may send one."""
    return text is not None and SEALED in text[:12]


def has_marks(value: Any) -> bool:
    """Whether decoded JSON names a secret somewhere, or is sealed, or stands for what could not be decoded."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, Unreadable):
            return True
        if isinstance(item, dict):
            if MARK in item or SEALED in item:
                return True
            left.extend(item.values())
        elif isinstance(item, list):
            left.extend(item)
    return False


def check_json(text: str, field: str, *, values: bool) -> None:
    """Refuse what looks like a reference and is none (DULY-E141), a value where none may stand (DULY-E142), and what is
    sealed already (DULY-E143)."""
    if is_marked(text):
        check_value(loads(text), field, values=values)


def check_value(decoded: Any, field: str, *, values: bool) -> None:
    """The same for decoded JSON."""
    if isinstance(decoded, dict) and SEALED in decoded:
        hint = f"{SEALED!r} is reserved. A payload that cannot be read needs the key it was written with in DULY_PAYLOAD_KEYS."
        raise Invalid("DULY-E143", "is encrypted and cannot be read here.", field=field, hint=hint)
    for marked in _marked_objects(decoded):
        if not _is_value(marked):
            if len(marked) != 1:
                raise Invalid("DULY-E141", f"has keys beside {MARK!r}, which stands alone.", field=field, hint=_HINT)
            parse_reference(marked[MARK], field)
        elif not values:
            raise Invalid(
                "DULY-E142",
                "has the value of a secret, which would be stored in clear.",
                field=field,
                hint="Send a reference, such as Secret.env(NAME), or set DULY_PAYLOAD_KEYS to encrypt payloads.",
            )


def check_text(text: str, field: str) -> None:
    """Refuse what looks like a reference inside text and is none (DULY-E141)."""
    found = _IN_TEXT.findall(text)
    if text.count(_BEGINS) != len(found):
        raise Invalid("DULY-E141", "has a reference without an end.", field=field, hint=_HINT_IN_TEXT)
    for reference in found:
        parse_reference(reference, field, _HINT_IN_TEXT)


def references_in(text: str) -> list[str]:
    """What text refers to, by the spelling inside text."""
    return _IN_TEXT.findall(text)


def fill_text(text: str, value_of: Callable[[str], str]) -> str:
    """The text with each reference inside it replaced. A value is never looked at again: it cannot name another."""
    return _IN_TEXT.sub(lambda found: value_of(found.group(1)), text)


def wanted_by(value: Any) -> list[str]:
    """The references that decoded JSON has."""
    return [marked[MARK] for marked in _marked_objects(value) if isinstance(marked[MARK], str)]


def filled(value: Any, value_of: Callable[[str], str]) -> Any:
    """Decoded JSON with each secret in its place. A value is never looked at again: it cannot name another."""
    if isinstance(value, dict):
        if MARK in value:
            return value[MARK]["value"] if _is_value(value) else value_of(value[MARK])
        return {key: filled(item, value_of) for key, item in value.items()}
    return [filled(item, value_of) for item in value] if isinstance(value, list) else value


def values_in(value: Any) -> list[Any]:
    """The secret values that decoded JSON has itself."""
    return [marked[MARK]["value"] for marked in _marked_objects(value) if _is_value(marked)]


def masked_json(text: str | None) -> str | None:
    """JSON as it may be shown: references as they are, values masked."""
    if text is None or not is_marked(text):
        return text
    try:
        decoded = loads(text)
        return dumps(_masked(decoded), ensure_ascii=False) if values_in(decoded) else text
    except (Invalid, RecursionError):
        # Nobody knows what is in it.
        return dumps(MASK)


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {MARK: MASK} if _is_value(value) else {key: _masked(item) for key, item in value.items()}
    return [_masked(item) for item in value] if isinstance(value, list) else value


def _is_value(marked: dict[str, Any]) -> bool:
    inner = marked.get(MARK)
    return isinstance(inner, dict) and inner.keys() == {"value"} and len(marked) == 1


def _marked_objects(value: Any) -> Iterator[dict[str, Any]]:
    """Without recursion: what came in through SQL may be as deep as it likes. Raises Invalid (DULY-E141) when it is too deep."""
    left = [(value, 0)]
    while left:
        item, depth = left.pop()
        if depth > DEEPEST:
            raise Invalid("DULY-E141", f"is nested more than {DEEPEST} levels deep, so it can have no secrets.", field="payload")
        if isinstance(item, dict) and MARK in item:
            yield item
        elif isinstance(item, dict | list):
            left.extend((inner, depth + 1) for inner in (item.values() if isinstance(item, dict) else item))
