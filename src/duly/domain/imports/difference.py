"""The fires of an old system beside those of the new job, one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """How many fires are the same, and those that only one of the two has: seconds since 1970, in order, with repetitions."""

    same: int
    only_old: tuple[int, ...]
    only_new: tuple[int, ...]

    @property
    def is_none(self) -> bool:
        """Whether both fire at the same times, as often."""
        return not self.only_old and not self.only_new


def compare(old: Iterable[int], new: Iterable[int]) -> Difference:
    """Compare two rows of fires."""
    before, after = Counter(old), Counter(new)
    return Difference(
        same=(before & after).total(),
        only_old=tuple(sorted((before - after).elements())),
        only_new=tuple(sorted((after - before).elements())),
    )
