"""What every connection of ours asks of the kernel: to notice that the other end is gone.

By its own questions while nothing is said, and by missing confirmations while something is: within five seconds either way.
Without it a connection to a machine that lost its power waits for a quarter of an hour.
"""

from __future__ import annotations

import contextlib
import socket

# In seconds: ask a silent peer after so long, so often, so many times.
IDLE, INTERVAL, COUNT = 2, 1, 2
# … and give up on what it does not confirm.
UNCONFIRMED_MS = 4_000


def keep_alive(own: socket.socket | None) -> None:
    """Set it up, as far as this system can. A socket that is not of a network needs nothing."""
    if own is None or own.family not in (socket.AF_INET, socket.AF_INET6):
        return
    wanted = {"TCP_KEEPIDLE": IDLE, "TCP_KEEPINTVL": INTERVAL, "TCP_KEEPCNT": COUNT, "TCP_USER_TIMEOUT": UNCONFIRMED_MS}
    with contextlib.suppress(OSError):
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in wanted.items():
            if option := getattr(socket, name, None):
                own.setsockopt(socket.IPPROTO_TCP, option, value)
