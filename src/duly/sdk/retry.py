"""The retry policy as it is written in code."""

from __future__ import annotations

from datetime import timedelta

from duly.domain.durations import parse_duration
from duly.domain.retry import Backoff, RetryPolicy


class Retry:
    """`Retry(5)`: five attempts with exponential backoff. Durations may be text such as "30s"."""

    __slots__ = ("policy",)

    def __init__(
        self,
        max_attempts: int = 3,
        *,
        backoff: str = "exponential",
        initial_delay: str | float | timedelta = "10s",
        max_delay: str | float | timedelta = "1h",
        multiplier: float = 2.0,
        jitter: float = 0.1,
        max_losses: int = 3,
    ) -> None:
        self.policy = RetryPolicy(
            max_attempts=max_attempts,
            backoff=Backoff(backoff.upper()),
            initial_delay=parse_duration(initial_delay, field="initial_delay"),
            max_delay=parse_duration(max_delay, field="max_delay"),
            multiplier=multiplier,
            jitter=jitter,
            max_losses=max_losses,
        )
