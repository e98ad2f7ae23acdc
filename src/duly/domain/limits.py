"""Limits: how many attempts may run at once, how many may start in a period, and which executions are the same.

A limit is a *gate* with a capacity. An execution passes its gates one after another before it is ready, and
stands in a slot of each from then on: until its attempt ends, or, for a rate, until a period after its start.
Keyed gates come first: whoever waits for a busy key must not hold what others could use meanwhile.

A key is made of fields of the payload: one user, one account, one file at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from json import dumps, loads
from typing import Any, NamedTuple
from uuid import UUID

from duly.domain.errors import Invalid
from duly.domain.ids import JobId
from duly.domain.instants import DAY, SECOND, Instant, Micros

MOST_SLOTS = 100_000
LONGEST_PERIOD: Micros = 31 * DAY
MOST_KEY_FIELDS = 8
LONGEST_FIELD = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """At most `max` attempts at a time: per value of `key`, if it has one; with a `name`, together with every job that uses it."""

    max: int
    key: tuple[str, ...] = ()
    name: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.max <= MOST_SLOTS:
            raise Invalid("DULY-E106", f"must be between 1 and {MOST_SLOTS:,}.", field="concurrency.max")
        _check_key(self.key, "concurrency.key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """At most `count` starts in any period of this length: per value of `key`, shared by `name`, as with concurrency."""

    count: int
    per: Micros
    key: tuple[str, ...] = ()
    name: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_SLOTS:
            raise Invalid("DULY-E106", f"must be between 1 and {MOST_SLOTS:,}.", field="rateLimit.count")
        if not SECOND // 1000 <= self.per <= LONGEST_PERIOD:
            raise Invalid("DULY-E106", "must be between a millisecond and 31 days.", field="rateLimit.perSec")
        _check_key(self.key, "rateLimit.key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """Enqueued once per value of `key` (empty: of the whole payload): while one of them is not final, or for `window` from its enqueue."""

    key: tuple[str, ...] = ()
    window: Micros | None = None

    def __post_init__(self) -> None:
        if self.window is not None and not 0 < self.window <= LONGEST_PERIOD:
            raise Invalid("DULY-E106", "must be more than 0 and at most 31 days.", field="unique.forSec")
        _check_key(self.key, "unique.key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """All limits of one job."""

    max_concurrent: int | None = None
    concurrency: Concurrency | None = None
    rate: Rate | None = None
    unique: Unique | None = None

    def __post_init__(self) -> None:
        if self.max_concurrent is not None and not 1 <= self.max_concurrent <= MOST_SLOTS:
            raise Invalid("DULY-E106", f"must be between 1 and {MOST_SLOTS:,}.", field="maxConcurrent")

    @property
    def gated(self) -> bool:
        """Whether an execution has gates to pass."""
        return self.max_concurrent is not None or self.concurrency is not None or self.rate is not None


class Awaited(NamedTuple):
    """What opens a gate that is closed: a success of the job of this name, for a time from `first` to before `past`. At the `deadline`
    whoever still waits is skipped, or runs all the same."""

    job: str
    first: Instant
    past: Instant
    deadline: Instant
    runs: bool


class Gate(NamedTuple):
    """A limit as the store keeps it. `lasts` is a rate's period; `about` is JSON for people.

    A gate that is `kept` is there before anybody comes to it, and stays: what its capacity is, only its tenant's quotas say.
    """

    id: UUID
    capacity: int
    lasts: Micros | None
    about: str
    kept: bool = False
    awaited: Awaited | None = None


# For what comes in bulk with one payload: whatever has been is only kept.
@lru_cache(maxsize=1024)
def gates_of(limits: Limits, tenant: int, job: JobId, job_name: str, payload: str | None) -> tuple[Gate, ...]:
    """The gates of an execution with this payload (JSON text), in the order in which it passes them."""
    data = loads(payload) if payload is not None and _any_key(limits) else None
    found: list[tuple[bool, bool, Gate]] = []
    if limits.max_concurrent is not None:
        found.append((False, False, _gate("job", tenant, job, None, (), limits.max_concurrent, None, {"job": job_name})))
    if (running := limits.concurrency) is not None:
        values = key_values(data, running.key)
        about = _about(job_name, running.name, running.key, values)
        found.append((bool(running.key), False, _gate("concurrency", tenant, job, running.name, values, running.max, None, about)))
    if (rate := limits.rate) is not None:
        values = key_values(data, rate.key)
        about = _about(job_name, rate.name, rate.key, values)
        found.append((bool(rate.key), True, _gate("rate", tenant, job, rate.name, values, rate.count, rate.per, about)))
    # Keyed before plain, running before starting: what is held while waiting is what nobody else could use.
    return tuple(gate for _, _, gate in sorted(found, key=lambda item: (not item[0], item[1])))


def batch_gate(batch: UUID, capacity: int) -> Gate:
    """Lets so many executions of a batch run at a time."""
    return Gate(digest("batch", batch.hex), capacity, None, dumps({"limit": "batch", "batch": f"batch_{batch.hex}"}))


def kept_gate(tenant: int, quota: str, capacity: int, lasts: Micros | None) -> Gate:
    """A quota of a tenant: every execution of the tenant passes it, whatever its job."""
    return Gate(digest("tenant", str(tenant), quota), capacity, lasts, dumps({"limit": "tenant", "quota": quota}), kept=True)


def unique_key(unique: Unique, job: JobId, payload: str | None) -> UUID:
    """The key that two executions of a job share when they are the same."""
    data = None if payload is None else loads(payload)
    texts = _texts(key_values(data, unique.key)) if unique.key else [_canonical(data)]
    return digest("unique", job.hex, *texts)


Plain = str | int | float | bool | None


def key_values(payload: Any, key: tuple[str, ...]) -> tuple[Plain, ...]:
    """The values of the key's fields. A field that is not there is null."""
    values: list[Plain] = []
    for path in key:
        value = payload
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, dict | list):
            raise Invalid("DULY-E117", f"{path!r} is part of a key, so it must be a plain value.", field="payload")
        values.append(value)
    return tuple(values)


def _texts(values: tuple[Plain, ...]) -> list[str]:
    """Text that tells every two values apart, and that SQL can make as well (but for numbers such as 1e30, which `jsonb` writes out)."""
    return [f'"{value}"' if isinstance(value, str) else dumps(value) for value in values]


def _canonical(value: Any) -> str:
    """One text for equal JSON: the one that `jsonb` has in PostgreSQL, with short keys before long ones."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(key.encode("utf-8", "surrogatepass")), key.encode("utf-8", "surrogatepass")))
        return "{" + ", ".join(f"{dumps(key, ensure_ascii=False)}: {_canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_canonical, value)) + "]"
    return dumps(value, ensure_ascii=False)


def _any_key(limits: Limits) -> bool:
    return bool((limits.concurrency and limits.concurrency.key) or (limits.rate and limits.rate.key))


def _gate(
    kind: str,
    tenant: int,
    job: JobId,
    name: str | None,
    values: tuple[Plain, ...],
    capacity: int,
    lasts: Micros | None,
    about: dict[str, Any],
) -> Gate:
    whose = job.hex if name is None else f"{tenant}/{name}"
    return Gate(digest(kind, whose, *_texts(values)), capacity, lasts, dumps({"limit": kind} | about))


def _about(job_name: str, name: str | None, key: tuple[str, ...], values: tuple[Plain, ...]) -> dict[str, Any]:
    about: dict[str, Any] = {"job": job_name} if name is None else {"name": name}
    if key:
        about["key"] = dict(zip(key, values, strict=True))
    return about


def digest(*parts: str) -> UUID:
    """The id of a gate. SHA-256, so that SQL can compute the same (RFC 9562 version 8)."""
    digest = int.from_bytes(sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).digest()[:16], "big")
    return UUID(int=digest & ~(0xF << 76) & ~(0b11 << 62) | 8 << 76 | 0b10 << 62)


def _check_key(key: tuple[str, ...], field: str) -> None:
    if len(key) > MOST_KEY_FIELDS:
        raise Invalid("DULY-E106", f"at most {MOST_KEY_FIELDS} fields.", field=field)
    if len(set(key)) < len(key) or any(not part or len(part) > LONGEST_FIELD for part in key):
        raise Invalid(
            "DULY-E106", "names fields of the payload, each once.", field=field, hint='For example "user_id" or "order.customer".'
        )
