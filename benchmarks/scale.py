"""How long everything takes: in earnest, or just to see that it works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How long everything takes: in earnest, or just to see that it works."""

    drain_seconds: float = 5.0
    most_jobs: int = 200_000
    least_jobs: int = 20
    limit: float = 60.0
    enqueue_seconds: float = 4.0
    pick_up_seconds: float = 15.0
    spread_jobs: int = 1_000
    spread_seconds: float = 20.0
    same_second_jobs: int = 200
    lead: float = 5.0
    """How long before the first due time jobs are enqueued."""
    herd_jobs: int = 100_000
    fires_a_second: int = 40_000
    """How many are asked for in the end: more than can be done, if the most is to be found."""
    fire_steps: int = 2
    """In how many steps they become so many; each is measured."""
    fire_seconds: float = 60.0
    kills: int = 10
    kill_jobs: int = 256
    rest_seconds: float = 10.0
    flood: int = 1_000_000
    quiet_seconds: float = 60.0
    shared: int = 50_000
    """Executions of each tenant that shares."""
    rounds: int = 5

    @property
    def is_short(self) -> bool:
        """Whether it only shows that everything works."""
        return self.drain_seconds < Scale.drain_seconds or self.most_jobs < Scale.most_jobs

    def jobs(self, about: int) -> int:
        """How many fill the time that a drain is to take."""
        return max(self.least_jobs, min(self.most_jobs, round(about * self.drain_seconds)))


FULL = Scale()
SHORT = Scale(
    drain_seconds=1.0, most_jobs=20_000, least_jobs=10, enqueue_seconds=1.0, pick_up_seconds=4.0, spread_jobs=250, spread_seconds=5.0
)
"""Shows that everything works; what is fast is over before it is warm."""
BRIEF = Scale(
    drain_seconds=1.0,
    most_jobs=100_000,
    enqueue_seconds=1.0,
    pick_up_seconds=5.0,
    lead=3.0,
    fire_seconds=5.0,
    kills=3,
    rest_seconds=2.0,
    flood=100_000,
    quiet_seconds=10.0,
    shared=10_000,
    rounds=2,
)
"""Figures that mean something, all in ten minutes."""
TINY = Scale(
    drain_seconds=0.001,
    most_jobs=100,
    enqueue_seconds=0.1,
    pick_up_seconds=0.2,
    spread_jobs=10,
    spread_seconds=0.5,
    same_second_jobs=10,
    lead=1.0,
    herd_jobs=100,
    fires_a_second=20,
    fire_steps=1,
    fire_seconds=0.5,
    kills=1,
    kill_jobs=32,
    rest_seconds=0.1,
    flood=2_000,
    quiet_seconds=1.0,
    shared=1_000,
    rounds=1,
)
"""Whether the code of a measurement runs at all."""
