"""Definitions as they are stored, read.

A herd of jobs differs in little but its names, and reading a definition costs more than firing it. So what follows the name is read
once and shared, as the values that it consists of never change: less than half of the time.
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter

import msgspec

from duly.domain.job import JobSpec

# More than any one answer needs: whoever looks ahead reads 5,000 at a time, again and again.
MOST = 8192
# Longer ones have a payload or steps of their own: nobody shares them.
LONGEST = 4096

_decode = msgspec.json.Decoder(JobSpec).decode
_HEAD, _AFTER_NAME = '{"name":"', ',"timing":'
_NAMES = [field.name for field in fields(JobSpec)]
assert _NAMES[:2] == ["name", "timing"]
# `dataclasses.replace` asks for every field by its name, and then again: it takes as long as to read the definition.
_after_name = attrgetter(*_NAMES[1:])
_put_name, *_put = (getattr(JobSpec, name).__set__ for name in _NAMES)


class Specs:
    """Reads definitions, and remembers those that may come again."""

    def __init__(self) -> None:
        self._known: dict[str, JobSpec] = {}

    def read(self, definition: str) -> JobSpec:
        """The definition of a job version. Raises what the decoder raises."""
        # Inside of a name a quotation mark is escaped, so this one ends it.
        end = definition.find(_AFTER_NAME)
        if end < 0 or len(definition) > LONGEST or not definition.startswith(_HEAD) or "\\" in (name := definition[len(_HEAD) : end - 1]):
            return _decode(definition)
        rest = definition[end:]
        known = self._known.get(rest)
        if known is not None:
            return _renamed(known, name)
        spec = _decode(definition)
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[rest] = spec
        return spec


def _renamed(spec: JobSpec, name: str) -> JobSpec:
    """The same under another name."""
    other = object.__new__(JobSpec)
    _put_name(other, name)
    for put, value in zip(_put, _after_name(spec), strict=True):
        put(other, value)
    return other


spec_of = Specs().read
