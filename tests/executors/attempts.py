"""Attempts for tests: a job around a target, and a log that can be waited for."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from duly.domain.ids import fire_id
from duly.domain.job import HttpCall, JobSpec, JobVersion, Target, Timing
from duly.ports.handlers import Attempt

JOB = UUID("0198c2a0-0000-7000-8000-000000000001")
DUE = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
NOW = DUE + 1_500_000


class WatchedAttempt(Attempt):
    """An attempt whose lines can be awaited as they are logged."""

    __slots__ = ("_changed",)
    _changed: asyncio.Event

    def log(self, level: str, message: str, fields: dict[str, Any], unkept: int = 0) -> None:
        super().log(level, message, fields, unkept)
        self._changed.set()

    async def line(self, start: str) -> str:
        """The rest of the first line that begins like this, as soon as it is there."""
        while True:
            self._changed.clear()
            for line in self.logs or []:
                if line.message.startswith(start):
                    return line.message.removeprefix(start)
            await self._changed.wait()

    def lines(self) -> list[tuple[str, str]]:
        return [(line.level, line.message) for line in self.logs or []]


def attempt_of(target: Target, *, payload: Any = None, attempt: int = 1) -> WatchedAttempt:
    version = JobVersion(7, JOB, 1, 1, "acme", 1, JobSpec(name="nightly", timing=Timing(), target=target), DUE)
    made = WatchedAttempt(fire_id(JOB, DUE), attempt, attempt - 1, 42, DUE, version, payload, lambda: NOW, "worker-1")
    made._changed = asyncio.Event()
    made.started_at = NOW
    return made


def shell(*argv: str, payload: Any = None) -> WatchedAttempt:
    return attempt_of(Target(shell=argv), payload=payload)


def http(url: str, *, payload: Any = None, **call: Any) -> WatchedAttempt:
    return attempt_of(Target(http=HttpCall(url=url, **call)), payload=payload)


def python(name: str, *, payload: Any = None, attempt: int = 1) -> WatchedAttempt:
    return attempt_of(Target(handler=name), payload=payload, attempt=attempt)
