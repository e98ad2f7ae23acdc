"""What a mutant is: one seeded bug, and the tests that must notice it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Layer(StrEnum):
    """Who must kill it."""

    DOMAIN = "domain"
    MODEL = "model"
    CONFORMANCE = "conformance"
    ROLES = "roles"
    HTTP = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One edit of one file of the product.

    `old` must stand in `path` (from `src/duly`) exactly once: a mutant that no longer applies says so. `tests` are node ids from
    `tests/`; one of them must fail, within `budget` seconds, and all of them pass without the edit. `seeded` is its number in the
    list of bugs that must die; None for those of our own. `simulation` are seeds of the simulation that must find it too.
    `quick`: it dies in seconds, and CI runs it: one or two of each layer.
    """

    name: str
    breaks: str
    path: str
    old: str
    new: str
    layer: Layer
    tests: tuple[str, ...]
    seeded: int | None = None
    budget: float = 120.0
    simulation: str | None = None
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Unseeded:
    """A bug of the list that cannot be seeded yet, and why."""

    seeded: int
    name: str
    reason: str
