"""What a fire does when the job's previous run is still live."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from duly.domain.errors import Invalid

DEEPEST_QUEUE = 1000


class OverlapPolicy(StrEnum):
    """`allow` never looks; the others let at most one execution of the job be live."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    QUEUE_ALL = "queue_all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """The policy, and how many may wait under `queue_all`."""

    policy: OverlapPolicy = OverlapPolicy.SKIP
    max_queued: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.max_queued <= DEEPEST_QUEUE:
            raise Invalid("DULY-E106", f"must be between 1 and {DEEPEST_QUEUE}.", field="maxQueued")

    @property
    def takes_a_place(self) -> bool:
        """Whether an execution of this job stands in the job's one place from its fire to its outcome."""
        return self.policy is not OverlapPolicy.ALLOW

    @property
    def queue_depth(self) -> int:
        """How many fires may wait for the place; 0: whoever finds it taken is skipped."""
        match self.policy:
            case OverlapPolicy.QUEUE_ONE:
                return 1
            case OverlapPolicy.QUEUE_ALL:
                return self.max_queued
            case OverlapPolicy.ALLOW | OverlapPolicy.SKIP:
                return 0
