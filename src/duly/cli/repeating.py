"""`--watch`: a command again and again, on a screen of its own, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from duly.cli.values import seconds_of
from duly.domain.errors import Invalid

OTHER_SCREEN, OWN_SCREEN, CLEAR = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l", "\x1b[H\x1b[2J"
SHORTEST = 0.1


def watch(text: str, once: Callable[[], int]) -> int:
    """Repeat until interrupted, or until it fails. A terminal is given back as it was; elsewhere one answer follows the other."""
    every = seconds_of(text, "--watch")
    if every < SHORTEST:
        raise Invalid("DULY-E604", "is at least 100ms.", field="--watch")
    on_terminal = sys.stdout.isatty()
    if on_terminal:
        sys.stdout.write(OTHER_SCREEN)
    try:
        while True:
            if on_terminal:
                sys.stdout.write(CLEAR)
            code = once()
            sys.stdout.flush()
            if code != 0:
                return code
            time.sleep(every)
    finally:
        if on_terminal:
            sys.stdout.write(OWN_SCREEN)
            sys.stdout.flush()
