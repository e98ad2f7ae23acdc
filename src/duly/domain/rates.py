"""Token buckets: so many at once, and so many a second from then on. Time is an argument."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.instants import SECOND, Micros


@dataclass(frozen=True, slots=True)
class Rate:
    """What a bucket allows: `burst` at once, refilled with `per_second`."""

    per_second: float
    burst: int


@dataclass(slots=True)
class Bucket:
    """How much is left of a burst, and when that was so. Below nothing: who comes next waits."""

    left: float
    at: Micros


def take(bucket: Bucket, rate: Rate, now: Micros) -> float:
    """Take one, and answer how many seconds early that is: 0 when it was there. A clock that goes back brings nothing."""
    refill(bucket, rate, now)
    bucket.left -= 1
    return max(0.0, -bucket.left / rate.per_second)


def give_back(bucket: Bucket, rate: Rate) -> None:
    """What was taken was not used."""
    bucket.left = min(float(rate.burst), bucket.left + 1)


def refill(bucket: Bucket, rate: Rate, now: Micros) -> None:
    """Bring a bucket up to date."""
    elapsed = max(0, now - bucket.at)
    bucket.left = min(float(rate.burst), bucket.left + elapsed * rate.per_second / SECOND)
    bucket.at = now
