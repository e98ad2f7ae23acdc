"""How long runs take: always the same, or lognormal, as durations of real work mostly are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp, log
from statistics import NormalDist

from duly.domain.errors import Invalid
from duly.domain.instants import DAY, Micros

# A draw picks one of so many equal parts of the distribution, and takes that part's mean: so the mean of all draws is exact.
PARTS = 4096
LONGEST: Micros = 7 * DAY
_NORMAL = NormalDist()
# Where 95 of 100 lie below, in standard deviations.
_Z95 = _NORMAL.inv_cdf(0.95)


@dataclass(frozen=True, slots=True)
class Span:
    """Half of all runs take at most `p50`, 95 of 100 at most `p95`; equal, they are constant."""

    p50: Micros
    p95: Micros

    def __post_init__(self) -> None:
        if not 0 <= self.p50 <= self.p95 <= LONGEST:
            hint = "p50 is at most p95, and both are between 0 and 7 days; leave p95 out when all take equally long."
            raise Invalid("DULY-E282", "p50 and p95 do not go together.", field="duration", hint=hint)
        if self.p50 == 0 and self.p95 > 0:
            raise Invalid("DULY-E282", "half of all runs cannot take no time at all.", field="duration.p50", hint="Write 1ms, for example.")

    @property
    def sigma(self) -> float:
        """How wide it spreads: the standard deviation of the logarithm."""
        return 0.0 if self.p95 == self.p50 else log(self.p95 / self.p50) / _Z95

    @property
    def mean(self) -> float:
        """The mean of all runs, in microseconds."""
        return self.p50 * exp(self.sigma**2 / 2)

    def parts(self) -> tuple[Micros, ...]:
        """The distribution, cut into equal parts: the mean of each, from the shortest to the longest."""
        return _parts(self.p50, self.p95)


@lru_cache(maxsize=4096)
def _parts(p50: Micros, p95: Micros) -> tuple[Micros, ...]:
    span = Span(p50, p95)
    sigma = span.sigma
    if sigma == 0.0:
        return (p50,)
    mean = span.mean
    # The share of the mean that lies below a quantile is the normal distribution again, sigma to the left.
    below = [0.0, *(_NORMAL.cdf(_NORMAL.inv_cdf(nth / PARTS) - sigma) for nth in range(1, PARTS)), 1.0]
    return tuple(round(mean * PARTS * (below[nth + 1] - below[nth])) for nth in range(PARTS))


def span_of(durations: list[Micros]) -> Span:
    """The span of measured durations, of which there must be some."""
    ordered = sorted(durations)
    p50 = max(ordered[len(ordered) // 2], 1)
    return Span(min(p50, LONGEST), min(max(ordered[min(len(ordered) * 95 // 100, len(ordered) - 1)], p50), LONGEST))
