"""What a worker and its child processes say to each other: one JSON document per line, over a socket of their own."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from duly.domain.instants import Instant, Micros
from duly.domain.job import JobVersion

LONGEST_MESSAGE = 16 << 20


class Hello(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """To a new child: where to look for modules, and what is kept of what handlers say."""

    path: list[str]
    capture: list[str] = []


class Run(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """To a child: one attempt. `now` is the worker's corrected clock at the time of sending."""

    handler: str
    id: UUID
    attempt: int
    failures: int
    fence: int
    due_at: Instant
    scheduled_at: Instant
    started_at: Instant
    deadline: Instant | None
    version: JobVersion
    payload: Any
    worker_name: str
    now: Instant
    number: int = 0
    checkpoint: str | None = None
    # Of a step: its parents, as (name, execution, result).
    parents: list[tuple[str, UUID, str | None]] | None = None
    # The secrets in the payload: what the child writes itself, it hides itself.
    hidden: list[str] = []
    traceparent: str | None = None


class Stop(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """To a child: the attempt in progress is asked to stop."""


class Kept(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """To a child: its oldest unanswered checkpoint is committed, or was refused."""

    refused: str | None = None


class Log(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """From a child: a line that the handler logged."""

    level: str
    message: str
    fields: dict[str, Any]


class Beat(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """From a child: the handler is alive."""


class Progress(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """From a child: how far the handler is, as JSON text."""

    progress: str


class Keep(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """From a child: a checkpoint, as JSON text; the handler waits for Kept."""

    data: str


class Returned(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """From a child: the handler's result. The child is free for the next attempt."""

    result: Any


class Raised(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """From a child: the handler failed, as text. The child is free for the next attempt.

    `snooze` and `discard` are no failures: it wants to be called again later, or not at all.
    """

    type: str
    message: str
    retry: bool = True
    retry_after: Micros | None = None
    detail: str | None = None
    kinds: tuple[str, ...] = ()
    snooze: Micros | None = None
    discard: bool = False


class Broken(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """From a child, its last word: the application cannot be imported."""

    message: str
    detail: str


Request = Hello | Run | Stop | Kept
Reply = Log | Beat | Progress | Keep | Returned | Raised | Broken
