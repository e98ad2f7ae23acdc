"""The API's calls without any input or output: what to send, and how to read what comes back.

A `Call` is a value. A shell sends its request by whatever means it has and gives the answer to
`Call.answer`, which returns the wire type or raises the error that the server meant, with its
stable code. So a synchronous and an asynchronous client have nothing to agree on but this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from duly.domain.instants import from_datetime, to_rfc3339
from duly.sdk.encoding import encoded, given, with_query
from duly.wire.bulk import BatchView, BulkView, DeadLettersView, DeadLetterView
from duly.wire.calendars import CalendarShape, CalendarView, ImportView
from duly.wire.executions import AttemptView, EnqueuedView, ExecutionView, LogLineView
from duly.wire.fleet import PoolView, StatsView, VersionView, WorkerView
from duly.wire.jobs import JobDetailView, JobShape, JobView
from duly.wire.keys import KeyView, NewKeyView, RotatedKeyView
from duly.wire.problems import not_ours, problem
from duly.wire.schedules import PreviewShape, PreviewView
from duly.wire.sessions import LinkView, SessionView
from duly.wire.shapes import Page
from duly.wire.upcoming import MoveView, RescheduledView, SpreadView, UpcomingView

T = TypeVar("T")

# A payload that was not given: the job's own is used. None is a payload like any other.
NO_PAYLOAD: Any = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, but for the server's address and the key."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request, and the type that its answer has. `is_repeatable`: sending it twice does no more than sending it once."""

    request: Request
    kind: Any
    is_repeatable: bool = False

    def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> T:
        """Read an answer; `headers` have lower-case names. Raises the DulyError that a problem document stands for."""
        if status >= 400:
            raise problem(status, headers, body)
        try:
            result: T = msgspec.json.decode(body, type=self.kind)
            return result
        except msgspec.DecodeError as error:
            raise not_ours(status, headers) from error


# ---------------------------------------------------------------- jobs


def create_job(job: JobShape | Mapping[str, Any], *, idempotency_key: str | None = None) -> Call[JobView]:
    """Create a job, given as a shape or as the JSON object that the API takes."""
    return Call(post("/v1/jobs", job, idempotency_key), JobView, idempotency_key is not None)


def list_jobs(
    *,
    name: str | None = None,
    state: str | None = None,
    search: str | None = None,
    pool: str | None = None,
    handler: str | None = None,
    type: str | None = None,
    next_fire_after: datetime | None = None,
    next_fire_before: datetime | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[JobView]]:
    """Jobs, newest first."""
    fires = {"nextFireAfter": time_text(next_fire_after), "nextFireBefore": time_text(next_fire_before)}
    path = with_query(
        "/v1/jobs", name=name, state=state, search=search, pool=pool, handler=handler, type=type, **fires, limit=limit, cursor=cursor
    )
    return get(path, Page[JobView])


def show_job(job_id: str) -> Call[JobDetailView]:
    """A job with its next fires and latest executions."""
    return get(f"/v1/jobs/{job_id}", JobDetailView)


def change_job(job_id: str, job: JobShape | Mapping[str, Any], *, version: int | None = None) -> Call[JobView]:
    """Give a job a new version; with `version`, only if that is still the current one."""
    return Call(Request("PUT", f"/v1/jobs/{job_id}", encoded(job), JSON | _if_match(version)), JobView)


def cancel_job(job_id: str, *, version: int | None = None) -> Call[JobView]:
    """Cancel a job and its future fires; with `version`, only if that is still the current one."""
    return Call(Request("DELETE", f"/v1/jobs/{job_id}", headers=_if_match(version)), JobView, True)


def pause_job(job_id: str, reason: str | None = None, *, until: datetime | None = None, version: int | None = None) -> Call[JobView]:
    """No fire until it is resumed, or until a time; with `version`, only if that is still the current one."""
    request = post(f"/v1/jobs/{job_id}/pause", {"reason": reason, "until": until}, headers=_if_match(version))
    return Call(request, JobView, True)


def resume_job(job_id: str, *, version: int | None = None) -> Call[JobView]:
    """Fire again from now on; with `version`, only if that is still the current one."""
    return Call(post(f"/v1/jobs/{job_id}/resume", {}, headers=_if_match(version)), JobView, True)


def skip_fire(job_id: str, *, at: datetime | None = None) -> Call[JobView]:
    """Skip one fire: the next one, or the one at a time."""
    return Call(post(f"/v1/jobs/{job_id}/skip", {"at": at}), JobView, at is not None)


def unskip_fire(job_id: str) -> Call[JobView]:
    """Take a skip back."""
    return Call(post(f"/v1/jobs/{job_id}/unskip", {}), JobView, True)


def run_job(
    job_id: str, *, payload: Any = NO_PAYLOAD, priority: str | None = None, idempotency_key: str | None = None
) -> Call[EnqueuedView]:
    """Run a job now, whatever its schedule says."""
    body = given(payload=payload, priority=priority)
    return Call(post(f"/v1/jobs/{job_id}/run", body, idempotency_key), EnqueuedView, idempotency_key is not None)


# ---------------------------------------------------------------- executions


def enqueue(
    job_id: str,
    *,
    payload: Any = NO_PAYLOAD,
    run_at: datetime | None = None,
    delay_sec: float | None = None,
    priority: str | None = None,
    idempotency_key: str | None = None,
) -> Call[EnqueuedView]:
    """Enqueue an execution: now, at a time, or after a delay."""
    body = given(payload=payload, runAt=run_at, delaySec=delay_sec, priority=priority)
    return Call(post(f"/v1/jobs/{job_id}/executions", body, idempotency_key), EnqueuedView, idempotency_key is not None)


def enqueue_many(job_id: str, payloads: Sequence[Any], *, idempotency_key: str | None = None) -> Call[Page[EnqueuedView]]:
    """Enqueue an execution for each payload, in one transaction."""
    body = {"executions": [{"payload": payload} for payload in payloads]}
    return Call(post(f"/v1/jobs/{job_id}/executions:batch", body, idempotency_key), Page[EnqueuedView], idempotency_key is not None)


def list_executions(
    *,
    job_id: str | None = None,
    job_name: str | None = None,
    state: str | None = None,
    trigger: str | None = None,
    pool: str | None = None,
    handler: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    last_outcome: str | None = None,
    batch_id: str | None = None,
    worker_id: str | None = None,
    payload: Mapping[str, str] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[ExecutionView]]:
    """Executions, newest first; `payload` has values by their paths, such as {"customer.id": "42"}."""
    named = {"jobId": job_id, "jobName": job_name, "state": state, "trigger": trigger, "pool": pool, "handler": handler}
    others = {"since": time_text(since), "until": time_text(until), "lastOutcome": last_outcome, "batchId": batch_id, "workerId": worker_id}
    inside = {f"payload.{path}": value for path, value in (payload or {}).items()}
    return get(with_query("/v1/executions", **named, **others, **inside, limit=limit, cursor=cursor), Page[ExecutionView])


def show_execution(execution_id: str) -> Call[ExecutionView]:
    """Where an execution stands, its result or error."""
    return get(f"/v1/executions/{execution_id}", ExecutionView)


def list_attempts(execution_id: str) -> Call[Page[AttemptView]]:
    """The attempts of an execution, first to last."""
    return get(f"/v1/executions/{execution_id}/attempts", Page[AttemptView])


def list_logs(
    execution_id: str,
    *,
    attempt: int | None = None,
    level: str | None = None,
    contains: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[Page[LogLineView]]:
    """What an execution logged, a page at a time: of a level or higher, with a text in it."""
    wanted = {"attempt": attempt, "level": level, "contains": contains, "limit": limit, "cursor": cursor}
    return get(with_query(f"/v1/executions/{execution_id}/logs", **wanted), Page[LogLineView])


def follow_logs(execution_id: str, *, attempt: int | None = None, level: str | None = None, contains: str | None = None) -> Request:
    """A stream of what an execution logs; `Events` reads it. It ends with an event `end` once the execution is final."""
    path = with_query(f"/v1/executions/{execution_id}/logs", attempt=attempt, level=level, contains=contains)
    return Request("GET", path, headers={"Accept": "text/event-stream"})


def cancel_execution(execution_id: str) -> Call[ExecutionView]:
    """Cancel an execution: at once when it waits, soon when it runs."""
    return Call(post(f"/v1/executions/{execution_id}/cancel", {}), ExecutionView, True)


def replay_execution(execution_id: str, *, payload: Any = NO_PAYLOAD, idempotency_key: str | None = None) -> Call[EnqueuedView]:
    """Run a final execution again, as a new one."""
    body = given(payload=payload)
    return Call(post(f"/v1/executions/{execution_id}/replay", body, idempotency_key), EnqueuedView, idempotency_key is not None)


def retry_execution(execution_id: str) -> Call[ExecutionView]:
    """Let a retry that waits run now, or replay a dead letter."""
    return Call(post(f"/v1/executions/{execution_id}/retry", {}), ExecutionView)


def discard_execution(execution_id: str) -> Call[ExecutionView]:
    """Put a dead letter away."""
    return Call(post(f"/v1/executions/{execution_id}/discard", {}), ExecutionView, True)


def list_dead_letters(*, job_id: str | None = None, cause: str | None = None) -> Call[DeadLettersView]:
    """Open dead letters, grouped by job and cause."""
    return get(with_query("/v1/dead-letters", jobId=job_id, cause=cause), DeadLettersView)


def list_open_letters(
    *, job_id: str | None = None, cause: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[DeadLetterView]]:
    """Open dead letters one by one, newest first."""
    return get(with_query("/v1/dead-letters/open", jobId=job_id, cause=cause, limit=limit, cursor=cursor), Page[DeadLetterView])


def act_in_bulk(
    action: str,
    match: Mapping[str, Any],
    *,
    everything: bool = False,
    dry_run: bool = False,
    rate_per_sec: float | None = None,
    canary: int | None = None,
    limit: int | None = None,
    payload: Any = NO_PAYLOAD,
) -> Call[BulkView]:
    """Cancel, retry, replay or discard all executions that match."""
    body = given(action=action, match=match, ratePerSec=rate_per_sec, canary=canary, limit=limit, payload=payload)
    return Call(post("/v1/executions:bulk", {**body, "everything": everything, "dryRun": dry_run}), BulkView)


def continue_batch(batch_id: str, *, anyway: bool = False, limit: int | None = None) -> Call[BulkView]:
    """Do the rest of a batch; after canaries only if they have succeeded, or `anyway`."""
    return Call(post("/v1/executions:bulk", given(batchId=batch_id, limit=limit) | {"continue": "anyway" if anyway else True}), BulkView)


def show_batch(batch_id: str) -> Call[BatchView]:
    """A bulk action, and where what it made stands."""
    return get(f"/v1/batches/{batch_id}", BatchView)


def abort_batch(batch_id: str) -> Call[BatchView]:
    """Cancel what a batch has made and what has not started."""
    return Call(post(f"/v1/batches/{batch_id}/abort", {}), BatchView, True)


# ---------------------------------------------------------------- keys


def create_key(role: str, name: str, *, expires_in_sec: float | None = None, pools: Sequence[str] | None = None) -> Call[NewKeyView]:
    """Make a key; its secret is in the answer and nowhere else. `pools` are those that a worker's key opens."""
    return Call(post("/v1/keys", {"role": role, "name": name, "expiresInSec": expires_in_sec, "pools": pools}), NewKeyView)


def list_keys() -> Call[Page[KeyView]]:
    """The keys of the tenant."""
    return get("/v1/keys", Page[KeyView])


def rotate_key(key_id: str, *, overlap_sec: float = 3600, expires_in_sec: float | None = None) -> Call[RotatedKeyView]:
    """A new key in the place of one that ends after the overlap."""
    return Call(post(f"/v1/keys/{key_id}/rotate", {"overlapSec": overlap_sec, "expiresInSec": expires_in_sec}), RotatedKeyView)


def revoke_key(key_id: str) -> Call[KeyView]:
    """A key opens nothing any more."""
    return Call(Request("DELETE", f"/v1/keys/{key_id}"), KeyView, True)


def create_login_link(role: str | None = None) -> Call[LinkView]:
    """A link that logs a browser in, once: as the key's own role or a lower one."""
    return Call(post("/v1/sessions/link", {"role": role}), LinkView)


def show_session() -> Call[SessionView]:
    """Who you are."""
    return get("/v1/session", SessionView)


# ---------------------------------------------------------------- calendars


def list_calendars() -> Call[Page[CalendarView]]:
    """Calendars, by name."""
    return get("/v1/calendars", Page[CalendarView])


def show_calendar(name: str) -> Call[CalendarView]:
    """One calendar."""
    return get(f"/v1/calendars/{quote(name, safe='')}", CalendarView)


def set_calendar(name: str, calendar: CalendarShape | Mapping[str, Any], *, version: int | None = None) -> Call[CalendarView]:
    """Make or change a calendar; with `version`, only if that is still the current one."""
    headers = JSON if version is None else {**JSON, "If-Match": f'"v{version}"'}
    request = Request("PUT", f"/v1/calendars/{quote(name, safe='')}", msgspec.json.encode(calendar), headers)
    return Call(request, CalendarView, version is None)


def delete_calendar(name: str) -> Call[CalendarView]:
    """Delete a calendar that no job names."""
    return Call(Request("DELETE", f"/v1/calendars/{quote(name, safe='')}"), CalendarView)


def import_calendar(name: str, ics: str, *, dry_run: bool = False) -> Call[ImportView]:
    """Add the days and times of an iCalendar file."""
    return Call(post(f"/v1/calendars/{quote(name, safe='')}/import", {"ics": ics, "dryRun": dry_run}), ImportView, True)


# ---------------------------------------------------------------- the rest


def preview(schedule: PreviewShape | Mapping[str, Any]) -> Call[PreviewView]:
    """A schedule in words, its next fires, and what to look out for."""
    return Call(post("/v1/schedules/preview", schedule), PreviewView, True)


def list_workers() -> Call[Page[WorkerView]]:
    """Live workers, and lost ones of the last hour."""
    return get("/v1/workers", Page[WorkerView])


def list_pools() -> Call[Page[PoolView]]:
    """Pools that have a live worker or ready work."""
    return get("/v1/pools", Page[PoolView])


def show_stats() -> Call[StatsView]:
    """Where jobs and executions stand, counted."""
    return get("/v1/stats", StatsView)


def list_upcoming(
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    per_job: int | None = None,
    summary: str | None = None,
    pool: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[UpcomingView]:
    """What will fire, soonest first; with summary="minute" how much, minute by minute; with `pool` of the jobs of that pool."""
    window: dict[str, str | None] = {"from": time_text(since), "until": time_text(until)}
    return get(with_query("/v1/upcoming", **window, perJob=per_job, summary=summary, pool=pool, limit=limit, cursor=cursor), UpcomingView)


def show_spread(*, most: int | None = None, pool: str | None = None) -> Call[SpreadView]:
    """Which jobs would have to move so that no minute of the coming day is crowded; changes nothing."""
    return get(with_query("/v1/schedules/spread", most=most, pool=pool), SpreadView)


def reschedule_jobs(moves: Sequence[MoveView]) -> Call[RescheduledView]:
    """Carry out moves, each only if the job still has the expression before."""
    told = [{"jobId": move.job_id, "before": move.before, "after": move.after} for move in moves]
    return Call(post("/v1/jobs:reschedule", {"moves": told}), RescheduledView, False)


def follow_events(*, last_event_id: str | None = None) -> Request:
    """A stream of what changes in the tenant; `Events` reads it. With the id of an event, from there on."""
    resumed = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
    return Request("GET", "/v1/events", headers={"Accept": "text/event-stream", **resumed})


def show_version() -> Call[VersionView]:
    """What runs there; needs no key."""
    return get("/version", VersionView)


def every_page(fetch: Callable[[Call[Page[T]]], Page[T]], listing: Callable[[str | None], Call[Page[T]]], most: int) -> Iterator[T]:
    """The items of a listing over as many pages as it takes, at most `most` of them. `listing(cursor)` makes the calls."""
    cursor: str | None = None
    while most > 0:
        page = fetch(listing(cursor))
        yield from page.items[:most]
        most -= len(page.items)
        cursor = page.next_cursor
        if cursor is None:
            return


JSON = {"Content-Type": "application/json"}


def get(path: str, kind: Any) -> Call[Any]:
    """A question."""
    return Call(Request("GET", path), kind, True)


def post(path: str, body: Any, idempotency_key: str | None = None, *, headers: Mapping[str, str] | None = None) -> Request:
    """What changes something."""
    named = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
    return Request("POST", path, encoded(body), {**JSON, **named, **(headers or {})})


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"v{version}"'}


def time_text(at: datetime | None) -> str | None:
    """As the API takes it."""
    return None if at is None else to_rfc3339(from_datetime(at))
