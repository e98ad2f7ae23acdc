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
from uuid import UUID, SafeUUID

from duly.domain.errors import Invalid
from duly.domain.instants import Instant, to_rfc3339

JobId = UUID
ExecutionId = UUID

JOB_PREFIX = "job_"
EXECUTION_PREFIX = "run_"
BATCH_PREFIX = "batch_"

_DIGITS = re.compile("[0-9a-f]{32}")
_NUMBER = re.compile("[0-9]{1,18}")
_KEY = re.compile("[0-9a-f]{16}")
_new, _set, _unknown = UUID.__new__, object.__setattr__, SafeUUID.unknown
_VARIANT = 0b10 << 62
_VERSION_7 = 7 << 76
_VERSION_8 = 8 << 76
_NOISE, _LOW = (1 << 48) - 1, (1 << 14) - 1


def fire_id(job: JobId, scheduled_at: Instant) -> ExecutionId:
    """The one id that this job's fire at this instant can ever have (RFC 9562, version 8)."""
    digest = sha256(job.int.to_bytes(16, "big") + scheduled_at.to_bytes(8, "big", signed=True)).digest()
    noise = int.from_bytes(digest[:10], "big")
    millisecond = (scheduled_at // 1000) & ((1 << 48) - 1)
    return uuid_of(millisecond << 80 | _VERSION_8 | (noise >> 68) << 64 | _VARIANT | noise & ((1 << 62) - 1))


def uuid_of(number: int) -> UUID:
    """The UUID of a number of 128 bits. `UUID(int=…)` looks at six kinds of arguments first, and a claim makes a thousand of them."""
    made = _new(UUID)
    _set(made, "int", number)
    _set(made, "is_safe", _unknown)
    return made


def backfill_id(batch: UUID, scheduled_at: Instant) -> ExecutionId:
    """The one id that a backfill's run of this target can ever have: the batch's millisecond, then the target, so that they are in its
    order, then a hash of both."""
    digest = sha256(batch.bytes + scheduled_at.to_bytes(8, "big", signed=True)).digest()
    low = ((scheduled_at // 1000) & ((1 << 46) - 1)) << 28 | int.from_bytes(digest[:4], "big") >> 4
    return UUID(int=(batch.int >> 80) << 80 | _VERSION_8 | (low >> 62) << 64 | _VARIANT | low & ((1 << 62) - 1))


def new_ids(count: int, now: Instant, entropy: Callable[[int], int]) -> list[UUID]:
    """Version 7 ids in strictly increasing order: 48 bits of time, a 26-bit counter, 48 random bits.

    `entropy(bits)` supplies the randomness. The counter starts at a random place in its lower
    half, so up to 2^25 ids fit without it wrapping.
    """
    fixed = (now // 1000) << 80 | _VERSION_7 | _VARIANT
    start = entropy(25)
    noise = entropy(48)
    ids: list[UUID] = []
    for counter in range(start, start + count):
        noise = (noise * 0x5DEECE66D + 0xB + counter - start) & _NOISE
        ids.append(uuid_of(fixed | (counter >> 14) << 64 | (counter & _LOW) << 48 | noise))
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


def parse_worker_id(text: str) -> int:
    """Read a worker's number; raises Invalid for anything else."""
    if _NUMBER.fullmatch(text) is None:
        raise Invalid(
            "DULY-E111", f"{text[:60]!r} is not a worker's id.", field="workerId", hint="It is the number that registering answered."
        )
    return int(text)


def parse_key_id(text: str) -> str:
    """Read the public id of a key; raises Invalid for anything else."""
    if _KEY.fullmatch(text) is None:
        raise Invalid("DULY-E111", f"{text[:60]!r} is not a key's id.", field="keyId", hint="It has 16 hexadecimal digits.")
    return text


def idempotency_key(tenant_name: str, job_name: str, job: JobId, id: ExecutionId, due_at: Instant) -> str:
    """Stable over attempts: tenant/job/scheduled time for a fire; for others the execution stands in for the time."""
    return f"{tenant_name}/{job_name}/{to_rfc3339(due_at) if fire_id(job, due_at) == id else execution_text(id)}"


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
