"""Finished executions for analysts: the feed, from which none is passed over, and where they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from duly.domain.ids import ExecutionId
from duly.domain.instants import Instant, Micros
from duly.domain.records import Record


@dataclass(frozen=True, slots=True)
class Unexported:
    """What has ended since the exporter came, and the places in the feed that it fills."""

    places: Sequence[int] = ()
    records: Sequence[Record] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class History:
    """A piece of what had ended before, in the order of ids, and the id it has come to; None: that was all of it."""

    records: Sequence[Record]
    reached: ExecutionId | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a tenant has between two ids: its finished executions, how many of those, how many more have not ended, and the id that was
    come to; None: the end of the stretch."""

    records: Sequence[Record]
    finished: int
    unfinished: int
    reached: ExecutionId | None


class Records(Protocol):
    """What ends while an exporter is about is noted in the transaction that ends it, and stays noted until it was exported.

    So there is no order in which something could commit behind a cursor. What had ended before is walked through once, by id: it
    all had committed when noting began.
    """

    async def take(self, exporter: str, now: Instant, ttl: Micros) -> bool:
        """Be the one who exports, until now + ttl; False when somebody else is, or when noting could not begin yet: try again."""

    async def unexported(self, limit: int) -> Unexported:
        """The oldest that were noted: about `limit`, a statement's together. What has left the history since is left out."""

    async def drop(self, places: Sequence[int]) -> None:
        """These were exported."""

    async def history(self, limit: int) -> History:
        """The next of what had ended before, where the last exporter left off; empty once all of it was."""

    async def reach(self, reached: ExecutionId | None) -> None:
        """The history was exported as far as this; None: all of it."""

    async def leave(self, exporter: str) -> None:
        """Somebody else may export at once."""

    async def lapse(self, before: Instant) -> bool:
        """If no exporter was seen since then: nothing is noted any more, and the next one begins with the whole history."""

    async def stretch(self, tenant: int, after: ExecutionId, before: ExecutionId, looked_at: int, *, counted_only: bool = False) -> Stretch:
        """What this tenant has after one id and before another, oldest first, of at most `looked_at` executions of anybody's."""


class RecordSink(Protocol):
    """Where records are kept for analysis."""

    async def prepare(self) -> None:
        """Make what is missing there. Harmless to repeat."""

    async def write(self, records: Sequence[Record]) -> None:
        """Returns when all of them are kept. Raises Unavailable when that is not known: they are written again, and count once."""

    async def close(self) -> None:
        """Let connections go."""
