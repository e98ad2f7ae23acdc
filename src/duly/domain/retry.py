"""Retry policies: how often, and how long to wait in between."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from duly.domain.errors import Invalid
from duly.domain.instants import DAY, SECOND, Micros

MOST_ATTEMPTS = 1000


class Backoff(StrEnum):
    """How the wait grows with the number of failures."""

    EXPONENTIAL = "EXPONENTIAL"
    LINEAR = "LINEAR"
    FIXED = "FIXED"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """At most `max_attempts` tries that end in failure; `max_losses` workers lost under it before it is quarantined."""

    max_attempts: int = 3
    backoff: Backoff = Backoff.EXPONENTIAL
    initial_delay: Micros = 10 * SECOND
    max_delay: Micros = 3600 * SECOND
    multiplier: float = 2.0
    jitter: float = 0.1
    max_losses: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.max_attempts <= MOST_ATTEMPTS:
            raise _refuse("maxAttempts", f"must be between 1 and {MOST_ATTEMPTS}")
        if not 1 <= self.max_losses <= MOST_ATTEMPTS:
            raise _refuse("maxLosses", f"must be between 1 and {MOST_ATTEMPTS}")
        if not 0 <= self.initial_delay <= 30 * DAY:
            raise _refuse("initialDelayMs", "must be between 0 and 30 days")
        if not 0 <= self.max_delay <= 30 * DAY:
            raise _refuse("maxDelayMs", "must be between 0 and 30 days")
        if not 1.0 <= self.multiplier <= 100.0:
            raise _refuse("multiplier", "must be between 1 and 100")
        if not 0.0 <= self.jitter <= 1.0:
            raise _refuse("jitter", "must be between 0 and 1")


def delay_before_retry(policy: RetryPolicy, failures: int, chance: float) -> Micros:
    """How long to wait after the `failures`-th failure (from 1). `chance` in [0, 1) spreads it by ± jitter; the cap holds after it."""
    if policy.backoff is Backoff.FIXED:
        base = float(policy.initial_delay)
    elif policy.backoff is Backoff.LINEAR:
        base = float(policy.initial_delay) * failures
    else:
        # Beyond 64 doublings every wait is at its cap; an unbounded power would overflow.
        base = float(policy.initial_delay) * policy.multiplier ** min(failures - 1, 64)
    spread = 1.0 + policy.jitter * (2.0 * chance - 1.0)
    return min(round(min(base, 1e18) * spread), policy.max_delay)


def _refuse(field: str, message: str) -> Invalid:
    return Invalid("DULY-E106", f"{message}.", field=f"retryPolicy.{field}")
