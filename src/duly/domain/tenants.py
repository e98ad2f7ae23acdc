"""Tenants: whose jobs they are, how much of the fleet is theirs, and how much they may use.

A tenant's *weight* is its share of a busy fleet; its *quotas* are bounds that it never passes. A quota that is None is no bound.
What a tenant may hold (`max_jobs`, `max_queued`) and how fast it may submit (`max_fires_per_minute`) is decided when it asks;
what may run at once, and how much may start in a minute, are gates that each of its executions passes: see domain/limits.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from functools import lru_cache

from duly.domain.access import DEFAULT_TENANT_NUMBER, Actor, Role
from duly.domain.errors import Invalid, TooLarge
from duly.domain.homes import Standing
from duly.domain.instants import MINUTE, Instant
from duly.domain.limits import MOST_SLOTS, Gate, kept_gate

TENANT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
DEFAULT_WEIGHT = 100
LARGEST_WEIGHT = 1_000_000
# Quotas beyond these bound nothing that the store could hold.
MOST = 1_000_000_000
LARGEST_PAYLOAD = 262_144
LONGEST_RETENTION = 36_500
# How wide a gate is that a tenant once had and that bounds nothing any more.
WIDE_OPEN = (1 << 31) - 1

_RANGES = {
    "max_jobs": (0, MOST),
    "max_queued": (0, MOST),
    "max_concurrent": (1, MOST_SLOTS),
    "max_fires_per_minute": (1, MOST_SLOTS),
    "max_payload_bytes": (2, LARGEST_PAYLOAD),
    "retention_days": (1, LONGEST_RETENTION),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """What a tenant may use. None: as much as there is."""

    max_jobs: int | None = None
    max_queued: int | None = None
    max_concurrent: int | None = None
    max_fires_per_minute: int | None = None
    max_payload_bytes: int | None = None
    retention_days: int | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise Invalid(
                    "DULY-E106", f"must be between {least:,} and {most:,}, or null for no limit.", field=f"quotas.{wire_name(name)}"
                )

    @property
    def bounds_intake(self) -> bool:
        """Whether a submit has to ask first."""
        return self.max_queued is not None or self.max_fires_per_minute is not None

    @property
    def is_empty(self) -> bool:
        """Whether it bounds nothing."""
        return all(getattr(self, item.name) is None for item in fields(self))


NO_QUOTAS = Quotas()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant. Its version grows with every change of its weight or its quotas."""

    number: int
    name: str
    weight: int = DEFAULT_WEIGHT
    quotas: Quotas = field(default=NO_QUOTAS)
    version: int = 1
    created_at: Instant = 0
    # How it stands to the store that was asked, and the other side of that; see domain/homes.py.
    standing: Standing = Standing.HERE
    store: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a tenant uses now: live jobs, executions that wait and that run, and what came in within the last minute."""

    jobs: int
    queued: int
    running: int
    fires: int


def parse_tenant_name(text: str) -> str:
    """The name of a tenant; raises Invalid for anything else."""
    if not TENANT_NAME.match(text):
        hint = "1 to 64 letters, digits and . _ -, starting with a letter or digit."
        raise Invalid("DULY-E114", f"{text[:40]!r} is not the name of a tenant.", field="name", hint=hint)
    return text


def check_weight(weight: int) -> int:
    """A weight that shares can be made of."""
    if not 1 <= weight <= LARGEST_WEIGHT:
        raise Invalid("DULY-E106", f"must be between 1 and {LARGEST_WEIGHT:,}.", field="weight")
    return weight


def administers_all(actor: Actor) -> bool:
    """Whether the caller looks after the installation: an administrator of the tenant that it began with."""
    return actor.tenant == DEFAULT_TENANT_NUMBER and actor.role is Role.ADMIN


def check_payload(quotas: Quotas, payload: str | None, field: str = "payload") -> None:
    """Refuse a payload (JSON text) that is longer than the tenant may send."""
    most = quotas.max_payload_bytes
    if payload is not None and most is not None and (size := len(payload.encode())) > most:
        raise TooLarge(
            "DULY-E404",
            f"has {size:,} bytes; the tenant's quota maxPayloadBytes is {most:,}.",
            field=field,
            hint="Keep it elsewhere and pass a reference.",
        )


@lru_cache(maxsize=4096)
def tenant_gates(tenant: int, quotas: Quotas) -> tuple[Gate, ...]:
    """The gates that every execution of the tenant passes after its own: the widest come last, and the rate last of all, because
    what it gives runs out by the clock."""
    return tuple(gate for gate, bounds in both_gates(tenant, quotas) if bounds)


def both_gates(tenant: int, quotas: Quotas) -> tuple[tuple[Gate, bool], ...]:
    """Both gates that a tenant may have, and whether its quotas ask for them. One that they do not ask for stands wide open."""
    running, rate = quotas.max_concurrent, quotas.max_fires_per_minute
    return (
        (kept_gate(tenant, "maxConcurrent", WIDE_OPEN if running is None else running, None), running is not None),
        (kept_gate(tenant, "maxFiresPerMinute", WIDE_OPEN if rate is None else rate, MINUTE), rate is not None),
    )


def wire_name(name: str) -> str:
    """`max_jobs` as the wire has it."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
