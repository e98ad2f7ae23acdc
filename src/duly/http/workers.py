"""The worker protocol: register, lease by long poll, heartbeat, report, drain. Everything may be sent again when an answer was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from duly.domain.access import Role
from duly.domain.errors import Forbidden, TooLarge
from duly.domain.execution import LeaseId, LogLine, Saved, Stop, WorkerId
from duly.domain.ids import ExecutionId, execution_text, idempotency_key, job_text, parse_execution_id, parse_worker_id
from duly.domain.instants import SECOND, Instant, Micros
from duly.domain.job import JobSpec
from duly.domain.lifecycle import Outcome
from duly.domain.redaction import json_without_credentials, without_credentials, without_named
from duly.http.limits import LARGEST_BATCH, hung_up
from duly.http.routing import Call, Reply, route
from duly.ports.desk import Ended, Held
from duly.ports.store import WorkerAbout
from duly.usecases.workers import Leased, Report, Reported, Room
from duly.wire.executions import StateName
from duly.wire.shapes import LARGEST_OBJECT, json_text, shown, shown_json
from duly.wire.workers import (
    LARGEST_RESULT,
    CheckpointedView,
    CheckpointShape,
    CheckpointView,
    CompleteShape,
    DrainShape,
    DrainView,
    EndedView,
    FailShape,
    FencedShape,
    HeartbeatShape,
    HeartbeatView,
    KeptView,
    LeasedView,
    LeaseShape,
    LeaseView,
    LineShape,
    LogShape,
    NothingView,
    OneProgressShape,
    ProgressShape,
    RegisteredView,
    RegisterShape,
    ReleaseShape,
    ReportShape,
    ReportView,
    ResultShape,
    ResultView,
    StopView,
)

T = TypeVar("T")

# Who waits for work looks that often, whatever the hints say.
LOOK_EVERY = 0.5
# A result, and the words around it.
LARGEST_COMPLETE = 2 * LARGEST_RESULT
LARGEST_ERROR = 32 << 10
LARGEST_CHECKPOINT = 2 * LARGEST_OBJECT

# What keeps a key from acting as a worker: there is none, another key registered it, or the pool is closed to it.
_WORKER = ("DULY-E221", "DULY-E304", "DULY-E305")
_REFUSALS = ("DULY-E205", "DULY-E223", *_WORKER)
_ENDS = (*_REFUSALS, "DULY-E224")
_encoder = msgspec.json.Encoder()


# ---------------------------------------------------------------- a worker's life


@route(
    "POST",
    "/v1/workers",
    role=Role.WORKER,
    status=201,
    answer=RegisteredView,
    problems=("DULY-E114", "DULY-E304"),
    idempotent=True,
    examples={"one": {"name": "gpu-7", "handlers": ["resize"]}},
)
async def register_worker(call: Call, body: RegisterShape) -> Reply:
    """Register a worker: every start of a process is a new one"""
    workers = call.services.workers
    handlers, skew = sorted(set(body.handlers)), _skew(body.clock_skew_ms)
    about = WorkerAbout(body.pool, body.labels, handlers, body.slots, body.host, body.pid, body.version, skew=skew)
    asked = _micros(body.ttl_sec)
    worker = await workers.register(call.actor, body.name, about, asked, call.idempotency)
    ttl = workers.lifetime(asked)
    return Reply(
        RegisteredView(
            worker_id=str(worker),
            ttl_sec=ttl / SECOND,
            heartbeat_sec=ttl / SECOND / 3,
            trusted_for_sec=workers.trust(ttl) / SECOND,
            store_now=_now(call),
        )
    )


@route(
    "POST",
    "/v1/workers/{workerId}/heartbeat",
    role=Role.WORKER,
    answer=HeartbeatView,
    problems=(*_WORKER, "DULY-E222"),
    body_optional=True,
    limit=LARGEST_BATCH,
)
async def send_heartbeat(call: Call, worker_id: WorkerId, body: HeartbeatShape) -> Reply:
    """Live on, and learn what was asked to stop"""
    workers = call.services.workers
    asked = _micros(body.ttl_sec)
    heard = {parse_execution_id(text) for text in body.heard}

    stops = await workers.heartbeat(call.actor, worker_id, asked, _skew(body.clock_skew_ms))
    if body.wait_sec > 0 and not any(stop.id not in heard for stop in stops):

        async def look() -> list[Stop] | None:
            found = await workers.stops(worker_id)
            return found if any(stop.id not in heard for stop in found) else None

        stops = await _looked_for(call, body.wait_sec, look, workers.wait_stop) or stops
    return Reply(
        HeartbeatView(
            stop=[_stop_view(stop, call.services.clock.now()) for stop in stops],
            trusted_for_sec=workers.trust(workers.lifetime(asked)) / SECOND,
            store_now=_now(call),
        )
    )


@route("POST", "/v1/workers/{workerId}/drain", role=Role.WORKER, answer=DrainView, problems=_WORKER, body_optional=True)
async def drain_worker(call: Call, worker_id: WorkerId, body: DrainShape) -> Reply:
    """Take no more work; with `retire`, give back what is held and be gone"""
    released = await call.services.workers.drain(call.actor, worker_id, retire=body.retire)
    return Reply(DrainView(released=released, retired=body.retire))


# ---------------------------------------------------------------- work


@route(
    "POST",
    "/v1/workers/{workerId}/lease",
    role=Role.WORKER,
    answer=LeaseView,
    also={204: "Nothing was ready within `waitSec`."},
    problems=(*_WORKER, "DULY-E222"),
    body_optional=True,
    examples={"poll": {"max": 10, "waitSec": 20, "known": [88213]}},
)
async def lease_executions(call: Call, worker_id: WorkerId, body: LeaseShape) -> Reply:
    """Take executions to run: waits until some are ready, at most `waitSec`"""
    workers = call.services.workers

    async def look() -> Leased | None:
        return await workers.lease(call.actor, worker_id, body.max, body.known, [Room(room.handlers, room.max) for room in body.rooms])

    leased = await _looked_for(call, body.wait_sec, look, workers.wait)
    if leased is None:
        return Reply(None, status=204)
    return Reply(_lease_view(leased, call.services.clock.now(), definitions=body.definitions))


@route(
    "POST",
    "/v1/workers/{workerId}/report",
    role=Role.WORKER,
    answer=ReportView,
    problems=("DULY-E111", *_WORKER),
    limit=LARGEST_BATCH,
)
async def report_results(call: Call, worker_id: WorkerId, body: ReportShape) -> Reply:
    """Report many attempts at once; each is taken or refused by itself"""
    workers, now = call.services.workers, call.services.clock.now()
    reports = [_result(item) for item in body.results]
    lines = [
        ((item.fence, parse_execution_id(item.execution_id)), _line(line, now, f"logs[{nth}]"))
        for nth, item in enumerate(body.logs)
        for line in item.lines
    ]
    # Lines are kept under the lease, so they come before the end that closes it.
    told = await workers.log(call.actor, worker_id, lines)
    await workers.progress(call.actor, worker_id, [_progress(item) for item in body.progress])
    reported = await workers.report(call.actor, worker_id, reports)
    return Reply(ReportView(results=[_result_view(item) for item in reported], lines_kept=told.kept, lines_dropped=told.dropped))


# ---------------------------------------------------------------- one execution


@route("POST", "/v1/executions/{executionId}/complete", role=Role.WORKER, answer=EndedView, problems=_ENDS, limit=LARGEST_COMPLETE)
async def complete_execution(call: Call, execution_id: ExecutionId, body: CompleteShape) -> Reply:
    """The attempt succeeded"""
    result = json_text(body.result, "result", LARGEST_RESULT)
    return await _end(
        call, execution_id, body, Outcome.SUCCEEDED, result=result, took=_micros(body.took_sec), ago=_micros(body.ago_sec) or 0
    )


@route("POST", "/v1/executions/{executionId}/fail", role=Role.WORKER, answer=EndedView, problems=_ENDS)
async def fail_execution(call: Call, execution_id: ExecutionId, body: FailShape) -> Reply:
    """The attempt failed: the job's policy decides what comes next"""
    return await _end(
        call,
        execution_id,
        body,
        Outcome[body.outcome.name],
        error=_error(body.error),
        kinds=_kinds(body),
        retry=body.retry,
        retry_after=_micros(body.retry_after_sec),
        took=_micros(body.took_sec),
        ago=_micros(body.ago_sec) or 0,
    )


@route("POST", "/v1/executions/{executionId}/release", role=Role.WORKER, answer=EndedView, problems=_ENDS)
async def release_execution(call: Call, execution_id: ExecutionId, body: ReleaseShape) -> Reply:
    """Give the attempt back, at no cost"""
    return await _end(call, execution_id, body, Outcome.RELEASED, retry_after=_micros(body.retry_after_sec))


@route("POST", "/v1/executions/{executionId}/log", role=Role.WORKER, answer=KeptView, problems=_REFUSALS, limit=LARGEST_COMPLETE)
async def log_lines(call: Call, execution_id: ExecutionId, body: LogShape) -> Reply:
    """Keep lines that the handler logged"""
    workers, now = call.services.workers, call.services.clock.now()
    worker = parse_worker_id(body.worker_id)
    held: Held = (body.fence, execution_id)
    told = await workers.log(call.actor, worker, [(held, _line(line, now, f"lines[{nth}]")) for nth, line in enumerate(body.lines)])
    if not (told.kept or told.dropped):
        raise await workers.refusal(worker, execution_id)
    return Reply(KeptView(lines_kept=told.kept, lines_dropped=told.dropped))


@route(
    "POST",
    "/v1/executions/{executionId}/checkpoint",
    role=Role.WORKER,
    answer=CheckpointedView,
    problems=(*_REFUSALS, "DULY-E226"),
    limit=LARGEST_CHECKPOINT,
)
async def save_checkpoint(call: Call, execution_id: ExecutionId, body: CheckpointShape) -> Reply:
    """Keep a checkpoint: whatever attempt comes next starts with it"""
    data = json_text(body.data, "data")
    held: Held = (body.fence, execution_id)
    await call.services.workers.checkpoint(call.actor, parse_worker_id(body.worker_id), held, body.number, data or "null")
    return Reply(CheckpointedView(number=body.number))


@route("POST", "/v1/executions/{executionId}/progress", role=Role.WORKER, answer=NothingView, problems=_REFUSALS)
async def tell_progress(call: Call, execution_id: ExecutionId, body: ProgressShape) -> Reply:
    """Say how far the attempt has come"""
    worker = parse_worker_id(body.worker_id)
    told = _progress_text(body.progress)
    if not await call.services.workers.progress(call.actor, worker, [(body.fence, execution_id, told)]):
        raise await call.services.workers.refusal(worker, execution_id)
    return Reply(NothingView())


async def _end(call: Call, id: ExecutionId, body: FencedShape, outcome: Outcome, **more: Any) -> Reply:
    report = Report(id=id, lease=body.fence, outcome=outcome, **more)
    ended = await call.services.workers.end(call.actor, parse_worker_id(body.worker_id), report)
    return Reply(EndedView(execution_id=execution_text(id), state=StateName[ended.state.name], next_attempt_at=_next(ended)))


# ---------------------------------------------------------------- translation


def _lease_view(leased: Leased, now: Instant, *, definitions: bool) -> LeaseView:
    claimed, versions = leased.claimed, leased.versions
    rows = zip(
        claimed.ids,
        claimed.attempts,
        claimed.failures,
        claimed.job_versions,
        claimed.due_ats,
        claimed.scheduled_ats,
        claimed.payloads,
        strict=True,
    )
    executions: list[LeasedView] = []
    for nth, (id, attempt, failures, number, due_at, scheduled_at, payload) in enumerate(rows):
        version = versions[number]
        spec = version.spec
        own = None if spec.payload is None else msgspec.Raw(spec.payload.encode())
        executions.append(
            LeasedView(
                execution_id=execution_text(id),
                job_id=job_text(version.job_id),
                job_name=spec.name,
                job_version=number,
                handler=spec.target.handler_name,
                tenant=version.tenant_name,
                attempt=attempt,
                max_attempts=spec.retry.max_attempts,
                failures=failures,
                scheduled_at=shown(scheduled_at) or "",
                due_at=shown(due_at) or "",
                timeout_sec=_limit(spec, due_at, now),
                payload=own if payload is None else payload,
                idempotency_key=idempotency_key(version.tenant_name, spec.name, version.job_id, id, scheduled_at),
                losses=leased.losses.get(id, 0),
                checkpoint=_checkpoint_view(leased.saved.get(id)),
                traceparent=None if claimed.traces is None else claimed.traces.get(nth),
            )
        )
    whole = {str(number): versions[number] for number in sorted(set(claimed.job_versions))} if definitions else None
    return LeaseView(lease_id=claimed.lease, executions=executions, definitions=whole)


def _limit(spec: JobSpec, due_at: Instant, now: Instant) -> float | None:
    """The attempt's own limit, or what is left for all attempts together, whichever ends first."""
    limits = [] if spec.timeout is None else [spec.timeout]
    if spec.execution_timeout is not None:
        limits.append(max(due_at + spec.execution_timeout - now, 0))
    return min(limits) / SECOND if limits else None


def _checkpoint_view(saved: Saved | None) -> CheckpointView | None:
    return None if saved is None or saved.checkpoint is None else CheckpointView(number=saved.number, data=shown_json(saved.checkpoint))


def _stop_view(stop: Stop, now: Instant) -> StopView:
    kill_in = None if stop.kill_at is None else max(stop.kill_at - now, 0) / SECOND
    return StopView(execution_id=execution_text(stop.id), kill_in_sec=kill_in)


def _progress(item: OneProgressShape) -> tuple[LeaseId, ExecutionId, str]:
    return item.fence, parse_execution_id(item.execution_id), _progress_text(item.progress)


def _progress_text(told: msgspec.Raw) -> str:
    return json_without_credentials(json_text(told, "progress") or "null")


def _result(item: ResultShape) -> Report:
    return Report(
        id=parse_execution_id(item.execution_id),
        lease=item.fence,
        outcome=Outcome[item.outcome.name],
        result=json_text(item.result, "result", LARGEST_RESULT),
        error=_error(item.error),
        kinds=_kinds(item),
        retry=item.retry,
        retry_after=_micros(item.retry_after_sec),
        took=_micros(item.took_sec),
        ago=_micros(item.ago_sec) or 0,
    )


def _result_view(reported: Reported) -> ResultView:
    id, ended = execution_text(reported.id), reported.ended
    code = None if reported.refusal is None else reported.refusal.code
    if ended is None:
        return ResultView(execution_id=id, code=code)
    return ResultView(execution_id=id, state=StateName[ended.state.name], next_attempt_at=_next(ended), code=code)


def _next(ended: Ended) -> str | None:
    return shown(ended.retry_at)


def _kinds(shape: FailShape | ResultShape) -> tuple[str, ...]:
    if shape.kinds or shape.error is None:
        return tuple(shape.kinds)
    kind = shape.error.get("type")
    return (kind,) if isinstance(kind, str) else ()


def _error(told: dict[str, Any] | None) -> str | None:
    if told is None:
        return None
    text = _encoder.encode(told)
    if len(text) > LARGEST_ERROR:
        raise TooLarge("DULY-E109", f"has {len(text):,} bytes; {LARGEST_ERROR:,} are the limit.", field="error")
    # Whoever wrote the worker: what looks like a credential is not kept.
    return json_without_credentials(text.decode())


def _line(shape: LineShape, now: Instant, field: str) -> LogLine:
    json_text(msgspec.Raw(_encoder.encode(shape.fields)), f"{field}.fields", 16_384)
    return LogLine(now - round(shape.ago_sec * SECOND), shape.level, without_credentials(shape.message), without_named(shape.fields))


def _micros(seconds: float | None) -> Micros | None:
    return None if seconds is None else round(seconds * SECOND)


def _skew(millis: float | None) -> Micros | None:
    return None if millis is None else round(millis * 1000)


def _now(call: Call) -> str:
    return shown(call.services.clock.now()) or ""


async def _looked_for(
    call: Call, seconds: float, look: Callable[[], Awaitable[T | None]], wait: Callable[[float], Awaitable[None]]
) -> T | None:
    """What `look` finds, at once or within the time; `wait` says when it may be worth another look.

    Whoever has hung up, or is about to be hung up on, is not waited for any longer. Whose key was revoked gets nothing more.
    """
    clock = call.services.clock
    until = clock.boottime() + round(seconds * SECOND)
    gone = [asyncio.ensure_future(hung_up(call.receive)), asyncio.ensure_future(call.closing.wait())]
    try:
        while True:
            if not await call.is_still_known():
                raise Forbidden("DULY-E302", "The key is not valid.", field="Authorization")
            found = await look()
            left = (until - clock.boottime()) / SECOND
            if found is not None or left <= 0 or any(task.done() for task in gone):
                return found
            waiting = asyncio.ensure_future(wait(min(left, LOOK_EVERY)))
            try:
                await asyncio.wait({waiting, *gone}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
    finally:
        for task in gone:
            task.cancel()
        await asyncio.gather(*gone, return_exceptions=True)


ROUTES = [
    register_worker,
    send_heartbeat,
    drain_worker,
    lease_executions,
    report_results,
    complete_execution,
    fail_execution,
    release_execution,
    log_lines,
    save_checkpoint,
    tell_progress,
]
