"""A step: what runs, after which others, and what else it waits for."""

from __future__ import annotations

from dataclasses import dataclass, field

from duly.domain.choices import OnTimeout as OnTimeout
from duly.domain.choices import Rule as Rule
from duly.domain.instants import Micros
from duly.domain.retry import RetryPolicy
from duly.domain.target import Priority, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Somebody must say yes. `by` names the keys or roles that may; empty: every key that may run jobs."""

    by: tuple[str, ...] = ()
    timeout: Micros | None = None
    on_timeout: OnTimeout = OnTimeout.FAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """A signal from outside. The first of its name counts, also one that came before the step was there."""

    name: str
    timeout: Micros | None = None
    on_timeout: OnTimeout = OnTimeout.FAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a workflow. Without a target and without a workflow it only waits: for a time, an approval or a signal.

    `map` names the parent whose result is a list: the step runs once for each item, `max_parallel` at a time.
    `inputs` fill the payload: an argument's name to `item`, `payload` or a parent's name, with a path into it (`load.rows`).
    `compensates` names the step that it undoes when the run has failed: it belongs to no path of the graph.
    """

    name: str
    after: tuple[str, ...] = ()
    rule: Rule = Rule.ALL_SUCCEEDED
    when: str | None = None
    target: Target | None = None
    workflow: str | None = None
    map: str | None = None
    max_parallel: int | None = None
    inputs: dict[str, str] = field(default_factory=dict)
    payload: str | None = None
    approval: Approval | None = None
    signal: Awaited | None = None
    delay: Micros | None = None
    compensates: str | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeout: Micros | None = None
    priority: Priority | None = None
    description: str | None = None

    @property
    def only_waits(self) -> bool:
        """Whether it has ended once it need not wait any more."""
        return self.target is None and self.workflow is None

    @property
    def parents(self) -> tuple[str, ...]:
        """The steps that it comes after, each once."""
        return tuple(dict.fromkeys((*self.after, *(() if self.map is None else (self.map,)))))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOf:
    """Which step a step's version is: its place in the workflow, and its name."""

    place: int
    name: str
