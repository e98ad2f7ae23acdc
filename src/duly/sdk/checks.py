"""Whether what stands in a declaration is of the kind that it has to be. Code is not always typed, and a wrong kind found at import is
found by whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, TypeVar

from duly.domain.errors import Invalid

E = TypeVar("E", bound=Enum)


def kind_checked(value: Any, kinds: tuple[type, ...], field: str, what: str, hint: str) -> None:
    """Raises Invalid (DULY-E118) for a value of another kind. True and False are no numbers here."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise Invalid("DULY-E118", f"{repr(value)[:60]} is not {what}.", field=field, hint=hint)


def whole(value: Any, field: str, example: str) -> int:
    """A whole number. Raises Invalid (DULY-E118), with how to write it."""
    kind_checked(value, (int,), field, "a whole number", f"Write {example}.")
    return int(value)


def one_of(kind: type[E], value: Any, field: str, choices: Iterable[str] | None = None) -> E:
    """The member of an enumeration by its value; `choices` are the values as code writes them."""
    try:
        return kind(value)
    except ValueError:
        listed = ", ".join(repr(choice) for choice in choices or [member.value for member in kind])
        raise Invalid("DULY-E118", f"{repr(value)[:60]} is not one of {listed}.", field=field) from None
