"""How much one caller may ask for: a token bucket for each key.

It is kept in memory, on each node for itself: it keeps a node from being flooded, and nothing that it counts is worth a write.
What is kept is bounded: of more callers than that, those that were silent longest are forgotten, which only does them good.
"""

from __future__ import annotations

import math
from collections import OrderedDict

from duly.domain.errors import TooMany
from duly.domain.instants import Micros
from duly.domain.rates import Bucket, Rate, give_back, take
from duly.ports.clock import Clock

MOST_CALLERS = 10_000


class Buckets:
    """One bucket for each caller, as many as are remembered."""

    def __init__(self, rate: Rate, most: int = MOST_CALLERS) -> None:
        self.rate = rate
        self._most = most
        self._kept: OrderedDict[str, Bucket] = OrderedDict()

    def of(self, caller: str, now: Micros) -> Bucket:
        """The caller's bucket; a new one is full."""
        bucket = self._kept.get(caller)
        if bucket is None:
            bucket = self._kept[caller] = Bucket(float(self.rate.burst), now)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(caller)
        return bucket

    def __len__(self) -> int:
        return len(self._kept)


class KeyLimit:
    """So many requests a key may make on this node."""

    def __init__(self, clock: Clock, rate: Rate) -> None:
        self._clock = clock
        self._buckets = Buckets(rate)
        self._policy = (b"ratelimit-policy", b'"key";q=%d;w=%d' % (rate.burst, max(1, math.ceil(rate.burst / rate.per_second))))

    def admit(self, key_id: str) -> list[tuple[bytes, bytes]]:
        """Count a request; answers the headers that tell its key what is left. Raises TooMany when nothing is."""
        now, rate = self._clock.boottime(), self._buckets.rate
        bucket = self._buckets.of(key_id, now)
        early = take(bucket, rate, now)
        if early > 0:
            give_back(bucket, rate)
        full = math.ceil((rate.burst - bucket.left) / rate.per_second)
        headers = [self._policy, (b"ratelimit", b'"key";r=%d;t=%d' % (max(0, int(bucket.left)), full))]
        if early > 0:
            raise LimitReached(headers, early, rate)
        return headers


class LimitReached(TooMany):
    """The key has asked for more than its share; `headers` say so to machines."""

    def __init__(self, headers: list[tuple[bytes, bytes]], early: float, rate: Rate) -> None:
        super().__init__(
            "DULY-E411",
            f"The key may make {rate.per_second:g} requests a second, {rate.burst} at once.",
            hint="Wait for Retry-After; send many jobs or executions in one request with :batch.",
            retry_after=early,
        )
        self.headers = headers
