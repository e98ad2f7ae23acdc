"""How much one caller may ask for: a token bucket for each key, and one for each address that sends keys which are not valid.

Both are kept in memory, on each node for itself: they keep a node from being flooded, and nothing that they count is worth a write.
What is kept is bounded: of more callers than that, those that were silent longest are forgotten, which only does them good.

Guessing is slowed, not locked out. A key that nobody has shown here lately takes a token of its address before it is looked up,
and gives it back when it is valid; when none is left it waits its turn, for a moment, and past that it is refused. A key that was
valid lately passes whatever else comes from its address: a proxy may stand before good and bad alike.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from hashlib import sha256
from ipaddress import IPv6Address, ip_address

from duly.domain.errors import TooMany
from duly.domain.instants import MINUTE, Micros
from duly.domain.rates import Bucket, Rate, give_back, take
from duly.ports.clock import Clock

MOST_CALLERS = 10_000
GUESSES = Rate(per_second=10, burst=200)
# So long a guess waits for its turn.
PATIENCE = 1.0
REMEMBERED_FOR: Micros = 15 * MINUTE


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


class GuessLimit:
    """So many keys that are not valid an address may show on this node."""

    def __init__(self, clock: Clock, rate: Rate = GUESSES) -> None:
        self._clock = clock
        self._buckets = Buckets(rate)
        self._valid: OrderedDict[bytes, Micros] = OrderedDict()

    def reserve(self, peer: str, credential: bytes) -> float:
        """Before a key is looked up: how many seconds to wait first. Raises TooMany when that is too long."""
        now = self._clock.boottime()
        shown = self._valid.get(_mark(credential))
        if shown is not None and 0 <= now - shown < REMEMBERED_FOR:
            return 0.0
        bucket, rate = self._buckets.of(place_of(peer), now), self._buckets.rate
        wait = take(bucket, rate, now)
        if wait > PATIENCE:
            give_back(bucket, rate)
            raise TooMany("DULY-E412", "Too many keys from this address were not valid.", field="Authorization", retry_after=wait)
        return wait

    def is_valid(self, peer: str, credential: bytes) -> None:
        """It was valid: it costs its address nothing, and passes from now on."""
        now, mark = self._clock.boottime(), _mark(credential)
        if mark not in self._valid:
            self.is_unknown(peer)
            if len(self._valid) >= MOST_CALLERS:
                self._valid.popitem(last=False)
        elif now - self._valid[mark] >= REMEMBERED_FOR:
            self.is_unknown(peer)
        self._valid[mark] = now
        self._valid.move_to_end(mark)

    def is_unknown(self, peer: str) -> None:
        """Nobody could say whether it is valid: it costs its address nothing."""
        give_back(self._buckets.of(place_of(peer), self._clock.boottime()), self._buckets.rate)

    def forget(self, credential: bytes) -> None:
        """It is no longer valid."""
        self._valid.pop(_mark(credential), None)


def place_of(peer: str) -> str:
    """Who stands behind an address: of IPv6 the first half, because the other half is anybody's to choose."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else str(IPv6Address(int(address) >> 64 << 64))
    return str(address)


def _mark(credential: bytes) -> bytes:
    return sha256(b"duly shown\x00" + credential).digest()
