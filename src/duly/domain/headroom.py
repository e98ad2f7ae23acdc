"""Whether there is room for more: bounds that are exact for many submitters at once, and cheap.

How much a tenant holds is not counted at every submit. A row keeps what a count has found and what was granted since; the
two together are never less than what the grants have brought, so while they stay within the quota nothing needs to be counted.
Past it, and now and then, it is counted again, by whoever holds the row. What comes in without asking (scheduled fires, retries) is
seen by the next count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from duly.domain.errors import TooLarge, TooMany
from duly.domain.instants import MINUTE, SECOND, Instant, Micros

# What one counted row costs, roughly: how long a count is trusted grows with its price.
PER_ROW: Micros = 10
# A count of what is full is repeated at most that often; with room left it may be older.
LONGEST_REFUSAL: Micros = SECOND
SHORTEST_TRUST: Micros = SECOND
LONGEST_TRUST: Micros = MINUTE


class Answer(Enum):
    """Whether so many more may come in."""

    ADMIT = "admit"
    COUNT = "count again"
    REFUSE = "refuse"


@dataclass(slots=True)
class Headroom:
    """What was counted and when (None: never), and what was granted since. `is_fresh`: counted by whoever asks."""

    counted: int = 0
    granted: int = 0
    counted_at: Instant | None = None
    is_fresh: bool = False

    @property
    def bound(self) -> int:
        """There is at most that much of what has asked."""
        return self.counted + self.granted

    def ask(self, wanted: int, quota: int, now: Instant) -> Answer:
        """Decide about `wanted` more. A clock that went back makes every count old."""
        fits = self.bound + wanted <= quota
        if self.is_fresh:
            return Answer.ADMIT if fits else Answer.REFUSE
        age = None if self.counted_at is None else now - self.counted_at
        if age is None or not 0 <= age <= min(max(SHORTEST_TRUST, 5 * PER_ROW * self.counted), LONGEST_TRUST):
            return Answer.COUNT
        if fits:
            return Answer.ADMIT
        # More than the quota at once never fits, whatever a count finds.
        return Answer.REFUSE if wanted > quota or age < min(PER_ROW * self.counted, LONGEST_REFUSAL) else Answer.COUNT

    def learn(self, counted: int, now: Instant, unwritten: int = 0) -> None:
        """What a count has found just now. `unwritten` was granted before and stands in no table yet, so no count finds it."""
        self.counted, self.granted, self.counted_at, self.is_fresh = counted, unwritten, now, True


def wait_for_window(starts: Mapping[int, int], wanted: int, quota: int, now: Instant) -> Micros | None:
    """How long until `wanted` more fit into a minute that holds at most `quota`; None: they do already.

    `starts` says how many came in each second. A second counts until all of it lies a minute back.
    """
    live = {second: count for second, count in starts.items() if window_end(second) > now}
    excess = sum(live.values()) + wanted - quota
    if excess <= 0:
        return None
    for second in sorted(live):
        excess -= live[second]
        if excess <= 0:
            return window_end(second) - now
    return MINUTE


def window_end(second: int) -> Instant:
    """When a second counts no more."""
    return (second + 1) * SECOND + MINUTE


def too_many_jobs(quota: int, wanted: int) -> TooMany | TooLarge:
    """Why no more jobs can be made."""
    if wanted > quota:
        return _never_fits("maxJobs", "jobs", wanted, quota)
    return TooMany(
        "DULY-E401",
        f"The tenant has its {quota:,} jobs: the quota maxJobs is reached.",
        field="maxJobs",
        hint="Cancel jobs that are not needed, or ask for a larger quota; by itself there is room only when one-time jobs are over.",
        retry_after=60.0,
    )


def too_many_queued(quota: int, wanted: int) -> TooMany | TooLarge:
    """Why no more executions can wait."""
    if wanted > quota:
        return _never_fits("maxQueued", "executions", wanted, quota)
    return TooMany(
        "DULY-E402",
        f"{quota:,} executions of the tenant wait already, or would: the quota maxQueued is reached.",
        field="maxQueued",
        hint="Submit again when some of them have started.",
        retry_after=1.0,
    )


def too_many_fires(quota: int, wanted: int, wait: Micros) -> TooMany | TooLarge:
    """Why no more executions can come in within this minute."""
    if wanted > quota:
        return _never_fits("maxFiresPerMinute", "executions", wanted, quota)
    return TooMany(
        "DULY-E403",
        f"The tenant may submit {quota:,} executions a minute: the quota maxFiresPerMinute is reached.",
        field="maxFiresPerMinute",
        hint="Submit again after Retry-After seconds.",
        retry_after=wait / SECOND,
    )


def _never_fits(name: str, what: str, wanted: int, quota: int) -> TooLarge:
    """However long somebody waits: the whole call is larger than the quota."""
    told = f"{wanted:,} {what} at once can never fit into the tenant's quota {name} of {quota:,}."
    hint = "Submit fewer at once, or ask for a larger quota." if quota else "Ask for a larger quota."
    return TooLarge("DULY-E406", told, field=name, hint=hint)
