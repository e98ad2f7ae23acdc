"""A child that does not outlive its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Called in a child, early: it is killed when its parent dies. On Linux; elsewhere only a parent that is gone already is noticed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have gone before the line above.
    if os.getppid() != parent:
        os._exit(1)
