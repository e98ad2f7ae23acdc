"""Every metric there is. The reference, the dashboard and the alert rules are held to this list by tests.

Counters are of one process: what it wrote to the store, counted once the store has said so. Added up over all processes they are what
the ledger says. Gauges marked "of the store" are read when somebody asks, by bounded looks. Labels have few values, all of them ours or
an operator's (pools, routes); past a limit the rest is one series, `other`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duly.domain.lifecycle import FINAL, Outcome
from duly.domain.metrics.metric import Kind, Metric
from duly.domain.workflow.advance import Because

# What each series of a metric may have at most besides `other`; see `tables`.
MOST_SERIES = 200
OTHER = "other"
# How a batch or a step fails: the store was away, or it is a bug.
FAILURES = ("unavailable", "fault")

_SHORT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LATE = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_LONG = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
_SIZES = (1.0, 5.0, 10.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)


def _counter(name: str, about: str, *labels: str) -> Metric:
    return Metric(f"duly_{name}", Kind.COUNTER, about, labels)


def _gauge(name: str, about: str, *labels: str) -> Metric:
    return Metric(f"duly_{name}", Kind.GAUGE, about, labels)


def _histogram(name: str, about: str, bounds: tuple[float, ...], *labels: str) -> Metric:
    return Metric(f"duly_{name}", Kind.HISTOGRAM, about, labels, bounds)


# ---------------------------------------------------------------- what happened to executions, counted by whoever wrote it

CREATED = _counter("executions_created", "Executions that were written, whatever made them: fires, enqueues, runs, replays, steps.")
FIRES = _counter("fires", "Fires that were written, the skipped ones included.")
SKIPS = _counter("skips", "Executions that were recorded and not run, by reason; misfire: the fire was missed.", "reason")
ATTEMPTS = _counter("attempts", "Attempts that have ended.", "outcome")
RETRIES = _counter("retries", "Attempts after which their execution waits for another one, by how they ended.", "outcome")
OUTCOMES = _counter("outcomes", "Executions that have ended, by their final state; DEAD is a new dead letter.", "state")
WORKERS_LOST = _counter("workers_lost", "Workers whose heartbeat had ended and whose work was taken away.")
REFUSED = _counter("refused_writes", "Writes that the store refused because the lease, the epoch or the place was gone.", "write")

# ---------------------------------------------------------------- how late, how long, how many

FIRE_LATENESS = _histogram("fire_lateness_seconds", "From the instant of a fire to its being written.", _LATE)
START_LATENESS = _histogram("start_lateness_seconds", "From when an execution was due to the claim of its first attempt.", _LATE, "pool")
RUN = _histogram("run_seconds", "How long attempts ran.", _LONG)
STORE_SECONDS = _histogram("store_seconds", "How long the store took for a batch.", _SHORT, "operation")
BATCH = _histogram("batch_size", "How many executions a batch was about.", _SIZES, "operation")
STORE_ERRORS = _counter(
    "store_errors", "Batches that failed: unavailable, the store was away; fault, it refused the statement.", "operation", "kind"
)

# ---------------------------------------------------------------- roles and requests

ROLE_STEPS = _counter("role_steps", "Steps that a role has made.", "role")
ROLE_SECONDS = _histogram("role_step_seconds", "How long a step took.", _SHORT, "role")
ROLE_FAILURES = _counter("role_failures", "Steps that failed: unavailable, the store was away; fault, a bug of ours.", "role", "kind")
ROLE_DID = _counter("role_did", "What a role's steps have done, in its own words.", "role", "what")
REQUESTS = _counter("http_requests", "Requests that were answered.", "method", "route", "status")
REQUEST_SECONDS = _histogram("http_request_seconds", "How long an answer took; streams are not among them.", _SHORT, "route")

# ---------------------------------------------------------------- of this process

BUILD = _gauge("build_info", "Always 1; says what runs here.", "version", "store")
SKEW = _gauge("clock_skew_seconds", "How far this machine's clock is ahead of the store's.", "store")
STORE_UP = _gauge("store_up", "Whether the store answers, with a schema that this release knows.", "store")
STORE_PING = _gauge("store_ping_seconds", "How long the store took to say so.", "store")
DISPATCHER_SHARDS = _gauge("dispatcher_shards", "Shards that this process fires for.", "store")
CPU = Metric("process_cpu_seconds", Kind.COUNTER, "Processor time that this process has used.")
MEMORY = Metric("process_resident_memory_bytes", Kind.GAUGE, "Memory that this process holds.")
FILES = Metric("process_open_fds", Kind.GAUGE, "Open files and connections of this process.")
STARTED = Metric("process_start_time_seconds", Kind.GAUGE, "When this process started, in seconds since 1970.")

# The operating system counts these: they are read when asked, and kept by nobody here.
OF_SYSTEM = frozenset({CPU, MEMORY, FILES, STARTED})

# ---------------------------------------------------------------- of the store, read when asked

STANDING = _gauge("executions", "Of the store: executions by where they stand, counted to a million.", "state")
DEAD_LETTERS = _gauge("dead_letters", "Of the store: dead letters that nobody has dealt with, counted to ten thousand.")
MISSING = _gauge("fires_missing", "Of the store: fires that should be on record and are not, as the auditor found them, to ten thousand.")
OVERRUNS = _gauge("overruns", "Of the store: of the 500 executions that have run longest, those over twice their job's p95 (and 10 s).")
DEPTH = _gauge("queue_depth", "Of the store: executions that are ready, by route.", "pool", "labels", "handler")
OLDEST = _gauge("queue_oldest_wait_seconds", "Of the store: how long the first of them has been due.", "pool", "labels", "handler")
POOL_PENDING = _gauge("pool_pending", "Of the store: executions that are ready and wait for a worker.", "pool")
POOL_RUNNING = _gauge("pool_running", "Of the store: executions that run.", "pool")
POOL_OLDEST = _gauge("pool_oldest_wait_seconds", "Of the store: how long the oldest of those that wait has waited.", "pool")
POOL_WORKERS = _gauge("pool_workers", "Of the store: live workers.", "pool")
POOL_SLOTS = _gauge("pool_slots", "Of the store: how many executions they run at once.", "pool")
POOL_REPLICAS = _gauge("pool_recommended_replicas", "Of the store: how many workers would meet the wait that is aimed at.", "pool")
POOL_LONGEST = _gauge("pool_longest_run_seconds", "Of the store: how long the longest of those that run has run.", "pool")
DISPATCHERS = _gauge("dispatchers", "Of the store: live dispatchers.")
SHARDS = _gauge("shards", "Of the store: shards by whether a live dispatcher holds them: owned or free.", "standing")
EPOCHS = _gauge("shard_epoch", "Of the store: under which epoch a shard is held; it grows with every change of hands.", "shard")
TENANT_PENDING = _gauge("tenant_pending", "Of the store: ready executions of a tenant. Only with DULY_METRICS_TENANTS.", "tenant")
TENANT_OLDEST = _gauge(
    "tenant_oldest_wait_seconds", "Of the store: how long the first of them has been due. Only with DULY_METRICS_TENANTS.", "tenant"
)

# ---------------------------------------------------------------- what is 0 from the start

# The values of labels that are a closed list. What has not happened yet is shown as 0: growth is what alerts look at, and a series that
# begins with its first burst has not grown. Of a role's failures the role itself tells (`roles/loop`).
FROM_THE_START: Mapping[Metric, Sequence[tuple[str, ...]]] = {
    SKIPS: [(reason,) for reason in ("misfire", "overlap", "asked", "dependency", *Because)],
    ATTEMPTS: [(outcome.name,) for outcome in Outcome],
    RETRIES: [(outcome.name,) for outcome in (Outcome.FAILED, Outcome.TIMED_OUT, Outcome.WORKER_LOST)],
    OUTCOMES: [(state.name,) for state in sorted(FINAL)],
    REFUSED: [(write,) for write in ("finish", "checkpoint", "log", "fire", "renew")],
    STORE_ERRORS: [(operation, kind) for operation in ("enqueue", "fire", "promote", "claim", "finish", "sweep") for kind in FAILURES],
}

CATALOGUE: tuple[Metric, ...] = tuple(value for value in dict(globals()).values() if isinstance(value, Metric))
