"""Streams of events, sans-IO: what comes in pieces goes out as events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from duly.wire.executions import LogLineView


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream."""

    name: str
    data: bytes
    id: str | None = None


class Events:
    """Reads a text/event-stream as it comes, in pieces of any size."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = "message"
        self._id: str | None = None
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The events that this piece completes."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if not line:
                if self._data:
                    yield Event(self._name, b"\n".join(self._data), self._id)
                self._name, self._data = "message", []
                continue
            key, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if key == b"event":
                self._name = value.decode()
            elif key == b"data":
                self._data.append(value)
            elif key == b"id":
                self._id = value.decode()


def log_line(event: Event) -> LogLineView | None:
    """The log line that an event carries; None for any other event."""
    return msgspec.json.decode(event.data, type=LogLineView) if event.name == "log" else None
