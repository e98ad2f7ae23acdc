"""What the inside tells about itself: counts, durations and sizes, by batches; and where the numbers go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from duly.domain.instants import SECOND
from duly.domain.metrics import Family, Metric


class Telemetry(Protocol):
    """Hears what happened. Told on the event loop only, cheap, and never fails: nobody who tells it something looks at an answer."""

    def count(self, metric: Metric, labels: tuple[str, ...] = (), by: float = 1) -> None:
        """So many more of a counter."""

    def observe(self, metric: Metric, value: float, labels: tuple[str, ...] = ()) -> None:
        """One measurement of a histogram, in its own unit."""

    def observe_all(self, metric: Metric, values: Sequence[int], labels: tuple[str, ...] = (), scale: float = SECOND) -> None:
        """Many measurements at once, each divided by `scale`: microseconds of a batch become seconds."""

    def observe_since(self, metric: Metric, end: int, begins: Sequence[int], labels: tuple[str, ...] = (), scale: float = SECOND) -> None:
        """The same of how long before `end` each of these was."""

    def watch(self, metric: Metric, read: Callable[[], float], labels: tuple[str, ...] = ()) -> None:
        """A gauge of this process that is read when somebody asks."""

    def families(self) -> list[Family]:
        """All that was told so far."""


class NoTelemetry:
    """Nobody listens."""

    def count(self, metric: Metric, labels: tuple[str, ...] = (), by: float = 1) -> None:
        """Not kept."""

    def observe(self, metric: Metric, value: float, labels: tuple[str, ...] = ()) -> None:
        """Not kept."""

    def observe_all(self, metric: Metric, values: Sequence[int], labels: tuple[str, ...] = (), scale: float = SECOND) -> None:
        """Not kept."""

    def observe_since(self, metric: Metric, end: int, begins: Sequence[int], labels: tuple[str, ...] = (), scale: float = SECOND) -> None:
        """Not kept."""

    def watch(self, metric: Metric, read: Callable[[], float], labels: tuple[str, ...] = ()) -> None:
        """Not kept."""

    def families(self) -> list[Family]:
        """Nothing."""
        return []


_listening: ContextVar[Telemetry | None] = ContextVar("listening", default=None)


def listener() -> Telemetry:
    """Who listens to the present task, and to those that it starts."""
    return _listening.get() or NoTelemetry()


@contextmanager
def heard_by(telemetry: Telemetry | None) -> Iterator[None]:
    """What is started in here is listened to."""
    token = _listening.set(telemetry)
    try:
        yield
    finally:
        _listening.reset(token)


class MetricSink(Protocol):
    """Where metrics are sent to."""

    async def send(self, families: Sequence[Family]) -> None:
        """Hand them over. Raises Unavailable when nobody takes them."""

    async def close(self) -> None:
        """Let connections go."""


# All metrics of a process at this moment.
Gather = Callable[[], Awaitable[list[Family]]]
