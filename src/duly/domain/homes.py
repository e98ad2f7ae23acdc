"""Where a tenant lives when there is more than one store.

A tenant lives in exactly one store: there its row says HERE. A row elsewhere says that it is GONE, and where to. While it moves,
its old home says LEAVING and its new one ARRIVING, and neither fires nor runs anything of it. The old home's step to GONE is what
decides: before it the move can be undone, after it only be completed. So at no time two stores work for one tenant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase

from duly.domain.errors import TooMany


class Standing(IntEnum):
    """How a tenant stands to the store that is asked."""

    HERE = 0
    LEAVING = 1
    ARRIVING = 2
    GONE = 3


def on_its_way() -> TooMany:
    """What is answered for a tenant that moves at this moment."""
    return TooMany("DULY-E405", "The tenant is on its way to another store.", hint="Try again in a moment.", retry_after=2.0)


@dataclass(frozen=True, slots=True)
class Residence:
    """What a store knows of a tenant; `store` is the other side of a move, or where it went."""

    tenant: int
    name: str
    standing: Standing
    store: str | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """A store by its name, and which new tenants are made there: names, or patterns with * and ?."""

    store: str
    tenants: tuple[str, ...] = ()


def store_for(name: str, plots: Sequence[Plot], default: str) -> str:
    """Where a new tenant is made: in the store that names it, else in the first with a pattern for it, else in the default one.

    It says nothing of tenants that there are: they live where they live, and changing a pattern moves nobody.
    """
    for plot in plots:
        if name in plot.tenants:
            return plot.store
    for plot in plots:
        if any(fnmatchcase(name, pattern) for pattern in plot.tenants):
            return plot.store
    return default
