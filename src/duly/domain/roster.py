"""Who is there, as far as somebody tells us, and who has left.

Only who was seen to go has left: whoever is missing after a silence may have been forgotten with everything else. And one
who lives comes back at once when he was struck off by mistake, so a while must pass before his absence means something. After
another while the leases have told the same, and the hint is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable

from duly.domain.instants import SECOND, Micros

ABSENT_FOR: Micros = 300_000
TOLD_FOR: Micros = 6 * SECOND


class Roster:
    """One member's view. It says nothing about others while it does not see itself."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._there: set[str] = set()
        self._went: dict[str, Micros] = {}

    @property
    def there(self) -> frozenset[str]:
        """Those who are there."""
        return frozenset(self._there)

    def seen(self, names: Iterable[str]) -> None:
        """A look at all of them, after a silence or as the first thing: nobody was seen to go."""
        self._there = set(names)
        self._went = {}

    def came(self, name: str) -> None:
        """Somebody is there."""
        self._there.add(name)
        self._went.pop(name, None)

    def went(self, name: str, at: Micros) -> None:
        """Somebody is there no more."""
        if name in self._there:
            self._there.discard(name)
            self._went[name] = at

    def unheard(self) -> None:
        """Nobody tells us any more."""
        self.seen(())

    def left(self, at: Micros) -> frozenset[str]:
        """Who has left, so that a living one would have come back; nobody while we are not on the list ourselves."""
        if self._name not in self._there:
            return frozenset()
        self._went = {name: since for name, since in self._went.items() if at - since < TOLD_FOR}
        return frozenset(name for name, since in self._went.items() if at - since >= ABSENT_FOR)
