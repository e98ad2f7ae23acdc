"""Writes down the public names of Duly with their signatures. A test holds the file to the code: what changes there is seen in review.

python -m scripts.public_api
"""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "docs" / "reference" / "public-api.txt"
# Modules whose names users may rely on.
MODULES = ("duly", "duly.fastapi", "duly.testing")


def public_api() -> str:
    """All of it, as text."""
    lines = ["# The public names of Duly. Written by `python -m scripts.public_api`; docs/reference/versioning.md says what they promise."]
    for name in MODULES:
        lines += ["", name, *_of_module(importlib.import_module(name))]
    return "\n".join(lines) + "\n"


def _of_module(module: Any) -> Iterator[str]:
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if inspect.isclass(value):
            yield from _of_class(name, value)
        else:
            yield f"  def {name}{_signature(value)}"


def _of_class(name: str, kind: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in kind.__bases__ if base is not object)
    yield f"  class {name}({bases})" if bases else f"  class {name}"
    if "__init__" in vars(kind) and not issubclass(kind, enum.Enum):
        yield f"    __init__{_signature(kind.__init__)}"  # type: ignore[misc]
    for member in sorted(_members(kind)):
        found = inspect.getattr_static(kind, member)
        if isinstance(found, property):
            yield f"    {member}: {_annotation(inspect.signature(found.fget).return_annotation)}"  # type: ignore[arg-type]
        elif isinstance(found, staticmethod | classmethod):
            yield f"    {type(found).__name__} {member}{_signature(found.__func__)}"
        elif inspect.isfunction(found):
            is_async = inspect.iscoroutinefunction(found)
            yield f"    {'async ' if is_async else ''}def {member}{_signature(found)}"
        elif not inspect.ismemberdescriptor(found):
            yield f"    {member} = {found!r}" if isinstance(found, str | int | float | None.__class__) else f"    {member}"
        else:
            yield f"    {member}"


def _members(kind: type) -> set[str]:
    """The public members of our own classes; those that Python's own classes have are theirs."""
    ours = [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "duly"]
    return {member for base in ours for member in vars(base) if not member.startswith("_")}


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(…)"
    parameters = [one.replace(annotation=_annotation(one.annotation)) for one in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=_annotation(signature.return_annotation)))


class _Words:
    """An annotation as it is written, without quotation marks."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _annotation(annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty:
        return annotation
    return _Words(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


if __name__ == "__main__":
    TARGET.write_text(public_api(), encoding="utf-8")
