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
from urllib.parse import quote, urlencode

import msgspec

from duly.domain.instants import from_datetime, to_rfc3339
from duly.sdk.encoding import encoded, given
from duly.wire.backfill import BackfillView
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
from duly.wire.upcoming import UpcomingView
from duly.wire.why import WhyView

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
    return Call(_post("/v1/jobs", job, idempotency_key), JobView, idempotency_key is not None)


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
    fires = {"nextFireAfter": _time(next_fire_after), "nextFireBefore": _time(next_fire_before)}
    path = _with_query(
        "/v1/jobs", name=name, state=state, search=search, pool=pool, handler=handler, type=type, **fires, limit=limit, cursor=cursor
    )
    return _get(path, Page[JobView])


def show_job(job_id: str) -> Call[JobDetailView]:
    """A job with its next fires and latest executions."""
    return _get(f"/v1/jobs/{job_id}", JobDetailView)


def change_job(job_id: str, job: JobShape | Mapping[str, Any], *, version: int | None = None) -> Call[JobView]:
    """Give a job a new version; with `version`, only if that is still the current one."""
    return Call(Request("PUT", f"/v1/jobs/{job_id}", encoded(job), _JSON | _if_match(version)), JobView)


def cancel_job(job_id: str, *, version: int | None = None) -> Call[JobView]:
    """Cancel a job and its future fires; with `version`, only if that is still the current one."""
    return Call(Request("DELETE", f"/v1/jobs/{job_id}", headers=_if_match(version)), JobView, True)


def pause_job(job_id: str, reason: str | None = None, *, until: datetime | None = None, version: int | None = None) -> Call[JobView]:
    """No fire until it is resumed, or until a time; with `version`, only if that is still the current one."""
    request = _post(f"/v1/jobs/{job_id}/pause", {"reason": reason, "until": until}, headers=_if_match(version))
    return Call(request, JobView, True)


def resume_job(job_id: str, *, version: int | None = None) -> Call[JobView]:
    """Fire again from now on; with `version`, only if that is still the current one."""
    return Call(_post(f"/v1/jobs/{job_id}/resume", {}, headers=_if_match(version)), JobView, True)


def skip_fire(job_id: str, *, at: datetime | None = None) -> Call[JobView]:
    """Skip one fire: the next one, or the one at a time."""
    return Call(_post(f"/v1/jobs/{job_id}/skip", {"at": at}), JobView, at is not None)


def unskip_fire(job_id: str) -> Call[JobView]:
    """Take a skip back."""
    return Call(_post(f"/v1/jobs/{job_id}/unskip", {}), JobView, True)


def run_job(
    job_id: str, *, payload: Any = NO_PAYLOAD, priority: str | None = None, idempotency_key: str | None = None
) -> Call[EnqueuedView]:
    """Run a job now, whatever its schedule says."""
    body = given(payload=payload, priority=priority)
    return Call(_post(f"/v1/jobs/{job_id}/run", body, idempotency_key), EnqueuedView, idempotency_key is not None)


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
    return Call(_post(f"/v1/jobs/{job_id}/executions", body, idempotency_key), EnqueuedView, idempotency_key is not None)


def enqueue_many(job_id: str, payloads: Sequence[Any], *, idempotency_key: str | None = None) -> Call[Page[EnqueuedView]]:
    """Enqueue an execution for each payload, in one transaction."""
    body = {"executions": [{"payload": payload} for payload in payloads]}
    return Call(_post(f"/v1/jobs/{job_id}/executions:batch", body, idempotency_key), Page[EnqueuedView], idempotency_key is not None)


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
    others = {"since": _time(since), "until": _time(until), "lastOutcome": last_outcome, "batchId": batch_id, "workerId": worker_id}
    inside = {f"payload.{path}": value for path, value in (payload or {}).items()}
    return _get(_with_query("/v1/executions", **named, **others, **inside, limit=limit, cursor=cursor), Page[ExecutionView])


def show_execution(execution_id: str) -> Call[ExecutionView]:
    """Where an execution stands, its result or error."""
    return _get(f"/v1/executions/{execution_id}", ExecutionView)


def list_attempts(execution_id: str) -> Call[Page[AttemptView]]:
    """The attempts of an execution, first to last."""
    return _get(f"/v1/executions/{execution_id}/attempts", Page[AttemptView])


def list_logs(
    execution_id: str, *, attempt: int | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[LogLineView]]:
    """What an execution logged, a page at a time."""
    return _get(_with_query(f"/v1/executions/{execution_id}/logs", attempt=attempt, limit=limit, cursor=cursor), Page[LogLineView])


def follow_logs(execution_id: str, *, attempt: int | None = None) -> Request:
    """A stream of what an execution logs; `Events` reads it. It ends with an event `end` once the execution is final."""
    path = _with_query(f"/v1/executions/{execution_id}/logs", attempt=attempt)
    return Request("GET", path, headers={"Accept": "text/event-stream"})


def cancel_execution(execution_id: str) -> Call[ExecutionView]:
    """Cancel an execution: at once when it waits, soon when it runs."""
    return Call(_post(f"/v1/executions/{execution_id}/cancel", {}), ExecutionView, True)


def replay_execution(execution_id: str, *, payload: Any = NO_PAYLOAD, idempotency_key: str | None = None) -> Call[EnqueuedView]:
    """Run a final execution again, as a new one."""
    body = given(payload=payload)
    return Call(_post(f"/v1/executions/{execution_id}/replay", body, idempotency_key), EnqueuedView, idempotency_key is not None)


def retry_execution(execution_id: str) -> Call[ExecutionView]:
    """Let a retry that waits run now, or replay a dead letter."""
    return Call(_post(f"/v1/executions/{execution_id}/retry", {}), ExecutionView)


def discard_execution(execution_id: str) -> Call[ExecutionView]:
    """Put a dead letter away."""
    return Call(_post(f"/v1/executions/{execution_id}/discard", {}), ExecutionView, True)


def list_dead_letters(*, job_id: str | None = None, cause: str | None = None) -> Call[DeadLettersView]:
    """Open dead letters, grouped by job and cause."""
    return _get(_with_query("/v1/dead-letters", jobId=job_id, cause=cause), DeadLettersView)


def list_open_letters(
    *, job_id: str | None = None, cause: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[Page[DeadLetterView]]:
    """Open dead letters one by one, newest first."""
    return _get(_with_query("/v1/dead-letters/open", jobId=job_id, cause=cause, limit=limit, cursor=cursor), Page[DeadLetterView])


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
    return Call(_post("/v1/executions:bulk", {**body, "everything": everything, "dryRun": dry_run}), BulkView)


def continue_batch(batch_id: str, *, anyway: bool = False, limit: int | None = None) -> Call[BulkView]:
    """Do the rest of a batch; after canaries only if they have succeeded, or `anyway`."""
    return Call(_post("/v1/executions:bulk", given(batchId=batch_id, limit=limit) | {"continue": "anyway" if anyway else True}), BulkView)


def show_batch(batch_id: str) -> Call[BatchView]:
    """A bulk action, and where what it made stands."""
    return _get(f"/v1/batches/{batch_id}", BatchView)


def abort_batch(batch_id: str) -> Call[BatchView]:
    """Cancel what a batch has made and what has not started."""
    return Call(_post(f"/v1/batches/{batch_id}/abort", {}), BatchView, True)


def why_execution(execution_id: str) -> Call[WhyView]:
    """Why an execution stands where it stands."""
    return _get(f"/v1/executions/{execution_id}/why", WhyView)


def why_job(job_id: str, *, at: datetime | None = None) -> Call[WhyView]:
    """Why a job does not run now; with a time, why it did not run then, or will not."""
    return _get(_with_query(f"/v1/jobs/{job_id}/why", at=_time(at)), WhyView)


def backfill(
    job_id: str,
    first: datetime,
    last: datetime,
    *,
    rerun: str = "none",
    dry_run: bool = False,
    rate_per_sec: float | None = None,
    max_concurrent: int | None = None,
    payload: Any = NO_PAYLOAD,
) -> Call[BackfillView]:
    """Run what a job's schedule named in a past range and what did not run then."""
    span = {"from": to_rfc3339(from_datetime(first)), "to": to_rfc3339(from_datetime(last))}
    body = given(ratePerSec=rate_per_sec, maxConcurrent=max_concurrent, payload=payload) | {"rerun": rerun, "dryRun": dry_run}
    return Call(_post(f"/v1/jobs/{job_id}/backfill", span | body), BackfillView, dry_run)


# ---------------------------------------------------------------- keys


def create_key(role: str, name: str, *, expires_in_sec: float | None = None, pools: Sequence[str] | None = None) -> Call[NewKeyView]:
    """Make a key; its secret is in the answer and nowhere else. `pools` are those that a worker's key opens."""
    return Call(_post("/v1/keys", {"role": role, "name": name, "expiresInSec": expires_in_sec, "pools": pools}), NewKeyView)


def list_keys() -> Call[Page[KeyView]]:
    """The keys of the tenant."""
    return _get("/v1/keys", Page[KeyView])


def rotate_key(key_id: str, *, overlap_sec: float = 3600, expires_in_sec: float | None = None) -> Call[RotatedKeyView]:
    """A new key in the place of one that ends after the overlap."""
    return Call(_post(f"/v1/keys/{key_id}/rotate", {"overlapSec": overlap_sec, "expiresInSec": expires_in_sec}), RotatedKeyView)


def revoke_key(key_id: str) -> Call[KeyView]:
    """A key opens nothing any more."""
    return Call(Request("DELETE", f"/v1/keys/{key_id}"), KeyView, True)


def create_login_link(role: str | None = None) -> Call[LinkView]:
    """A link that logs a browser in, once: as the key's own role or a lower one."""
    return Call(_post("/v1/sessions/link", {"role": role}), LinkView)


def show_session() -> Call[SessionView]:
    """Who you are."""
    return _get("/v1/session", SessionView)


# ---------------------------------------------------------------- calendars


def list_calendars() -> Call[Page[CalendarView]]:
    """Calendars, by name."""
    return _get("/v1/calendars", Page[CalendarView])


def show_calendar(name: str) -> Call[CalendarView]:
    """One calendar."""
    return _get(f"/v1/calendars/{quote(name, safe='')}", CalendarView)


def set_calendar(name: str, calendar: CalendarShape | Mapping[str, Any], *, version: int | None = None) -> Call[CalendarView]:
    """Make or change a calendar; with `version`, only if that is still the current one."""
    headers = _JSON if version is None else {**_JSON, "If-Match": f'"v{version}"'}
    request = Request("PUT", f"/v1/calendars/{quote(name, safe='')}", msgspec.json.encode(calendar), headers)
    return Call(request, CalendarView, version is None)


def delete_calendar(name: str) -> Call[CalendarView]:
    """Delete a calendar that no job names."""
    return Call(Request("DELETE", f"/v1/calendars/{quote(name, safe='')}"), CalendarView)


def import_calendar(name: str, ics: str, *, dry_run: bool = False) -> Call[ImportView]:
    """Add the days and times of an iCalendar file."""
    return Call(_post(f"/v1/calendars/{quote(name, safe='')}/import", {"ics": ics, "dryRun": dry_run}), ImportView, True)


# ---------------------------------------------------------------- the rest


def preview(schedule: PreviewShape | Mapping[str, Any]) -> Call[PreviewView]:
    """A schedule in words, its next fires, and what to look out for."""
    return Call(_post("/v1/schedules/preview", schedule), PreviewView, True)


def list_workers() -> Call[Page[WorkerView]]:
    """Live workers, and lost ones of the last hour."""
    return _get("/v1/workers", Page[WorkerView])


def list_pools() -> Call[Page[PoolView]]:
    """Pools that have a live worker or ready work."""
    return _get("/v1/pools", Page[PoolView])


def show_stats() -> Call[StatsView]:
    """Where jobs and executions stand, counted."""
    return _get("/v1/stats", StatsView)


def list_upcoming(
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    per_job: int | None = None,
    summary: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[UpcomingView]:
    """What will fire, soonest first; with summary="minute" how much, minute by minute."""
    window: dict[str, str | None] = {"from": _time(since), "until": _time(until)}
    return _get(_with_query("/v1/upcoming", **window, perJob=per_job, summary=summary, limit=limit, cursor=cursor), UpcomingView)


def follow_events(*, last_event_id: str | None = None) -> Request:
    """A stream of what changes in the tenant; `Events` reads it. With the id of an event, from there on."""
    resumed = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
    return Request("GET", "/v1/events", headers={"Accept": "text/event-stream", **resumed})


def show_version() -> Call[VersionView]:
    """What runs there; needs no key."""
    return _get("/version", VersionView)


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


_JSON = {"Content-Type": "application/json"}


def _get(path: str, kind: Any) -> Call[Any]:
    return Call(Request("GET", path), kind, True)


def _post(path: str, body: Any, idempotency_key: str | None = None, *, headers: Mapping[str, str] | None = None) -> Request:
    named = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
    return Request("POST", path, encoded(body), {**_JSON, **named, **(headers or {})})


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"v{version}"'}


def _time(at: datetime | None) -> str | None:
    return None if at is None else to_rfc3339(from_datetime(at))


def _with_query(path: str, **values: str | int | None) -> str:
    asked = {name: value for name, value in values.items() if value is not None}
    return f"{path}?{urlencode(asked)}" if asked else path
