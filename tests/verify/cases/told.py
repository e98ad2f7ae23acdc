"""The words that cases share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.verify.histories import Story, Told, text

MICRO = 1e-6


@dataclass(frozen=True)
class Case:
    """A story that breaks an invariant, or just does not."""

    invariant: str
    tell: Callable[[Story, bool], None]

    @property
    def name(self) -> str:
        return f"{self.invariant}-{self.tell.__name__.strip('_').replace('_', '-')}"


CASES: list[Case] = []


def breaks(invariant: str) -> Callable[[Callable[[Story, bool], None]], Callable[[Story, bool], None]]:
    """The story breaks this invariant when it is told badly."""

    def keep(tell: Callable[[Story, bool], None]) -> Callable[[Story, bool], None]:
        CASES.append(Case(invariant, tell))
        return tell

    return keep


def every_ten(story: Story, *, but: tuple[float, ...] = (), until: float = 50, **body: object) -> str:
    """A job that fires every ten seconds, and well; `but` are left to the case."""
    job = story.job(**{"intervalSec": 10, "anchorAt": text(0), **body})
    for nominal in range(10, int(until) + 1, 10):
        if nominal not in but:
            story.good(job, nominal, place=body.get("overlap", "allow") != "allow")
    return job


def on_demand(story: Story, **body: object) -> str:
    """A job that runs only when it is asked to."""
    return story.job(**body)


def asked(story: Story, job: str, when: float, run: str = "run_x") -> Told:
    """An enqueue, and the execution that it made."""
    story.call("run.enqueue", when, job=job, runs=[run])
    return story.fire(job, when, when, run=run, trigger=1)


def long_run(story: Story, **body: object) -> tuple[str, Told]:
    """A job whose first run goes on and on."""
    job = story.job(**{"intervalSec": 10, "anchorAt": text(0), "endAt": text(29), **body})
    return job, story.fire(job, 10, place=True).place(10.01).ready(10.02).grant(10.03).start(10.03)
