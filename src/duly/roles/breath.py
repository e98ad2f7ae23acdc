"""When a worker reports, or looks for more, after something has ended: at once, or after a breath.

While handlers wait and slots are short, one ends every moment. A report and a claim for each would leave the store no time for anybody
else: what has ended is reported after a breath, or when it is an eighth of the slots, and so are slots filled again. While several
tenants are about, both take longer: whoever comes waits for the claim that is under way, so there should seldom be one. And while a
buffer is being emptied, what has ended waits for the rest of its lease: a lease that is reported whole costs the store half.
"""

from __future__ import annotations

import asyncio

BREATH = 0.004
PART = 8
# While several tenants share the worker.
SHARED_BREATH = 0.01
SHARED_PART = 4
# How long what has ended waits for what was claimed with it.
LONG_BREATH = 0.02


class Breath:
    """Sets `wake`."""

    def __init__(self, slots: int, wake: asyncio.Event) -> None:
        self._slots = slots
        self._wake = wake
        self._timer: asyncio.TimerHandle | None = None
        # Whether several tenants are about.
        self.is_shared = False

    @property
    def is_held(self) -> bool:
        """Whether a breath is being taken."""
        return self._timer is not None

    def is_enough(self, ended: int) -> bool:
        """Whether nobody waits for more than so many, however busy."""
        return ended * (SHARED_PART if self.is_shared else PART) >= self._slots

    def after(self, ended: int, *, is_busy: bool, is_emptying: bool) -> None:
        """Something has ended, and so many have not been seen to. `is_emptying`: and the next one begins already."""
        if self._wake.is_set():
            return
        if is_busy:
            if self.is_enough(ended):
                self._over()
            else:
                self._hold(SHARED_BREATH if self.is_shared else BREATH)
        elif is_emptying:
            self._hold(LONG_BREATH)
        else:
            self._over()

    def _hold(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._over)

    def seen_to(self) -> None:
        """All that has ended is being seen to: the next breath begins with the next end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self) -> None:
        self.seen_to()
        self._wake.set()
