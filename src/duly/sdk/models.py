"""Handlers that take one model (a dataclass, a msgspec.Struct or a pydantic model): callers may name its fields like arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from duly.domain.errors import Invalid


@dataclass(frozen=True, slots=True)
class Model:
    """The one argument of a handler that has fields of its own."""

    argument: str
    kind: type
    fields: frozenset[str]

    def wrapped(self, given: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments by the name of the argument, where they were given by names of its fields.

        Raises Invalid (DULY-E117) for a name that is neither: some models would take no notice of it.
        """
        if self.argument in given or given.keys().isdisjoint(self.fields):
            return given
        if strange := sorted(given.keys() - self.fields):
            what = f"{strange[0]!r} is neither an argument nor a field of {self.kind.__name__}."
            raise Invalid("DULY-E117", what, field=strange[0], hint=f"Fields are {', '.join(sorted(self.fields))}.")
        return {self.argument: given}

    def path(self, key: str) -> str:
        """Where the payload has what a key names: a field of the model stands inside of its argument."""
        first = key.partition(".")[0]
        return f"{self.argument}.{key}" if first != self.argument and first in self.fields else key


def model_of(annotations: Mapping[str, Any]) -> Model | None:
    """The model, if these are the annotations of one argument and that is one."""
    if len(annotations) != 1:
        return None
    ((name, annotation),) = annotations.items()
    kind = plain(annotation)
    names = fields_of(kind)
    return None if names is None else Model(name, kind, names)


def fields_of(kind: Any) -> frozenset[str] | None:
    """The names of a model's fields, in Python and on the wire; None for what is no model."""
    if not isinstance(kind, type):
        return None
    if dataclasses.is_dataclass(kind):
        return frozenset(field.name for field in dataclasses.fields(kind))
    for known in _KNOWN:
        if (names := known(kind)) is not None:
            return names
    return None


def plain(annotation: Any) -> Any:
    """An annotation without what is only said about it."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _of_struct(kind: Any) -> frozenset[str] | None:
    names = getattr(kind, "__struct_fields__", None)
    return None if names is None else frozenset((*names, *kind.__struct_encode_fields__))


def _of_pydantic(kind: Any) -> frozenset[str] | None:
    fields = getattr(kind, "model_fields", None) if hasattr(kind, "model_validate") else None
    return None if fields is None else frozenset((*fields, *(field.alias for field in fields.values() if field.alias)))


_KNOWN: tuple[Callable[[Any], frozenset[str] | None], ...] = (_of_struct, _of_pydantic)
