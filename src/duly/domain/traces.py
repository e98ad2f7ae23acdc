"""Trace contexts (W3C), and how an execution comes to one of its own.

What is submitted within a trace belongs to that one. Any other execution has a trace whose id is its own id, so whoever fires, claims or
loses it writes to the same trace without being told which. The spans of an execution have computed ids too: a retry is linked to the
attempt before it, whoever made that one, and what is written twice is one span. Whether it is traced at all is decided from the id, so
everybody decides alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from duly.domain.ids import ExecutionId, instant_of
from duly.domain.instants import Instant

# In the place of an attempt's number: the end of what never began one.
CANCELLED = -1
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_LONGEST = 256
_MASK_128 = (1 << 128) - 1
# Odd, and without a pattern: multiplying spreads the low bits of an id, which are random, over the high ones, which are time.
_SPREAD_SPANS = 0x9E3779B97F4A7C15F39CC0605CEDC835
# The largest prime below 2^30: what is left of an id after a division by it is spread evenly, at the price of one division.
_LOTS = 1_073_741_789


class TraceContext(NamedTuple):
    """A span of a trace, as others refer to it."""

    trace: int
    span: int
    is_sampled: bool = True

    @property
    def text(self) -> str:
        """As a `traceparent` header has it."""
        return f"00-{self.trace:032x}-{self.span:016x}-{'01' if self.is_sampled else '00'}"


def parse_traceparent(text: str) -> TraceContext | None:
    """Read a `traceparent` header. What is malformed is as if it were not there, as the recommendation has it."""
    found = _TRACEPARENT.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    context = TraceContext(int(found[2], 16), int(found[3], 16), bool(int(found[4], 16) & 1))
    return context if context.trace and context.span else None


def own_context(id: ExecutionId) -> TraceContext:
    """The first span of an execution that has a trace of its own."""
    return TraceContext(id.int, span_of(id, 0))


def span_of(id: ExecutionId, attempt: int) -> int:
    """The span of one attempt; 0 is what comes before the first, `CANCELLED` what is there instead of one."""
    return (((id.int + attempt) * _SPREAD_SPANS & _MASK_128) >> 64) or 1


def waits_since(id: ExecutionId, due_at: Instant) -> Instant:
    """From when on an execution could be taken: when it was due, but not before it was made (what was to run in the past)."""
    return max(due_at, instant_of(id))


def bound_of(fraction: float) -> int:
    """What `is_sampled` compares with, for such a part of all executions."""
    return round(fraction * _LOTS)


def sampled_among(ids: Iterable[ExecutionId], bound: int) -> list[int]:
    """The places of those of many, without a call for each."""
    return [nth for nth, id in enumerate(ids) if id.int % _LOTS < bound] if bound else []


def is_sampled(id: ExecutionId, bound: int) -> bool:
    """Whether an execution that has a trace of its own is traced."""
    return id.int % _LOTS < bound
