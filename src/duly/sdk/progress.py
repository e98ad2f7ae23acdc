"""How far a handler is, told to whoever looks."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from duly.ports.handlers import Attempt, storable

LONGEST_MESSAGE = 1024


class Progress:
    """What `ctx.progress(…)` answers: `with ctx.progress(total=100) as bar: bar.advance()`."""

    __slots__ = ("_attempt", "done", "message", "total")

    def __init__(self, attempt: Attempt, done: float, total: float | None, message: str | None) -> None:
        self._attempt = attempt
        self.done = done
        self.total = total
        self.message = message
        self._tell()

    def advance(self, by: float = 1, message: str | None = None) -> None:
        """So much more is done. The last message stays until there is another."""
        self.done += by
        if message is not None:
            self.message = message
        self._tell()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Where it stands has been told; an error tells itself."""

    def _tell(self) -> None:
        told: dict[str, Any] = {"done": self.done}
        if self.total is not None:
            told["total"] = self.total
        if self.message is not None:
            told["message"] = storable(self.message)[:LONGEST_MESSAGE]
        self._attempt.tell(msgspec.json.encode(told).decode())
