"""When a worker looks again after something has ended: at once, or after a breath.

While handlers wait and slots are short, one ends every moment. A step for each would leave the store no time for anybody else: what
has ended is reported after a breath, or when an eighth of the slots is free.
"""

from __future__ import annotations

import asyncio

BREATH = 0.004


class Breath:
    """Sets `wake`."""

    def __init__(self, slots: int, wake: asyncio.Event) -> None:
        self._slots = slots
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None

    def is_enough(self, ended: int) -> bool:
        """Whether so many are reported at once, however busy."""
        return ended * 8 >= self._slots

    def after(self, ended: int, *, is_busy: bool) -> None:
        """Something has ended, and so many have not been reported."""
        if self._wake.is_set():
            return
        if not is_busy or self.is_enough(ended):
            self._wake.set()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BREATH, self._over)

    def _over(self) -> None:
        self._timer = None
        self._wake.set()
