"""Errors whose classes are no good: asked for their words or their names, they raise, or say what nobody can keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from duly.ports.endings import Failure, GiveUp, Snooze


class OwnInterrupt(BaseException):
    """Not an Exception."""


class Silent(ValueError):
    """Its words cannot be had."""

    def __str__(self) -> NoReturn:
        raise LookupError("no words")


class Interrupting(ValueError):
    """Who asks for its words is interrupted."""

    def __str__(self) -> NoReturn:
        raise KeyboardInterrupt


class Closing(ValueError):
    """Who asks for its words is closed."""

    def __str__(self) -> NoReturn:
        raise GeneratorExit

    __repr__ = __str__


class Nameless(type):
    """A class that does not tell what it is."""

    def __getattribute__(cls, name: str) -> NoReturn:
        raise KeyboardInterrupt


class Unnamed(ValueError, metaclass=Nameless):
    """Its class does not tell its name."""


class Masked(ValueError):
    """Nobody learns what it is, or where it was raised."""

    @property
    def __class__(self) -> NoReturn:  # type: ignore[override]
        raise SystemExit

    def _interrupt(self) -> NoReturn:
        raise SystemExit

    __traceback__ = property(_interrupt, lambda self, traceback: None)  # type: ignore[assignment]


class Words(str):
    """Text that fights back."""

    def isascii(self) -> NoReturn:
        raise KeyboardInterrupt

    replace = encode = __getitem__ = isascii  # type: ignore[assignment]


class Talkative(ValueError):
    """Its words are no ordinary text."""

    def __str__(self) -> str:
        return Words("words")


class Hurried(GiveUp):
    """Made without what makes a Failure."""

    def __init__(self, code: int) -> None:
        self.code = code


class Sleepless(Snooze):
    """Made without a time to wait."""

    def __init__(self) -> None:
        pass


class Oddly(ValueError):
    """A name that cannot be encoded."""


Oddly.__qualname__ = "Oddly\ud800"
Oddly.__module__ = 5  # type: ignore[assignment]


class Grasping(Failure):
    """Its kinds are none."""

    kinds = property(lambda self: 1 / 0, lambda self, value: None)  # type: ignore[assignment]


# Made where they are raised. Each with the type it is told as, and a name that retry rules find it by.
ODD: dict[str, tuple[Callable[[], Any], str, str]] = {
    "generator exit": (lambda: GeneratorExit("stop"), "GeneratorExit", "GeneratorExit"),
    "group with an exit": (lambda: BaseExceptionGroup("both", [GeneratorExit(), ValueError()]), "BaseExceptionGroup", "BaseExceptionGroup"),
    "group": (lambda: ExceptionGroup("both", [KeyError(), ValueError()]), "ExceptionGroup", "ExceptionGroup"),
    "no Exception": (lambda: OwnInterrupt("mine"), "OwnInterrupt", "OwnInterrupt"),
    "KeyboardInterrupt": (KeyboardInterrupt, "KeyboardInterrupt", "KeyboardInterrupt"),
    "SystemExit": (lambda: SystemExit(3), "SystemExit", "SystemExit"),
    "StopAsyncIteration": (lambda: StopAsyncIteration("over"), "StopAsyncIteration", "StopAsyncIteration"),
    "no words": (Silent, "Silent", "ValueError"),
    "words that interrupt": (Interrupting, "Interrupting", "ValueError"),
    "words that close": (Closing, "Closing", "ValueError"),
    "words of their own": (Talkative, "Talkative", "ValueError"),
    "no name": (lambda: Unnamed("who"), "Unnamed", "ValueError"),
    "no class": (lambda: Masked("who"), "Masked", "ValueError"),
    "half a pair": (lambda: ValueError("half \ud800 of a pair, and \x00"), "ValueError", "ValueError"),
    "a book": (lambda: ValueError("x" * (17 << 20)), "ValueError", "ValueError"),
    "a secret where it is cut": (lambda: ValueError("x" * 65_532 + "hunter22"), "ValueError", "ValueError"),
    "name that cannot be encoded": (lambda: Oddly("odd"), "Oddly", "ValueError"),
    "long name": (lambda: type("N" * 1000, (ValueError,), {})("long"), "N" * 200, "ValueError"),
    "type that cannot be encoded": (lambda: Failure("odd", type="Half\ud800", kinds=("Kind\ud800",)), "Half?", "Failure"),
    "type that is none": (lambda: Failure("odd", type=5), "Failure", "Failure"),  # type: ignore[arg-type]
    "wait that is none": (lambda: Failure("odd", retry_after="soon"), "Failure", "Failure"),  # type: ignore[arg-type]
    "detail that is none": (lambda: Failure("odd", detail=b"bytes"), "Failure", "Failure"),  # type: ignore[arg-type]
    "failure that is not made": (lambda: Hurried(7), "GiveUp", "Hurried"),
    "snooze that is not made": (Sleepless, "Sleepless", "Sleepless"),
    "kinds that raise": (lambda: Grasping("all"), "Failure", "Grasping"),
}
