"""Trace contexts: which one the present task is in, and where those of executions are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from duly.domain.ids import ExecutionId

_carried: ContextVar[str | None] = ContextVar("carried", default=None)


def carried() -> str | None:
    """The trace context (`traceparent`) in which the present task acts; None: it is in none."""
    return _carried.get()


def carrying(traceparent: str | None) -> AbstractContextManager[None]:
    """What is enqueued in here belongs to this trace."""
    return _Carrying(traceparent)


class _Carrying:
    """Around every handler that is traced: a third of what a generator would cost."""

    __slots__ = ("_token", "_traceparent")

    def __init__(self, traceparent: str | None) -> None:
        self._traceparent = traceparent

    def __enter__(self) -> None:
        self._token = _carried.set(self._traceparent)

    def __exit__(self, *exc_info: object) -> None:
        _carried.reset(self._token)


class Noted(NamedTuple):
    """The trace context that an execution was given."""

    id: ExecutionId
    tenant: int
    context: str


class Traces(Protocol):
    """Where contexts are kept that executions were given. One that has a trace of its own needs none."""

    async def note(self, noted: Sequence[Noted]) -> None:
        """Keep them, before the executions are there; what was kept before stays."""

    async def of(self, ids: Sequence[ExecutionId]) -> dict[ExecutionId, str]:
        """Those of these executions that were given one."""


# For a request that comes within a trace: its `traceparent`, and what it is. What happens in the block belongs to it.
RequestTracer = Callable[[str, str], AbstractContextManager[None]]
