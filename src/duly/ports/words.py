"""What an error, or whatever else a handler shows, says of itself: its name, its words.

Its class is somebody else's code, and so is whatever it is asked. What cannot be had must end no more than the attempt it is about: nothing
here raises. Names are text that every store can keep; words are as they were said, so that a secret in them is still found.
"""

from __future__ import annotations

from typing import Any

from duly.ports.handlers import storable

LONGEST_NAME = 200
# As they were given to the class; its metaclass may say anything else.
_NAME, _QUALNAME, _MODULE, _MRO = (type.__dict__[name].__get__ for name in ("__name__", "__qualname__", "__module__", "__mro__"))


def name_of(error: object) -> str:
    """The name of its class."""
    return _plain(_NAME(type(error)))


def names_of(error: BaseException) -> list[str]:
    """The names of its class and of each base class, plain and qualified."""
    return [name for kind in _MRO(type(error))[:-2] for name in (_plain(_NAME(kind)), _qualified(kind))]


def words_of(error: object) -> str:
    """What it says, even when it cannot say it."""
    try:
        return str.__str__(str(error))
    except BaseException:
        return f"(a {name_of(error)} that cannot be printed)"


def _qualified(kind: type) -> str:
    try:
        module: Any = _MODULE(kind)
    except AttributeError:
        module = None
    return f"{_plain(module)}.{_plain(_QUALNAME(kind))}"


def _plain(name: Any) -> str:
    """A class may be given any name: another type, one that is as long as a book, one that cannot be encoded."""
    return storable(str.__str__(name))[:LONGEST_NAME] if issubclass(type(name), str) else "?"
