"""A job as it was sent over the wire → the instants at which it should fire. By the oracle, never by the product's own schedule code.

What the oracle has no opinion about (recurrence rules, calendars, the hash slot `H`) it says so: `judges` is false, and the
checker takes the store's word for when such a job should fire, and counts how many jobs it had to believe.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from duly.verify.oracle import cron_fires

MICRO = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
# Nobody watches a fleet for longer; who asks for more has read a time wrongly.
LONGEST = 40 * 86_400 * SECOND


def instant(text: Any) -> int | None:
    """An RFC 3339 time as microseconds since 1970; None stays None."""
    if text is None:
        return None
    if isinstance(text, int):
        return text
    return (datetime.fromisoformat(text) - EPOCH) // MICRO


class Plan:
    """When one version of a job fires, and under which policies."""

    def __init__(self, body: dict[str, Any], answer: dict[str, Any] | None = None) -> None:
        """`body` is what was sent. What the server had to fill in (an anchor, the time of a delay) is read from `answer`."""
        given = answer or {}
        self.body = body
        self.kind = _kind(body)
        self.zone: str = body.get("timezone") or "UTC"
        self.run_at = instant(body.get("runAt") or given.get("runAt"))
        self.start_at = instant(body.get("startAt"))
        self.end_at = instant(body.get("endAt"))
        self.anchor = instant(body.get("anchorAt") or given.get("anchorAt")) if self.kind == "INTERVAL" else None
        if self.kind == "INTERVAL" and self.anchor is None:
            self.anchor = self.start_at
        self.every = round(body.get("intervalSec", 0) * SECOND)
        self.jitter = round(body.get("jitterSec", 0) * SECOND)

    @property
    def judges(self) -> bool:
        """Whether the oracle knows its fires."""
        if self.body.get("calendars"):
            return False
        if self.kind in ("ONE_TIME", "DELAYED"):
            return self.run_at is not None
        if self.kind == "INTERVAL":
            return self.anchor is not None and self.every > 0
        if self.kind == "CRON":
            return "H" not in _without_names(self.body["schedule"])
        return self.kind == "ON_DEMAND"

    @property
    def is_once(self) -> bool:
        """Whether it fires one time only."""
        return self.kind in ("ONE_TIME", "DELAYED")

    @property
    def is_fixed_time(self) -> bool:
        """Whether each local time it names fires once: a cron expression whose hour and minute do not begin with a star."""
        if self.kind != "CRON":
            return False
        text = self.body["schedule"].strip().lower()
        parts = text.split()
        return text != "@hourly" and not any(part.startswith("*") for part in (parts[:3] if self.body.get("seconds") else parts[:2]))

    def timing(self) -> tuple[Any, ...]:
        """What decides when it fires; a version that changes none of it keeps its next fire."""
        body = self.body
        schedule = (self.kind, body.get("schedule"), bool(body.get("seconds")), self.zone, body.get("dstGap"), body.get("dstOverlap"))
        bounds = (self.every, self.anchor, self.run_at, self.start_at, self.end_at, self.jitter)
        return (*schedule, *bounds, tuple(body.get("calendars") or ()), body.get("onExcluded"))

    def fires(self, first: int, last: int) -> list[int]:
        """Every nominal instant in [first, last], in order. Raises ValueError for a window that no history can have."""
        if self.is_once:
            return [self.run_at] if self.run_at is not None and first <= self.run_at <= last else []
        first = max(first, 0 if self.start_at is None else self.start_at)
        last = last if self.end_at is None else min(last, self.end_at)
        if first > last:
            return []
        if last - first > LONGEST:
            raise ValueError("the fires of more than forty days are asked for")
        if self.kind == "INTERVAL":
            assert self.anchor is not None
            nth = max(-((self.anchor - first) // self.every), 0)
            return list(range(self.anchor + nth * self.every, last + 1, self.every))
        if self.kind == "CRON":
            body = self.body
            policies = (body.get("dstGap") or "run_after", body.get("dstOverlap") or "first")
            return _cron(body["schedule"], bool(body.get("seconds")), self.zone, *policies, -(-first // SECOND), last // SECOND + 1)
        return []


def _kind(body: dict[str, Any]) -> str:
    declared = body.get("type")
    if declared:
        return str(declared)
    for key, kind in (("schedule", "CRON"), ("intervalSec", "INTERVAL"), ("runAt", "ONE_TIME"), ("delaySec", "DELAYED")):
        if body.get(key) is not None:
            return kind
    return "ON_DEMAND"


def _without_names(schedule: str) -> str:
    text = schedule.strip().upper()
    return "" if text.startswith("@") else text.replace("THU", "")


@lru_cache(maxsize=1024)
def _cron(text: str, seconds: bool, zone: str, gap: str, overlap: str, start: int, end: int) -> list[int]:
    return [second * SECOND for second in cron_fires(text, seconds, zone, gap, overlap, start, end)]
