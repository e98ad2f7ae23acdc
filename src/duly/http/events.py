"""One stream of what changes: jobs and executions of the tenant, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from duly.domain.access import Role
from duly.domain.instants import LATEST, Instant
from duly.http.cursors import from_event_id
from duly.http.routing import Call, Reply, Stream, route
from duly.usecases.events import Told
from duly.wire.events import RefreshEvent, execution_event, job_event

# A change is on the screens of those who follow within a second: half of it is for the way.
LOOK_EVERY = 0.5
# A comment that often (in looks) keeps proxies from cutting a quiet stream.
BREATHE_EVERY = 30
RETRY_MS = 2000

LAST_EVENT_ID = {
    "Last-Event-ID": {
        "description": "The id of the last event that was received: what has changed since then is told first.",
        "schema": {"type": "string", "pattern": "^[0-9]{1,18}$", "examples": ["1767614400000000"]},
    }
}

_encoder = msgspec.json.Encoder()


@route(
    "GET",
    "/v1/events",
    role=Role.VIEWER,
    answer=None,
    problems=("DULY-E112", "DULY-E413"),
    request_headers=LAST_EVENT_ID,
    streams=True,
)
async def follow_events(call: Call) -> Reply | Stream:
    """Follow what changes: events `job`, `execution` and, when there was more than is told, `refresh`"""
    sent = call.headers.get(b"last-event-id")
    since = None if sent is None else min(from_event_id(sent), LATEST)
    return Stream(_events(call, since))


async def _events(call: Call, since: Instant | None) -> AsyncIterator[bytes]:
    """Until the caller hangs up, the server stops or the key is revoked."""
    follower = call.services.changes.follow(call.actor, since)
    yield b"retry: %d\n: duly\n\n" % RETRY_MS
    quiet = 0
    while await call.is_still_known():
        lines = _lines(await follower.news())
        quiet = 0 if lines else quiet + 1
        if quiet == BREATHE_EVERY:
            quiet = 0
            lines.append(b": breathe\n\n")
        if lines:
            yield b"".join(lines)
        await call.sleep(LOOK_EVERY)


def _lines(told: Told) -> list[bytes]:
    lines = [_event(told.at, b"job", job_event(job, told.at)) for job in told.jobs]
    lines += [_event(told.at, b"execution", execution_event(execution)) for execution in told.executions]
    if told.more:
        lines.append(_event(told.at, b"refresh", RefreshEvent(reason="More has changed than is told one by one.")))
    return lines


def _event(at: int, name: bytes, data: object) -> bytes:
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (at, name, _encoder.encode(data))


ROUTES = [follow_events]
