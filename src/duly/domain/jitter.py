"""Jitter: how much later than its time a fire starts, so that a herd does not come at once.

A fire keeps its nominal time and with it its identity; only its start moves. The delay follows
from the job and the time alone, so whoever computes it gets the same one.
"""

from __future__ import annotations

from hashlib import sha256

from duly.domain.ids import JobId
from duly.domain.instants import Instant, Micros
from duly.domain.schedule import Schedule, next_fire


def jitter_of(schedule: Schedule, jitter: Micros, job_id: JobId, at: Instant) -> Micros:
    """The delay of the fire at `at`: from 0 up to, and without, `jitter` or the time to the next fire, whichever is less."""
    if jitter <= 0:
        return 0
    following = next_fire(schedule, at)
    span = jitter if following is None else min(jitter, following - at)
    digest = sha256(b"jitter" + job_id.bytes + at.to_bytes(8, "big", signed=True)).digest()
    return int.from_bytes(digest[:8], "big") * span >> 64
