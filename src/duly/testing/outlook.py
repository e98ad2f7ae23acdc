"""What comes by itself, as far as the store knows: whoever steps the roles asks for it after everything that happens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duly.domain.instants import Instant
from duly.testing.database import VirtualEngine

_OUR_SHARD = {"shard": 0}
_NOTHING: Mapping[str, Any] = {}


class Outlook:
    """Over a store with one shard. What the engine has kept is taken from there: a call for each would cost more than the answer."""

    def __init__(self, engine: VirtualEngine) -> None:
        self._engine = engine
        self._kept = engine.kept

    def next_due(self) -> Instant | None:
        """When something is due next."""
        kept, look = self._kept, self._engine.look
        fire: Instant | None = (kept.get("next_fire") or look("next_fire", _OUR_SHARD))[0][0]
        other: Instant | None = (kept.get("next_instant") or look("next_instant", _OUR_SHARD))[0][0]
        return fire if other is None or (fire is not None and fire < other) else other

    def is_any(self, what: str) -> bool:
        """What a statement says that asks whether there is anything of a kind."""
        return bool((self._kept.get(what) or self._engine.look(what, _NOTHING))[0][0])

    def routes(self) -> Any:
        """The routes that there are: the same rows until somebody writes to them."""
        return self._kept.get("routes") or self._engine.look("routes", _NOTHING)


def soonest(*instants: Instant | None) -> Instant | None:
    """The first of those that come at all."""
    found: Instant | None = None
    for one in instants:
        if one is not None and (found is None or one < found):
            found = one
    return found
