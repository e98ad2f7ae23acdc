"""Rows and objects in the shape that was asked for: chosen fields, YAML, cells of a CSV file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from duly.cli.errors import did_you_mean
from duly.domain.errors import Invalid

T = TypeVar("T")

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@-]*( [A-Za-z0-9_./@-]+)*\Z")
_UNFIT = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# Words that YAML reads as something else than text.
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n", "none"})


class Column(NamedTuple, Generic[T]):
    """One column: its name, what people see, what programs get (the same unless given), its name there, and its colour."""

    name: str
    shown: Callable[[T], str]
    plain: Callable[[T], str] | None = None
    key: str | None = None
    colour: Callable[[T], str | None] | None = None


def columns_of(columns: Sequence[Column[T]], fields: Sequence[str]) -> Sequence[Column[T]]:
    """The columns that were asked for, in that order; others come from the object itself. Raises Invalid for what neither has."""
    if not fields:
        return columns
    known = {name: column for column in columns for name in (column.name, column.key) if name}
    return [known.get(field) or Column(field, _reader(field, list(known))) for field in fields]


def _reader(field: str, known: Sequence[str]) -> Callable[[Any], str]:
    def read(item: Any) -> str:
        value = _plain(item)
        if not isinstance(value, Mapping) or (camel(field) not in value and field not in value):
            raise unknown(field, [*known, *(value if isinstance(value, Mapping) else ())])
        found = value.get(field, value.get(camel(field)))
        return found if isinstance(found, str) else "" if found is None else msgspec.json.encode(found).decode()

    return read


def chosen(item: Any, fields: Sequence[str]) -> Any:
    """The object with these fields alone, by the API's names; snake_case is understood too. Raises Invalid for one that it has not."""
    if not fields:
        return item
    value = _plain(item)
    if not isinstance(value, Mapping):
        return value
    for field in fields:
        if field not in value and camel(field) not in value:
            raise unknown(field, list(value))
    return {name: value[name] for name in (field if field in value else camel(field) for field in fields)}


def unknown(field: str, known: Sequence[str]) -> Invalid:
    """A field that is not there."""
    hint = did_you_mean(field, known) or f"There are {', '.join(dict.fromkeys(known))}."
    return Invalid("DULY-E604", f"there is no {field!r}.", field="--fields", hint=hint)


def camel(name: str) -> str:
    """snake_case as the API writes it."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def quoted(cell: str) -> str:
    """A cell of a CSV file (RFC 4180)."""
    return '"' + cell.replace('"', '""') + '"' if any(sign in cell for sign in ',"\r\n') else cell


def written(item: Any) -> str:
    """JSON as block YAML."""
    return "\n".join(_lines(_plain(item)))


def _lines(value: Any) -> list[str]:
    if isinstance(value, Mapping) and value:
        found: list[str] = []
        for key, one in value.items():
            found += _under(f"{_scalar(key)}:", one, "  ")
        return found
    if isinstance(value, list) and value:
        found = []
        for one in value:
            lines = _lines(one)
            found += [f"- {lines[0]}", *(f"  {line}" for line in lines[1:])]
        return found
    return [_scalar(value)]


def _under(head: str, value: Any, indent: str) -> list[str]:
    if isinstance(value, Mapping | list) and value:
        return [head, *(f"{indent}{line}" for line in _lines(value))]
    return [f"{head} {_scalar(value)}"]


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.match(value) and value.lower() not in _WORDS:
        return value
    # What JSON lets stand and YAML does not.
    return _UNFIT.sub(lambda match: f"\\u{ord(match[0]):04x}", msgspec.json.encode(value).decode())


def _plain(item: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(item))
