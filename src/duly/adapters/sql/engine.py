"""What both engines offer: named statements, and actions of several statements in one transaction.

An action is a generator that yields statements and is sent their rows. It does no I/O of its
own, so the same text runs on SQLite's writer thread and over an asyncpg connection:

    def action() -> Action[bool]:
        rows = yield Call("job", {"id": id})
        if not rows:
            return False
        yield Call("pause", {"id": id, "now": now})
        return True

    await engine.run(action)

Everything an action writes commits together, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol, TypeVar

import msgspec

from duly.domain.instants import Instant

T = TypeVar("T")
Row = Mapping[str, Any]
Rows = Sequence[Any]


class Lane(Enum):
    """How a statement is planned, and over which connections it goes. PostgreSQL pins planner settings by lane; SQLite has one writer
    whatever the lane."""

    GENERAL = "general"
    # Reads of people along keys: the best plan is the same whatever is asked for, and is kept. Over the connections of GENERAL.
    KEYED = "keyed"
    CLAIM = "claim"
    FINISH = "finish"


# Made for every statement: a dataclass takes four times as long.
class Call(msgspec.Struct, gc=False):
    """Run one statement; the rows come back. SQLite answers one that writes and returns nothing with a row if it has written any."""

    name: str
    params: Mapping[str, Any]


class Many(msgspec.Struct, gc=False):
    """Run one statement once per set of parameters; nothing comes back. `is_bound`: they are as the driver takes them already."""

    name: str
    params: Sequence[Mapping[str, Any]]
    is_bound: bool = False


Action = Generator[Call | Many, Rows, T]


class Engine(Protocol):
    """A relational engine. Errors of the driver leave it as Unavailable (the outcome is unknown) or as they are (a bug)."""

    name: str

    async def run(self, action: Callable[[], Action[T]], lane: Lane = Lane.GENERAL) -> T:
        """Run an action in one transaction. It may be started again from the top when the engine asks for a repeat."""

    async def read(self, action: Callable[[], Action[T]], lane: Lane = Lane.GENERAL) -> T:
        """Run an action that only reads: all its statements see one snapshot."""

    async def fetch(self, name: str, params: Mapping[str, Any], lane: Lane = Lane.GENERAL) -> Rows:
        """Run one statement in its own transaction."""

    async def script(self, text: str) -> None:
        """Run a migration: many statements, one transaction."""

    async def store_now(self) -> Instant:
        """The engine's own clock."""

    async def has_wall(self) -> bool:
        """Whether the engine itself shows a tenant nothing of another's; see ports/wall.py."""

    async def close(self) -> None:
        """Let connections go."""

    def abandon(self) -> None:
        """The same without an event loop, for an engine whose loop has ended: nothing is waited for."""


def one(rows: Rows) -> Any:
    """The only row, or None."""
    return rows[0] if rows else None
