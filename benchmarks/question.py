"""A question: its cases, the figures that answer it, and what was promised of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from benchmarks.harness import STORES, Scratch
from benchmarks.report import Figures
from benchmarks.scale import Scale

Ask = Callable[[Scratch, Scale], Awaitable[Figures]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way to ask, on a fresh store of each of these kinds."""

    name: str
    ask: Ask
    stores: tuple[str, ...] = STORES


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What one figure of a case is to reach. With `times_as_much_as` it is a factor to another case's figure, not a figure."""

    case: str
    figure: str
    bound: float
    unit: str
    store: str = "postgres"
    more_is_better: bool = True
    times_as_much_as: str = ""


@dataclass(frozen=True, kw_only=True)
class Question:
    """`figures` are the columns of its table by name; `compared` is the one that ratios and plots are made of."""

    name: str
    title: str
    about: str
    cases: tuple[Case, ...]
    figures: Mapping[str, str]
    compared: str = "per_second"
    more_is_better: bool = True
    has_delays: bool = False
    """Plotted from p50 to p99."""
    base: str = ""
    """The case that the others are compared with, as `question/case` where it is another question's; nothing is compared without."""
    bounds: tuple[Bound, ...] = ()
    peers: str = ""
    """What was promised in comparison with peers, which only a run beside them can judge."""
    is_long: bool = False
    """A short run asks it once."""

    @property
    def base_key(self) -> tuple[str, str]:
        """The question and the case of `base`."""
        question, slash, case = self.base.rpartition("/")
        return (question, case) if slash else (self.name, self.base)
