"""How the collector of a process that serves looks through its objects."""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 20_000


def collect_seldom() -> None:
    """What was imported stays. A batch makes thousands of objects that die with it: to look through them at every 700 was a tenth of a
    worker's time."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
