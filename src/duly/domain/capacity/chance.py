"""Chance that a seed repeats: SplitMix64, a few additions and shifts for each draw."""

from __future__ import annotations

from math import exp, sqrt
from statistics import NormalDist

_NORMAL = NormalDist()
# From here on a Poisson distribution and a normal one are hardly told apart.
_MANY = 30.0
_MASK = (1 << 64) - 1


class Chance:
    """Draws in [0, 1). Equal seeds give equal draws, on every machine."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def draw(self) -> float:
        """The next draw."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((mixed ^ (mixed >> 31)) >> 11) * 2.0**-53

    def number(self, mean: float) -> int:
        """How many there are at once of those that come independently, so many in the mean: Poisson."""
        draw = self.draw()
        if mean > _MANY:
            return max(round(mean + sqrt(mean) * _NORMAL.inv_cdf(min(max(draw, 1e-12), 1 - 1e-12))), 0)
        number, chance = 0, exp(-mean)
        reached = chance
        while draw > reached and number < 200:
            number += 1
            chance *= mean / number
            reached += chance
        return number
