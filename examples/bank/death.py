"""Dies, as `kill -9` would, at the step that BANK_DIES_AT names: to see what is left behind. Without it nothing happens."""

from __future__ import annotations

import os
import signal

# In the order of an attempt. `completed` is between the end of the attempt and its COMMIT.
STEPS = ("begin", "effect", "completed", "committed")


def is_doomed_at(step: str) -> bool:
    """Whether this process is to die here."""
    return os.environ.get("BANK_DIES_AT") == step


def reach(step: str) -> None:
    """Die here, if it is here."""
    if is_doomed_at(step):
        os.kill(os.getpid(), signal.SIGKILL)
