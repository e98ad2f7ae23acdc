"""Retry policies: how often, and how long to wait in between."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from duly.domain.choices import Backoff as Backoff
from duly.domain.errors import Invalid
from duly.domain.instants import DAY, SECOND, Micros

MOST_ATTEMPTS = 1000
MOST_RULES = 50
# However long a handler asks to wait.
LONGEST_WAIT: Micros = 30 * DAY
ERROR_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """What one kind of error changes. `error` is the name of its class or of a base class, plain (`ValueError`) or qualified
    (`requests.exceptions.Timeout`). None leaves a value as the policy has it."""

    error: str
    retry: bool = True
    delay: Micros | None = None
    max_attempts: int | None = None

    def __post_init__(self) -> None:
        if len(self.error) > 200 or not ERROR_NAME.match(self.error):
            raise _refuse("rules", f"{self.error[:40]!r} is not the name of an error")
        if self.delay is not None and not 0 <= self.delay <= LONGEST_WAIT:
            raise _refuse("rules", "delayMs must be between 0 and 30 days")
        if self.max_attempts is not None and not 1 <= self.max_attempts <= MOST_ATTEMPTS:
            raise _refuse("rules", f"maxAttempts must be between 1 and {MOST_ATTEMPTS}")
        if not self.retry and (self.delay is not None or self.max_attempts is not None):
            raise _refuse("rules", "an error that is not retried has no delayMs and no maxAttempts")


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
    rules: tuple[RetryRule, ...] = ()

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
        if len(self.rules) > MOST_RULES:
            raise _refuse("rules", f"at most {MOST_RULES} rules")

    def rule_for(self, kinds: Collection[str]) -> RetryRule | None:
        """The first rule that names one of these: the names of an error's class and of its base classes."""
        return next((rule for rule in self.rules if rule.error in kinds), None)


def bounded_wait(wait: Micros) -> Micros:
    """A wait that somebody asked for: never negative, at most 30 days."""
    return min(max(wait, 0), LONGEST_WAIT)


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
