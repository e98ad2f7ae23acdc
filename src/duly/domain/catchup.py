"""What happens to the targets of an outage.

A target is a *misfire* when it is older than the grace by the time a dispatcher sees it.
While none is, everything due fires, however many: a busy second is not an outage. As soon
as one is, the policy decides about all that is due: `latest` fires the last of them,
`all` the newest `max_count` within `window`, `none` only what is still within the grace.
Every other target is recorded as SKIPPED(misfire).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from duly.domain.choices import CatchUpPolicy as CatchUpPolicy
from duly.domain.errors import Invalid
from duly.domain.instants import DAY, HOUR, MINUTE, Instant, Micros
from duly.domain.schedule import Schedule, next_fire, previous_fire

MOST_CATCH_UPS = 1000
LONGEST_WINDOW: Micros = 366 * DAY
LONGEST_GRACE: Micros = HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """The policy with its bounds; the bounds matter for `all` only, the grace for every policy."""

    policy: CatchUpPolicy = CatchUpPolicy.LATEST
    max_count: int = 100
    window: Micros = DAY
    grace: Micros = MINUTE

    def __post_init__(self) -> None:
        if not 1 <= self.max_count <= MOST_CATCH_UPS:
            raise Invalid("DULY-E106", f"must be between 1 and {MOST_CATCH_UPS}.", field="catchUp.maxCount")
        if not 0 < self.window <= LONGEST_WINDOW:
            raise Invalid("DULY-E106", "must be more than 0 and at most 366 days.", field="catchUp.windowSec")
        if not 0 < self.grace <= LONGEST_GRACE:
            raise Invalid("DULY-E106", "must be more than 0 and at most an hour.", field="catchUp.graceSec")


@dataclass(frozen=True, slots=True)
class Target:
    """One instant that the schedule reached, and whether it runs or is recorded as a misfire."""

    at: Instant
    runs: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The targets from the stored next fire on, oldest first, and where the schedule stands after them (None: no more fires)."""

    targets: tuple[Target, ...]
    next_at: Instant | None


def plan_fires(schedule: Schedule, policy: CatchUp, due_at: Instant, now: Instant, *, limit: int) -> Plan:
    """Decide about the targets from `due_at` up to `now`, about `limit` of them at most; the rest are due again at once.

    Depends on the schedule and the clock only, so whoever repeats it decides the same.
    """
    following = next_fire(schedule, due_at)
    if following is None or following > now:
        runs = now - due_at <= policy.grace or policy.policy is not CatchUpPolicy.NONE
        if policy.policy is CatchUpPolicy.ALL:
            runs = now - due_at <= max(policy.window, policy.grace)
        return Plan((Target(due_at, runs),), following)

    first_to_run = _first_to_run(schedule, policy, due_at, now)
    targets: list[Target] = []
    at: Instant | None = due_at
    # Whoever goes on after a cut sees only what is left. So no cut within the grace before the first to run: what is left
    # would look like a busy minute instead of the end of an outage, and all of it would run.
    while at is not None and at <= now and (len(targets) < limit or (at < first_to_run and now - at <= policy.grace)):
        targets.append(Target(at, at >= first_to_run))
        at = next_fire(schedule, at)
    return Plan(tuple(targets), at)


def _first_to_run(schedule: Schedule, policy: CatchUp, due_at: Instant, now: Instant) -> Instant:
    """The oldest target that runs, when several are due."""
    if now - due_at <= policy.grace:
        return due_at
    match policy.policy:
        case CatchUpPolicy.NONE:
            return now - policy.grace
        case CatchUpPolicy.LATEST:
            return previous_fire(schedule, now + 1) or due_at
        case CatchUpPolicy.ALL:
            oldest = now - policy.window
            at: Instant | None = now + 1
            for _ in range(policy.max_count):
                at = previous_fire(schedule, at) if at is not None else None
                if at is None or at < oldest:
                    return oldest
            return at if at is not None else oldest
        case _:
            assert_never(policy.policy)
