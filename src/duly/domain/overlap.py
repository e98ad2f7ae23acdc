"""What a fire does when the job's previous run is still live.

A job whose policy is not a plain `allow` has places; who stands in one is live, from its fire to its
outcome. `meet` says what becomes of a fire that finds some of them taken. The firing transaction calls
it with what it has read under lock, and whoever explains a fire calls it with what was read since.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import assert_never

from duly.domain.choices import OverlapPolicy as OverlapPolicy
from duly.domain.errors import Invalid
from duly.domain.instants import HOUR, SECOND, Micros

DEEPEST_QUEUE = 1000
MOST_PLACES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """The policy; how many may run under `allow` (None: any number), how many may wait under `queue_all`, and how long
    `kill_previous` asks before it kills."""

    policy: OverlapPolicy = OverlapPolicy.SKIP
    max_running: int | None = None
    max_queued: int = 100
    grace: Micros = 10 * SECOND

    def __post_init__(self) -> None:
        if not 1 <= self.max_queued <= DEEPEST_QUEUE:
            raise Invalid("DULY-E106", f"must be between 1 and {DEEPEST_QUEUE}.", field="maxQueued")
        if self.max_running is not None:
            if self.policy is not OverlapPolicy.ALLOW:
                raise Invalid("DULY-E106", f"goes with overlap allow, not with {self.policy.value}.", field="maxRunning")
            if not 1 <= self.max_running <= MOST_PLACES:
                raise Invalid("DULY-E106", f"must be between 1 and {MOST_PLACES}.", field="maxRunning")
        if not 0 <= self.grace <= HOUR:
            raise Invalid("DULY-E106", "must be at most an hour.", field="killGraceSec")

    @property
    def places(self) -> int:
        """How many executions of the job may be live; 0: nobody counts them."""
        return (self.max_running or 0) if self.policy is OverlapPolicy.ALLOW else 1

    @property
    def takes_a_place(self) -> bool:
        """Whether an execution of this job stands in one of the job's places from its fire to its outcome."""
        return self.places > 0

    @property
    def queue_depth(self) -> int:
        """How many fires may wait for a place; 0: whoever finds them taken is skipped."""
        match self.policy:
            case OverlapPolicy.QUEUE_ONE | OverlapPolicy.CANCEL_PREVIOUS | OverlapPolicy.KILL_PREVIOUS:
                return 1
            case OverlapPolicy.QUEUE_ALL:
                return self.max_queued
            case OverlapPolicy.ALLOW | OverlapPolicy.SKIP:
                return 0
            case _:
                assert_never(self.policy)

    @property
    def is_one_or_none(self) -> bool:
        """Whether the first one runs and every other is skipped: what a primary key alone decides."""
        return self.policy is OverlapPolicy.SKIP or (self.places <= 1 and self.queue_depth == 0)


class Entry(Enum):
    """How a fire comes in."""

    RUN = "run"
    WAIT = "wait"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Meeting:
    """What becomes of a fire: it runs in `place`, waits, or is skipped; and what becomes of those it meets."""

    entry: Entry
    place: int = 0
    stops_the_previous: bool = False
    kills_after: Micros | None = None
    replaces_who_waits: bool = False


def meet(overlap: Overlap, taken: Collection[int], waiting: int) -> Meeting:
    """Decide about a fire that finds these places taken and so many fires waiting for one."""
    if not overlap.takes_a_place:
        return Meeting(Entry.RUN)
    # Counted, not looked for by number: a job that allowed more before may still have its later places taken.
    free = next(place for place in count() if place not in taken) if len(taken) < overlap.places else None
    match overlap.policy:
        case OverlapPolicy.CANCEL_PREVIOUS | OverlapPolicy.KILL_PREVIOUS:
            if free is not None:
                return Meeting(Entry.RUN, free, replaces_who_waits=waiting > 0)
            grace = overlap.grace if overlap.policy is OverlapPolicy.KILL_PREVIOUS else None
            return Meeting(Entry.WAIT, stops_the_previous=True, kills_after=grace, replaces_who_waits=waiting > 0)
        case OverlapPolicy.ALLOW | OverlapPolicy.SKIP | OverlapPolicy.QUEUE_ONE | OverlapPolicy.QUEUE_ALL:
            # A place that is free while somebody waits for it is on its way to them.
            if free is not None and not waiting:
                return Meeting(Entry.RUN, free)
            return Meeting(Entry.WAIT if waiting < overlap.queue_depth else Entry.SKIP)
        case _:
            assert_never(overlap.policy)
