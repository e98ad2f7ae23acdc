"""Whether what many saw at once could have happened one after the other.

Each operation has a beginning and an end; it took effect at one instant between them. The search tries
every order that respects those spans (Wing and Gong), remembers where it has been (Lowe), and gives up
only when none explains all the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Operation:
    """What one session did: from when to when, and what it was told. `after` is one that came before it in the same call."""

    begun: int
    ended: int
    name: str
    arguments: tuple[Any, ...] = ()
    answer: Any = None
    after: Operation | None = None


@dataclass(frozen=True)
class Search(Generic[S]):
    """`step` gives the states in which an operation may leave the thing with the answer that it gave; none: it cannot stand here."""

    step: Callable[[S, Operation], Iterable[S]]

    def order(self, start: S, operations: Sequence[Operation]) -> list[Operation] | None:
        """An order that explains everything, or None."""
        number = {id(operation): nth for nth, operation in enumerate(operations)}
        needs = [0 if operation.after is None else 1 << number[id(operation.after)] for operation in operations]
        everything = (1 << len(operations)) - 1
        seen: set[tuple[int, S]] = set()
        path: list[Operation] = []

        def explains(done: int, state: S) -> bool:
            if done == everything:
                return True
            if (done, state) in seen:
                return False
            seen.add((done, state))
            open_ones = [nth for nth in range(len(operations)) if not done >> nth & 1]
            # Whoever ended first must come before all that began later.
            first_end = min(operations[nth].ended for nth in open_ones)
            for nth in open_ones:
                operation = operations[nth]
                if operation.begun > first_end or needs[nth] & ~done:
                    continue
                for after in self.step(state, operation):
                    path.append(operation)
                    if explains(done | 1 << nth, after):
                        return True
                    path.pop()
            return False

        return list(path) if explains(0, start) else None
