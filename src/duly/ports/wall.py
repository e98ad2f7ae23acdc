"""On whose behalf the present task asks the store.

Every question of a tenant names it already. A store that can build a second wall (PostgreSQL, with row-level
security) also shows and changes nothing of anybody else's while somebody is behind his wall, whatever a
statement says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_behind: ContextVar[int | None] = ContextVar("behind", default=None)


def walled_tenant() -> int | None:
    """The tenant behind whose wall we are; None for those who act for everybody."""
    return _behind.get()


@contextmanager
def behind_wall(tenant: int | None) -> Iterator[None]:
    """Ask on behalf of this tenant alone, or, with None, for everybody."""
    token = _behind.set(tenant)
    try:
        yield
    finally:
        _behind.reset(token)
