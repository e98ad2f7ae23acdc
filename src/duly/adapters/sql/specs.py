"""Definitions as they are stored, read.

A herd of jobs differs in little but its names, and reading a definition costs more than firing it. So what follows the name is read
once and shared, as the values that it consists of never change: less than half of the time.
"""

from __future__ import annotations

import time
from dataclasses import fields
from operator import attrgetter

import msgspec

from duly.domain.instants import Instant
from duly.domain.job import JobSpec
from duly.domain.recent import Lately

# More than any one answer needs: whoever looks ahead reads 5,000 at a time, again and again. A generation has as many.
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


def moment() -> Instant:
    """By which what was read lately is remembered. Nobody's time is told from it."""
    return time.monotonic_ns() // 1000


class Specs:
    """Reads definitions, and remembers those that may come again: a job that is changed all the time must not leave its old ones here."""

    def __init__(self) -> None:
        self._known: Lately[str, JobSpec] = Lately(most=MOST)

    def read(self, definition: str) -> JobSpec:
        """The definition of a job version. Raises what the decoder raises."""
        # Inside of a name a quotation mark is escaped, so this one ends it.
        end = definition.find(_AFTER_NAME)
        if end < 0 or len(definition) > LONGEST or not definition.startswith(_HEAD) or "\\" in (name := definition[len(_HEAD) : end - 1]):
            return _decode(definition)
        rest = definition[end:]
        known = self._known.get(rest, moment())
        if known is not None:
            return _renamed(known, name)
        spec = _decode(definition)
        self._known.put(rest, spec)
        return spec


def _renamed(spec: JobSpec, name: str) -> JobSpec:
    """The same under another name."""
    other = object.__new__(JobSpec)
    _put_name(other, name)
    for put, value in zip(_put, _after_name(spec), strict=True):
        put(other, value)
    return other


spec_of = Specs().read
