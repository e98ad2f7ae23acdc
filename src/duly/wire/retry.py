"""Retry policies on the wire, and their translation to and from the domain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from duly.domain.choices import Backoff
from duly.wire.shapes import (
    Millis,
    Shape,
    pattern,
)

if TYPE_CHECKING:
    from duly.domain.retry import RetryPolicy, RetryRule


# As what they are not, so that it holds beyond the first 65,536 characters, however a reader of patterns counts them.
_FIRST = "[^\\u0000-@\\[-\\^`{-\\u007f]"
_REST = "[^\\u0000-/:-@\\[-\\^`{-\\u007f]"


class RetryRuleShape(Shape, kw_only=True):
    """What one kind of error changes; the first rule that names its class or a base class of it holds."""

    error: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=200,
            examples=["ValueError"],
            # Python has names in every script: letters, and whatever else lies beyond ASCII and is none is refused as well.
            extra_json_schema=pattern(f"^{_FIRST}{_REST}*([.]{_FIRST}{_REST}*)*$"),
        ),
    ]
    retry: bool = True
    delay_ms: Millis | None = None
    max_attempts: Annotated[int, Meta(ge=1, le=1000)] | None = None


class RetryShape(Shape, kw_only=True):
    """How often and how soon a failed attempt is tried again."""

    max_attempts: Annotated[int, Meta(ge=1, le=1000)] = 3
    backoff: Backoff = Backoff.EXPONENTIAL
    initial_delay_ms: Millis = 10_000
    max_delay_ms: Millis = 3_600_000
    multiplier: Annotated[float, Meta(ge=1, le=100)] = 2.0
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.1
    max_losses: Annotated[int, Meta(ge=1, le=1000)] = 3
    rules: Annotated[list[RetryRuleShape], Meta(max_length=50)] = []


def _rule_shape(rule: RetryRule) -> RetryRuleShape:
    delay_ms = None if rule.delay is None else rule.delay // 1000
    return RetryRuleShape(error=rule.error, retry=rule.retry, delay_ms=delay_ms, max_attempts=rule.max_attempts)


def retry_shape(policy: RetryPolicy) -> RetryShape:
    """The policy as the wire shows it."""
    return RetryShape(
        max_attempts=policy.max_attempts,
        backoff=policy.backoff,
        initial_delay_ms=policy.initial_delay // 1000,
        max_delay_ms=policy.max_delay // 1000,
        multiplier=policy.multiplier,
        jitter=policy.jitter,
        max_losses=policy.max_losses,
        rules=[_rule_shape(rule) for rule in policy.rules],
    )
