"""The ids of steps, computed: a step that is made twice is a primary-key conflict, whoever makes it.

They carry the run's time, so that a run stands together, and the items of a mapped step are numbered in the lowest bits: they lie side by
side, and whether all of them have ended is a walk along the key.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from itertools import count
from uuid import UUID

from duly.domain.ids import ExecutionId, JobId
from duly.domain.limits import Gate
from duly.domain.shards import shard_of

_VERSION_8 = 8 << 76
_VARIANT = 0b10 << 62
# 2^20 items; a map has fewer (check.WIDEST_MAP).
_NUMBERED = 20
WHOLE = (1 << _NUMBERED) - 1


def step_id(run: ExecutionId, place: int) -> ExecutionId:
    """The one id that this step of this run can ever have. It stands behind the items of the step."""
    return _numbered(run, place, WHOLE)


def item_id(run: ExecutionId, place: int, nth: int) -> ExecutionId:
    """The one id of the nth item of a mapped step."""
    return _numbered(run, place, nth)


def item_ids(run: ExecutionId, place: int, first: int, count: int) -> list[ExecutionId]:
    """So many of them, one after another."""
    start = _numbered(run, place, first).int
    return [UUID(int=start + nth) for nth in range(count)]


def item_number(id: ExecutionId) -> int:
    """Which item it is."""
    return id.int & WHOLE


def group_of(id: ExecutionId) -> int | None:
    """Which mapped step an item belongs to, as a number that its items share; None for what is no item. Of steps alone."""
    return None if id.int & WHOLE == WHOLE else id.int >> _NUMBERED


def one_of_each(ids: Iterable[ExecutionId]) -> list[ExecutionId]:
    """Of the items of one mapped step a single one: they belong to the same run, and only whether all have ended is asked."""
    return list({id.int >> _NUMBERED if id.int >> 76 & 0xF == 8 else id.int: id for id in ids}.values())


def step_job_id(job: JobId, step: str) -> JobId:
    """Under which id the versions and executions of a step are kept: its own history, beside its workflow's.

    It falls on its workflow's shard: the first of the ids that could be, one in 64, that does.
    """
    shard = shard_of(job)
    for nonce in count():
        digest = int.from_bytes(sha256(b"step" + job.bytes + step.encode() + nonce.to_bytes(4, "big")).digest()[:10], "big")
        id = UUID(int=(job.int >> 80) << 80 | _VERSION_8 | (digest >> 68) << 64 | _VARIANT | digest & ((1 << 62) - 1))
        if shard_of(id) == shard:
            return id
    raise AssertionError("there is no end of numbers")


def map_gate(group: ExecutionId, capacity: int, about: str) -> Gate:
    """Lets so many items of a mapped step run at a time."""
    return Gate(UUID(int=group.int ^ 1), capacity, None, about)


def _numbered(run: ExecutionId, place: int, nth: int) -> ExecutionId:
    noise = int.from_bytes(sha256(run.bytes + place.to_bytes(4, "big")).digest()[:7], "big")
    high, low = noise >> 42 & 0xFFF, noise & ((1 << 42) - 1)
    return UUID(int=(run.int >> 80) << 80 | _VERSION_8 | high << 64 | _VARIANT | low << _NUMBERED | nth)
