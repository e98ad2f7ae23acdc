"""Ids: time-ordered UUIDs made by us, so that every index on them grows at its end.

A fire's id is *computed* from (job, scheduled time): firing twice is a primary-key
conflict, whoever does it, and a commit whose answer was lost can be repeated blindly.
Enqueued executions and jobs get version 7 with a counter inside the batch, because ids
that share a millisecond and are otherwise random cost a quarter of the store's speed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from uuid import UUID

from duly.domain.errors import Invalid
from duly.domain.instants import Instant

JobId = UUID
ExecutionId = UUID

JOB_PREFIX = "job_"
EXECUTION_PREFIX = "run_"
BATCH_PREFIX = "batch_"

_DIGITS = re.compile("[0-9a-f]{32}")
_VARIANT = 0b10 << 62
_VERSION_7 = 7 << 76
_VERSION_8 = 8 << 76


def fire_id(job: JobId, scheduled_at: Instant) -> ExecutionId:
    """The one id that this job's fire at this instant can ever have (RFC 9562, version 8)."""
    digest = sha256(job.bytes + scheduled_at.to_bytes(8, "big", signed=True)).digest()
    noise = int.from_bytes(digest[:10], "big")
    millisecond = (scheduled_at // 1000) & ((1 << 48) - 1)
    return UUID(int=millisecond << 80 | _VERSION_8 | (noise >> 68) << 64 | _VARIANT | noise & ((1 << 62) - 1))


def new_ids(count: int, now: Instant, entropy: Callable[[int], int]) -> list[UUID]:
    """Version 7 ids in strictly increasing order: 48 bits of time, a 26-bit counter, 48 random bits.

    `entropy(bits)` supplies the randomness. The counter starts at a random place in its lower
    half, so up to 2^25 ids fit without it wrapping.
    """
    millisecond = now // 1000
    start = entropy(25)
    noise = entropy(48)
    ids: list[UUID] = []
    for nth in range(count):
        counter = start + nth
        high, low = counter >> 14, counter & ((1 << 14) - 1)
        noise = (noise * 0x5DEECE66D + 0xB + nth) & ((1 << 48) - 1)
        ids.append(UUID(int=millisecond << 80 | _VERSION_7 | high << 64 | _VARIANT | low << 48 | noise))
    return ids


def new_id(now: Instant, entropy: Callable[[int], int]) -> UUID:
    """One version 7 id."""
    return new_ids(1, now, entropy)[0]


def id_floor(at: Instant) -> UUID:
    """The smallest id of an instant: bounds for partitions and range deletes."""
    return UUID(int=(max(at, 0) // 1000) << 80)


def instant_of(id: UUID) -> Instant:
    """The millisecond that an id carries."""
    return (id.int >> 80) * 1000


def job_text(id: JobId) -> str:
    """The id as people and the wire see it: `job_…`."""
    return JOB_PREFIX + id.hex


def execution_text(id: ExecutionId) -> str:
    """The id as people and the wire see it: `run_…`."""
    return EXECUTION_PREFIX + id.hex


def batch_text(id: UUID) -> str:
    """The id of a backfill or a bulk action as people and the wire see it: `batch_…`."""
    return BATCH_PREFIX + id.hex


def parse_job_id(text: str) -> JobId:
    """Read `job_…`; raises Invalid for anything else."""
    return _parse(text, JOB_PREFIX, "jobId")


def parse_execution_id(text: str) -> ExecutionId:
    """Read `run_…`; raises Invalid for anything else."""
    return _parse(text, EXECUTION_PREFIX, "executionId")


def parse_batch_id(text: str) -> UUID:
    """Read `batch_…`; raises Invalid for anything else."""
    return _parse(text, BATCH_PREFIX, "batchId")


def _parse(text: str, prefix: str, field: str) -> UUID:
    digits = text.removeprefix(prefix)
    if len(text) != 32 + len(prefix) or _DIGITS.fullmatch(digits) is None:
        raise Invalid(
            "DULY-E111", f"{text[:60]!r} is not an id.", field=field, hint=f"Ids look like {prefix}0198c2…, with 32 hexadecimal digits."
        )
    return UUID(hex=digits)
