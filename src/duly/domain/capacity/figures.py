"""What is kept of a run: how late, how many waited, how much was used; overall and by the minute."""

from __future__ import annotations

from collections import defaultdict

from duly.domain.instants import MINUTE, Instant, Micros

_STEPS = 32


class Lateness:
    """How late executions were, in steps of three per cent; never more than a thousand numbers, however many there were."""

    __slots__ = ("_counts", "count", "most", "total")

    def __init__(self) -> None:
        self._counts: dict[int, int] = defaultdict(int)
        self.count = 0
        self.total = 0.0
        self.most: Micros = 0

    def add(self, late: Micros, times: int = 1) -> None:
        """So many were that late."""
        self._counts[_step(late)] += times
        self.count += times
        self.total += late * times
        self.most = max(self.most, late)

    @property
    def mean(self) -> float:
        """The mean, exactly."""
        return self.total / self.count if self.count else 0.0

    def quantile(self, share: float) -> Micros:
        """What this share of all was no later than."""
        wanted, seen = share * self.count, 0
        for step in sorted(self._counts):
            seen += self._counts[step]
            if seen >= wanted:
                return min(_top(step), self.most)
        return self.most


def _step(late: Micros) -> int:
    if late < _STEPS:
        return max(late, 0)
    shift = late.bit_length() - 6
    return _STEPS + (shift << 5) + ((late >> shift) & (_STEPS - 1))


def _top(step: int) -> Micros:
    if step < _STEPS:
        return step
    shift, part = divmod(step - _STEPS, _STEPS)
    return ((_STEPS + part + 1) << shift) - 1


class Minutes:
    """A number for each minute of the horizon: an amount that is added up."""

    __slots__ = ("_begin", "amounts")

    def __init__(self, begin: Instant) -> None:
        self._begin = begin
        self.amounts: dict[int, float] = defaultdict(float)

    def add(self, at: float, amount: float) -> None:
        """At one instant."""
        self.amounts[int((at - self._begin) // MINUTE)] += amount

    def spend(self, since: float, until: float, amount: float) -> None:
        """Evenly from one instant to another."""
        minute = int(since - self._begin) // MINUTE
        if until <= self._begin + (minute + 1) * MINUTE:
            self.amounts[minute] += amount
            return
        rate = amount / (until - since)
        while since < until:
            ends = min(self._begin + (minute + 1) * MINUTE, until)
            self.amounts[minute] += rate * (ends - since)
            since, minute = ends, minute + 1

    def top(self, minutes: int) -> tuple[float, Instant]:
        """The largest amount within the horizon's so many minutes, and where it begins."""
        inside = {minute: amount for minute, amount in self.amounts.items() if 0 <= minute < minutes}
        if not inside:
            return 0.0, self._begin
        minute = max(inside, key=lambda one: (inside[one], -one))
        return inside[minute], self._begin + minute * MINUTE

    def hourly(self, minutes: int) -> float:
        """The largest mean of sixty minutes in a row; of all, where there are fewer."""
        width = min(60, minutes)
        amounts = [self.amounts.get(minute, 0.0) for minute in range(minutes)]
        here = most = sum(amounts[:width])
        for minute in range(width, minutes):
            here += amounts[minute] - amounts[minute - width]
            most = max(most, here)
        return most / width


class Peak:
    """The largest number seen, and when it was first seen."""

    __slots__ = ("at", "most")

    def __init__(self, begin: Instant) -> None:
        self.most = 0
        self.at: Instant = begin

    def see(self, number: int, at: float) -> None:
        """Look at a number."""
        if number > self.most:
            self.most, self.at = number, int(at)
