"""What a seed decides: the fleet, the faults that may happen, how often, the workload, and how long it all lasts."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace
from typing import Any

from duly.domain.instants import SECOND, Instant, Micros, from_rfc3339

FAULTS = (
    "crash",
    "pause",
    "drain",
    "drop",
    "cut requests",
    "cut replies",
    "clog",
    "stall",
    "store crash",
    "failover",
    "slow disk",
    "connections",
    "clock step",
    "drift",
    "messages",
    "forget",
)
# What can be wrong with the service that tells who is there, where there is one.
LEASE_FAULTS = ("leases crash", "leases wiped", "leases pause", "leases late", "leases forget", "leases cut", "leases drift")
KINDS = (
    "once",
    "cron",
    "seconds",
    "interval",
    "delayed",
    "rrule",
    "calendar",
    "jitter",
    "overlap",
    "catch up",
    "retry",
    "limits",
    "unique",
    "batch",
    "timeout",
    "checkpoint",
    "stubborn",
    "workflow",
    "change",
    "cancel",
    "bulk",
    "backfill",
)
# Instants around which zones change their offset, with a zone that does.
CHANGES = (
    ("Europe/Berlin", "2026-03-29T01:00:00Z"),
    ("Europe/Berlin", "2026-10-25T01:00:00Z"),
    ("America/New_York", "2026-03-08T07:00:00Z"),
    ("America/New_York", "2026-11-01T06:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
    ("Pacific/Chatham", "2026-09-26T14:00:00Z"),
)
ZONES = ("UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati", "Asia/Kolkata")


@dataclass(frozen=True, slots=True)
class Plan:
    """All of it. The seed draws each; a shrunk run replaces some."""

    seed: int
    mode: str
    horizon: float
    dispatchers: int
    workers: int
    clients: int
    shards: int
    faults: tuple[str, ...]
    kinds: tuple[str, ...]
    jobs: int
    # Seconds between faults, on average.
    every: float
    ttl: Micros
    leader_ttl: Micros
    poll: float
    slots: int
    latency: float
    start: Instant
    zone: str
    # What tells who of the dispatchers is there: `store`, or `etcd`.
    leases: str

    @property
    def margin(self) -> Micros:
        """How much earlier than the store a worker stops to trust itself; as `compose` has it."""
        return self.ttl * 2 // 15


def plan_of(seed: int) -> Plan:
    """What this seed draws."""
    chance = random.Random(f"plan {seed}")
    mode = "liveness" if seed % 4 == 3 else "safety"
    # A swarm: most seeds leave most kinds out, so that those that are in meet undisturbed.
    faults = tuple(kind for kind in FAULTS if chance.random() < (0.6 if kind == "stall" else 0.33)) or (chance.choice(FAULTS),)
    kinds = tuple(kind for kind in KINDS if chance.random() < 0.3) or (chance.choice(KINDS),)
    zone, change = chance.choice(CHANGES)
    if chance.random() < 0.3:
        start = from_rfc3339(change) - round(chance.uniform(1, 40) * SECOND)
    else:
        zone = chance.choice(ZONES)
        start = from_rfc3339("2026-06-01T00:00:00Z") + chance.randrange(200 * 86_400) * SECOND + chance.randrange(SECOND)
    dispatchers = chance.choice((1, 1, 2, 2, 3, 4)) if mode == "safety" else chance.choice((2, 2, 3))
    workers = chance.choice((1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 4, 8)) if mode == "safety" else chance.choice((2, 2, 3))
    leases = "etcd" if dispatchers > 1 and random.Random(f"leases {seed}").random() < 0.6 else "store"
    if leases == "etcd":
        others = random.Random(f"lease faults {seed}")
        faults += tuple(kind for kind in LEASE_FAULTS if others.random() < 0.4)
    return Plan(
        seed=seed,
        mode=mode,
        horizon=round(chance.uniform(10, 30), 1),
        dispatchers=dispatchers,
        workers=workers,
        clients=chance.choice((1, 1, 2)),
        shards=chance.choice((1, 2, 2, 4, 8)),
        faults=faults,
        kinds=kinds,
        jobs=chance.randint(3, 9),
        every=chance.choice((1.5, 3.0, 6.0)),
        ttl=chance.choice((3, 3, 6, 15)) * SECOND,
        leader_ttl=chance.choice((3, 6)) * SECOND,
        poll=chance.choice((0.5, 1.0, 2.0)),
        slots=chance.choice((2, 4, 8, 16)) if mode == "safety" else 16,
        latency=chance.choice((0.0005, 0.002, 0.01)),
        start=start,
        zone=zone,
        leases=leases,
    )


def changed(plan: Plan, **changes: Any) -> Plan:
    """The plan with some of it replaced."""
    return replace(plan, **changes)


def as_options(plan: Plan) -> str:
    """What differs from the seed's own plan, as options of the command."""
    drawn, told = plan_of(plan.seed), [f"--seed {plan.seed}"]
    for field in fields(plan):
        value = getattr(plan, field.name)
        if value != getattr(drawn, field.name):
            shown = ",".join(value) if isinstance(value, tuple) else str(value)
            told.append(f'--set "{field.name}={shown}"')
    return " ".join(told)


def with_option(plan: Plan, text: str) -> Plan:
    """The plan with `name=value` as `as_options` writes it."""
    name, _, value = text.partition("=")
    before = getattr(plan, name)
    if isinstance(before, tuple):
        return replace(plan, **{name: tuple(filter(None, value.split(",")))})
    return replace(plan, **{name: type(before)(value)})
