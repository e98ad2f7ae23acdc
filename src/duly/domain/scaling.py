"""How many workers a pool should have: from what waits, what comes and how long it runs, for a wait that is aimed at.

A pool needs slots for what comes all the time (rate times duration, with some left free), and slots to get done with what waits
already within the wait that is aimed at. Growing is free to follow every look; shrinking needs more than a moment's calm, or
the fleet would follow every ripple: so it takes a gap in the need, and, for whoever starts and stops workers, a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

# So much of the slots is meant to be busy; the rest meets what comes unevenly.
BUSY = 0.8
# A fleet shrinks when what it needs fits into the smaller one at so much of its slots.
CALM = 0.6
# How much longer than aimed at something may have waited to weigh in: an outlier is not the load.
MOST_OVERDUE = 4.0


@dataclass(frozen=True, slots=True)
class Load:
    """What a pool has to do. `processes` are its live workers, by host and process, each with its slots."""

    pending: int = 0
    running: int = 0
    oldest_wait: float = 0.0
    # Executions a second that came of late, and how long those ran that have ended, on average; None when none has.
    arrivals: float = 0.0
    mean_run: float | None = None
    processes: tuple[tuple[str, int, int], ...] = ()

    @property
    def workers(self) -> int:
        """How many worker processes serve it. One that serves several stores is one."""
        return len({(host, pid) for host, pid, _ in self.processes})

    @property
    def slots(self) -> int:
        """How much they run at once, all together."""
        return sum(slots for _, _, slots in self.processes)


@dataclass(frozen=True, slots=True)
class Goal:
    """The wait that is aimed at, in seconds, how many slots a worker has, and between how many workers to stay."""

    target_wait: float = 10.0
    slots_per_worker: int = 50
    least: int = 0
    most: int = 100


def together(loads: Iterable[Load]) -> Load:
    """One load out of several, such as of a pool in several stores."""
    known = list(loads)
    weighed = [(load.arrivals or 1.0, load.mean_run) for load in known if load.mean_run is not None]
    weight = sum(share for share, _ in weighed)
    return Load(
        pending=sum(load.pending for load in known),
        running=sum(load.running for load in known),
        oldest_wait=max((load.oldest_wait for load in known), default=0.0),
        arrivals=sum(load.arrivals for load in known),
        mean_run=sum(share * run for share, run in weighed) / weight if weight else None,
        processes=tuple(process for load in known for process in load.processes),
    )


def slots_needed(load: Load, goal: Goal) -> float:
    """How many slots the load needs to wait no longer than aimed at."""
    if load.mean_run is None:
        # Nothing has ended yet, so nothing is known: each that waits may take a slot for as long as it likes.
        return float(load.pending + load.running)
    steady = load.arrivals * load.mean_run / BUSY
    backlog = load.pending * load.mean_run / goal.target_wait
    if load.pending and load.oldest_wait > goal.target_wait:
        backlog *= min(load.oldest_wait / goal.target_wait, MOST_OVERDUE)
    # Whatever runs long ago began before the rate that is looked at, and is still there.
    return min(max(steady + backlog, float(load.running)), float(load.pending + load.running) + steady)


def recommended(load: Load, goal: Goal, *, elsewhere: int = 0) -> int:
    """How many workers there should be. `elsewhere` are slots that others bring, whoever starts and stops those.

    From what there is now it goes down only as far as the need leaves the smaller fleet calm.
    """
    needed = max(0.0, slots_needed(load, goal) - elsewhere)
    wanted = ceil(needed / goal.slots_per_worker)
    if not wanted and not elsewhere and (load.pending or load.running):
        wanted = 1
    present = load.workers
    if wanted < present:
        wanted = min(present, max(wanted, ceil(needed / CALM / goal.slots_per_worker)))
    return max(goal.least, min(wanted, goal.most))


def settled(seen: Sequence[tuple[float, int]], wanted: int, now: float, calm_for: float) -> tuple[list[tuple[float, int]], int]:
    """What to do about a wish, given those of late: the highest of them. So growing is at once, and shrinking waits `calm_for` seconds."""
    kept = [(at, number) for at, number in seen if now - at < calm_for]
    kept.append((now, wanted))
    return kept, max(number for _, number in kept)
