"""When a worker looks again after something has ended: at once, or after a breath.

While handlers wait and slots are short, one ends every moment. A step for each would leave the store no time for anybody else: what
has ended is reported after a breath, or when an eighth of the slots is free. And while a buffer is being emptied, what has ended waits
for the rest of its lease: a lease that is reported whole costs the store half.
"""

from __future__ import annotations

import asyncio

BREATH = 0.004
# How long what has ended waits for what was claimed with it.
LONG_BREATH = 0.02


class Breath:
    """Sets `wake`."""

    def __init__(self, slots: int, wake: asyncio.Event) -> None:
        self._slots = slots
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_held(self) -> bool:
        """Whether a breath is being taken."""
        return self._timer is not None

    def is_enough(self, ended: int) -> bool:
        """Whether so many are reported at once, however busy."""
        return ended * 8 >= self._slots

    def after(self, ended: int, *, is_busy: bool, is_emptying: bool) -> None:
        """Something has ended, and so many have not been reported. `is_emptying`: and the next one begins already."""
        if self._wake.is_set():
            return
        if is_busy:
            if self.is_enough(ended):
                self._over()
            else:
                self._hold(BREATH)
        elif is_emptying:
            self._hold(LONG_BREATH)
        else:
            self._over()

    def _hold(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._over)

    def _over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake.set()
