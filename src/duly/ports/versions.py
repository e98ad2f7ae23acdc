"""Job versions, as those need them who run them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from duly.domain.job import JobVersion


class Versions(Protocol):
    """Job versions, for those who run them."""

    async def versions(self, numbers: Sequence[int]) -> dict[int, JobVersion]:
        """Versions by their numbers; one that this release cannot read is left out. They never change, so callers keep them.

        With a step's version the next of its workflow may come, which the caller is likely to ask for.
        """
