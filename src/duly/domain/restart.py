"""When a process is worth starting again: a worker that holds what will not stop, and one that has died."""

from __future__ import annotations

FIRST_WAIT = 0.1
LONGEST_WAIT = 30.0
# Who has lived that long died of something new.
LONG_LIFE = 60.0


def should_restart(*, left_behind: int, may_restart: bool, stopping: bool) -> bool:
    """Whether a worker ends itself to start anew. Nothing else ends a thread or a coroutine that will not stop, and as long as it
    runs it uses up what it holds: a slot, memory, locks. One is enough. Who may not restart (his process is somebody else's) goes
    on with what is left; who stops anyway takes it with him."""
    return left_behind > 0 and may_restart and not stopping


def wait_before_start(deaths: int, lived: float) -> tuple[float, int]:
    """How many seconds to wait before a process that died is started again, and how many deaths in a row that makes."""
    deaths = 1 if lived >= LONG_LIFE else deaths + 1
    return min(FIRST_WAIT * 2.0 ** min(deaths - 1, 30), LONGEST_WAIT), deaths
