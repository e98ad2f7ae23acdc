"""The load of a server, as a plan would say it: its jobs, what they took lately, and its workers. Reads a bounded part of the history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from duly.cli.upcoming import calendars_of, timing_of
from duly.domain.capacity.costs import PoolSize
from duly.domain.capacity.load import LoadClass
from duly.domain.capacity.spans import Span, span_of
from duly.domain.errors import Invalid
from duly.domain.ids import parse_job_id
from duly.domain.instants import SECOND, Instant, Micros, from_rfc3339
from duly.domain.job import schedule_of
from duly.domain.overlap import Overlap
from duly.domain.schedule import next_fire
from duly.sdk import calls
from duly.sdk.client import Client
from duly.wire.executions import ExecutionView
from duly.wire.jobs import JobView
from duly.wire.specs import retry_of

MOST_JOBS = 200_000
# The newest ones tell what runs take; more would tell the same.
MOST_EXECUTIONS = 4000
UNKNOWN = Span(SECOND, SECOND)
_ENQUEUED = "enqueue"


@dataclass(slots=True)
class Live:
    """What was found, and what people should know about it."""

    classes: list[LoadClass]
    pools: dict[str, PoolSize]
    remarks: list[str]


@dataclass(slots=True)
class _Seen:
    """What is known of one job's latest executions."""

    durations: list[Micros] = field(default_factory=list)
    attempts: int = 0
    failed: int = 0
    enqueued: int = 0


def look(client: Client, begin: Instant) -> Live:
    """Ask the server. Raises Invalid when nothing of it ever comes up."""
    jobs = list(calls.every_page(client.send, lambda cursor: calls.list_jobs(state="ACTIVE", limit=200, cursor=cursor), MOST_JOBS))
    executions = list(calls.every_page(client.send, lambda cursor: calls.list_executions(limit=200, cursor=cursor), MOST_EXECUTIONS))
    calendars = calendars_of(client, jobs)
    seen, seconds = _seen(executions)
    others = [duration for one in seen.values() for duration in one.durations]
    usual = span_of(others) if others else UNKNOWN
    classes: list[LoadClass] = []
    guessed = 0
    for job in jobs:
        schedule = schedule_of(timing_of(job, calendars), parse_job_id(job.job_id))
        known = seen.get(job.job_id, _Seen())
        rate = known.enqueued / seconds if seconds else 0.0
        is_to_come = schedule is not None and next_fire(schedule, begin - 1) is not None
        if not is_to_come and not rate:
            continue
        guessed += not known.durations
        span = span_of(known.durations) if known.durations else usual
        failures = known.failed / known.attempts if known.attempts else 0.0
        if is_to_come:
            classes.append(_class(job, span, failures, schedule=schedule, jitter=round(job.jitter_sec * SECOND)))
        if rate:
            classes.append(_class(job, span, failures, per_second=rate))
    if not classes:
        raise Invalid("DULY-E281", "no job of this server has a fire to come, and none was enqueued lately.", hint="Write a plan instead.")
    return Live(classes, _pools(client), _remarks(jobs, executions, guessed, usual))


def _class(job: JobView, span: Span, failures: float, **when: object) -> LoadClass:
    return LoadClass(
        name=job.name,
        pool=job.target.pool,
        span=span,
        failures=round(failures, 2),
        retry=retry_of(job.retry_policy),
        overlap=Overlap(policy=job.overlap, max_running=job.max_running, max_queued=job.max_queued),
        priority=job.priority,
        max_concurrent=job.max_concurrent,
        **when,  # type: ignore[arg-type]
    )


def _seen(executions: Sequence[ExecutionView]) -> tuple[dict[str, _Seen], float]:
    """By job, and over how many seconds."""
    seen: dict[str, _Seen] = defaultdict(_Seen)
    for execution in executions:
        one = seen[execution.job_id]
        one.enqueued += execution.trigger == _ENQUEUED
        if execution.started_at is None or execution.finished_at is None:
            continue
        one.durations.append(max(from_rfc3339(execution.finished_at) - from_rfc3339(execution.started_at), 0))
        one.attempts += execution.attempt
        one.failed += execution.attempt if execution.state == "DEAD" else execution.attempt - 1
    times = [from_rfc3339(execution.created_at) for execution in executions]
    return seen, (max(times) - min(times)) / SECOND if len(times) > 1 else 0.0


def _pools(client: Client) -> dict[str, PoolSize]:
    slots: dict[str, list[int]] = defaultdict(list)
    for worker in client.send(calls.list_workers()).items:
        if worker.state == "LIVE":
            slots[worker.pool].append(worker.slots)
    return {pool: PoolSize(len(each), round(median(each))) for pool, each in slots.items()}


def _remarks(jobs: Sequence[JobView], executions: Sequence[ExecutionView], guessed: int, usual: Span) -> list[str]:
    found = []
    if len(jobs) >= MOST_JOBS:
        found.append(f"only the newest {MOST_JOBS:,} jobs were looked at")
    if guessed:
        others = "like the others" if usual is not UNKNOWN else "for a second"
        found.append(f"{guessed:,} of {len(jobs):,} jobs have not run lately and are taken to run {others}")
    if executions:
        found.append(f"durations, failures and enqueues are those of the latest {len(executions):,} executions")
    return found
