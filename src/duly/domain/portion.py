"""How much a claim asks for, where payloads are large.

A claim is one answer of the store: two thousand payloads of the largest size would take half a minute to arrive and a gigabyte to
read, and four thousand fit into no message at all. So a claim asks for as many as fit into one answer by what the last ones were like,
and for a few after one that failed, whatever it failed of: asked for again in full, it would fail for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from duly.domain.fairness import Ask
from duly.domain.tenants import LARGEST_PAYLOAD

LARGEST_ANSWER = 1 << 26


@dataclass(slots=True)
class Portion:
    """What one worker has learned about the payloads that it claims."""

    _each: int = 0

    def of(self, asks: Sequence[Ask]) -> Sequence[Ask]:
        """The same asks, each cut in proportion where all of them together would be too large an answer."""
        if not self._each:
            return asks
        total = sum(ask.quota for ask in asks)
        if total * self._each <= LARGEST_ANSWER:
            return asks
        most = max(LARGEST_ANSWER // self._each, 1)
        # Of more asks than that, the first ones: they are in the order of who is to come next.
        return [Ask(ask.route, ask.tenant, max(ask.quota * most // total, 1)) for ask in asks[:most]]

    def learn(self, found: int, size: int) -> None:
        """A claim found so many, and their payloads were so large together. What was large is forgotten slowly."""
        self._each = max(size // max(found, 1), self._each // 2)

    def fail(self) -> None:
        """A claim has failed: the next one is small enough for any payload."""
        self._each = LARGEST_PAYLOAD
