"""What the store's numbers mean, written down a second time: who judges must not ask the accused for the words."""

from __future__ import annotations

SCHEDULED, BLOCKED, PENDING, RUNNING, SUCCEEDED, DEAD, CANCELLED, SKIPPED = range(8)
STATE_NAMES = ("SCHEDULED", "BLOCKED", "PENDING", "RUNNING", "SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED")
FINAL = frozenset({SUCCEEDED, DEAD, CANCELLED, SKIPPED})

# The published graph. An execution comes from nowhere into one of the first.
NEW = -1
EDGES: dict[int, frozenset[int]] = {
    NEW: frozenset({SCHEDULED, BLOCKED, PENDING, SKIPPED}),
    SCHEDULED: frozenset({BLOCKED, PENDING, CANCELLED}),
    BLOCKED: frozenset({SCHEDULED, PENDING, CANCELLED, SKIPPED}),
    PENDING: frozenset({RUNNING, CANCELLED}),
    RUNNING: frozenset({SCHEDULED, SUCCEEDED, DEAD, CANCELLED}),
}

# … and of runs that consist of steps, and of steps. Some begin without waiting, or end without having run: they only waited, were
# decided upon, or had been done by an earlier run.
EDGES_OF_FLOWS = EDGES | {
    NEW: EDGES[NEW] | {RUNNING, SUCCEEDED, DEAD},
    BLOCKED: EDGES[BLOCKED] | {SUCCEEDED, DEAD},
    PENDING: EDGES[PENDING] | {SUCCEEDED},
}

FAILED, TIMED_OUT, WORKER_LOST, STOPPED, RELEASED = 2, 3, 4, 5, 6
COSTS_AN_ATTEMPT = frozenset({FAILED, TIMED_OUT})

BY_SCHEDULE, BY_ENQUEUE, BY_HAND, BY_BACKFILL, BY_REPLAY, BY_STEP = range(6)

SKIP_OVERLAP, SKIP_MISFIRE, SKIP_ASKED, SKIP_STEP, SKIP_DEPENDENCY = range(1, 6)

WAITS_FOR_A_PLACE, WAITS_AT_A_LIMIT = 0, 1

# From here on a schedule waits for nothing.
NEVER = 1 << 62

TITLES = {
    "I0": "The history can be read",
    "I1": "No job is lost",
    "I2": "Every target fires once",
    "I3": "One outcome is committed",
    "I4": "One lease is live",
    "I5": "Stale writes are refused",
    "I6": "Nothing starts early",
    "I7": "Everything starts in time",
    "I8": "Another leader takes over",
    "I9": "Old leaders write nothing",
    "I10": "Retries keep their budget",
    "I11": "Overlap and limits are kept",
    "I12": "Outages are caught up by policy",
    "I13": "Cancelled and paused is not run",
    "I14": "Children wait for their parents",
    "I15": "Checkpoints only grow",
    "I16": "Tenants stay apart",
    "I17": "A request repeated is one request",
    "I18": "States follow the graph",
    "I19": "Hints may be wrong",
    "I20": "A drained worker takes nothing",
    "I21": "Nothing is created or lost in counting",
    "I22": "A local time fires once",
    "I23": "Changes have an actor, secrets stay secret",
    "I24": "Resources are bounded",
}

# What a history lacks when an invariant was not judged.
WHY = {
    "I8": "no leader was lost while others lived, and no client read what it had written",
    "I9": "no shard was taken",
    "I11": "no job had places or limits",
    "I12": "there was no outage longer than a grace",
    "I13": "nothing was cancelled, paused or deleted",
    "I14": "no run had parents",
    "I15": "no checkpoint was saved",
    "I17": "no request had a key",
    "I19": "no hint was tampered with",
    "I20": "no worker was drained",
    "I22": "no job had a fixed local time",
    "I23": "the store cannot tell who writes, and no secret was planted",
    "I24": "nothing was measured over time",
}
