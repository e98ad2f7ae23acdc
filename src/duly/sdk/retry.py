"""The retry policy as it is written in code."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from duly.domain.durations import parse_duration
from duly.domain.retry import Backoff, RetryPolicy, RetryRule
from duly.sdk.checks import kind_checked, one_of, whole


class Rule:
    """What one kind of error changes: `Rule(ValueError, retry=False)`, `Rule("RateLimited", delay="1m", max_attempts=10)`.

    The error is a class, which means its subclasses too, or the name of one, for a class that is not imported here.
    """

    __slots__ = ("rule",)

    def __init__(
        self,
        error: type[BaseException] | str,
        *,
        retry: bool = True,
        delay: str | float | timedelta | None = None,
        max_attempts: int | None = None,
    ) -> None:
        wait = None if delay is None else parse_duration(delay, field="delay")
        self.rule = RetryRule(error=_name(error), retry=retry, delay=wait, max_attempts=max_attempts)


class Retry:
    """`Retry(5)`: five attempts with exponential backoff. Durations may be text such as "30s".

    `rules` say what certain errors change, the first that fits; errors in `give_up_on` are never tried again.
    """

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
        rules: Sequence[Rule] = (),
        give_up_on: type[BaseException] | Sequence[type[BaseException] | str] = (),
    ) -> None:
        hopeless = [give_up_on] if isinstance(give_up_on, type) else give_up_on
        self.policy = RetryPolicy(
            max_attempts=whole(max_attempts, "retry", "Retry(5)"),
            backoff=one_of(Backoff, str(backoff).upper(), "retry", [one.lower() for one in Backoff]),
            initial_delay=parse_duration(initial_delay, field="initial_delay"),
            max_delay=parse_duration(max_delay, field="max_delay"),
            multiplier=_number(multiplier, "multiplier=2.0"),
            jitter=_number(jitter, "jitter=0.1"),
            max_losses=whole(max_losses, "retry", "max_losses=3"),
            rules=(*(RetryRule(error=_name(error), retry=False) for error in hopeless), *(rule.rule for rule in rules)),
        )


def _number(value: float, example: str) -> float:
    kind_checked(value, (int, float), "retry", "a number", f"Write {example}.")
    return value


def _name(error: type[BaseException] | str) -> str:
    """A class by its full name, so that another one of the same name is not meant; one of Python's own by its plain name."""
    if isinstance(error, str):
        return error
    return error.__name__ if error.__module__ == "builtins" else f"{error.__module__}.{error.__qualname__}"
