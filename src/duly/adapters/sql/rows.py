"""Rows to values and back. SQLite gives a uuid as 16 bytes and a boolean as a number; PostgreSQL gives both as they are."""

from __future__ import annotations

import logging
from dataclasses import replace
from json import loads
from typing import Any
from uuid import UUID, SafeUUID

import msgspec

from duly.adapters.sql.engine import Row
from duly.adapters.sql.specs import LONGEST, MOST, moment, spec_of
from duly.domain.calendars import Calendar
from duly.domain.errors import DulyError
from duly.domain.execution import Attempt, DueSchedule, Execution, LogLine, Lost, Saved
from duly.domain.homes import Standing
from duly.domain.instants import Instant
from duly.domain.job import Job, JobSpec, JobVersion, Target, Timing
from duly.domain.keys import KeyRow
from duly.domain.lifecycle import JobState, Outcome, SkipReason, State, Trigger
from duly.domain.recent import Lately
from duly.domain.sessions import SessionRow
from duly.domain.unreadable import Unreadable
from duly.ports.calendars import CalendarRow
from duly.ports.letters import Settling
from duly.ports.store import WorkerAbout, WorkerRow

# A schedule without a next fire waits for an instant beyond all time, so that one index serves every schedule.
NEVER: Instant = 1 << 62
# How a decoder says that it cannot: out of range, malformed for it, or too deep.
UNDECODABLE = (msgspec.DecodeError, RecursionError)

log = logging.getLogger("duly.store")

_calendar_decoder = msgspec.json.Decoder(Calendar)
_about_decoder = msgspec.json.Decoder(WorkerAbout)


_new, _set, _int, _unknown = UUID.__new__, object.__setattr__, int.from_bytes, SafeUUID.unknown


def as_uuid(value: Any) -> UUID:
    """A uuid column of either engine. `UUID(bytes=…)` looks at six kinds of arguments first, and a claim makes a thousand of them."""
    if not isinstance(value, bytes):
        return value  # type: ignore[no-any-return]
    made = _new(UUID)
    _set(made, "int", _int(value, "big"))
    _set(made, "is_safe", _unknown)
    return made


def as_uuids(value: Any) -> list[UUID]:
    """A column with a list of uuids: an array on PostgreSQL, 16 bytes after 16 bytes on SQLite."""
    if isinstance(value, bytes):
        return [as_uuid(value[at : at + 16]) for at in range(0, len(value), 16)]
    return list(value or ())


def encode(value: Any) -> str:
    """A domain value as the JSON that the store keeps."""
    return msgspec.json.encode(value).decode()


def payload_of(text: str | None) -> Any:
    """A payload, decoded; what cannot be decoded is its own execution's end, and nobody else's."""
    try:
        return None if text is None else msgspec.json.decode(text)
    except UNDECODABLE as error:
        return Unreadable(str(error))


def due_of(row: Row) -> DueSchedule:
    """A row of `due_schedules`."""
    return DueSchedule(as_uuid(row["job_id"]), row["shard"], row["next_fire_at"], row["version"], row["skip_at"], row["skip_by"])


# Of a generation, as many as any one answer needs.
_versions: Lately[int, tuple[tuple[object, ...], JobVersion]] = Lately(most=MOST)


def version_of(row: Row) -> JobVersion:
    """A row of job_versions joined with its job and tenant. One that was read before is the same value, with its schedule compiled."""
    number, definition = row["version_id"], row["definition"]
    known = _versions.get(number, moment())
    told = (definition, row["job_id"], row["tenant"], row["tenant_name"], row["route"], row["version_created_at"])
    if known is None or known[0] != told:
        made = JobVersion(
            number=number,
            job_id=as_uuid(row["job_id"]),
            version=row["version"],
            tenant=row["tenant"],
            tenant_name=row["tenant_name"],
            route=row["route"],
            spec=spec_of(definition),
            created_at=row["version_created_at"],
        )
        if len(definition) > LONGEST:
            return made
        # A process may have more than one store, and each counts its versions from one.
        known = told, made
        _versions.put(number, known)
    return known[1]


def readable_version_of(row: Row) -> JobVersion | None:
    """The same; None when a newer release wrote it, and this one cannot read it."""
    try:
        return version_of(row)
    except (ValueError, DulyError):
        # msgspec's errors are ValueErrors.
        log.exception("job version %d cannot be read by this release", row["version_id"])
        return None


def _unread_version_of(row: Row) -> JobVersion:
    """A version that this release cannot read, with what can be told of it: such a job is still listed, paused, changed and deleted."""
    found = msgspec.json.decode(row["definition"])
    name = found.get("name") if isinstance(found, dict) else None
    told = f"This release of Duly cannot read the definition of this job (version {row['version']}). Change the job, or upgrade."
    spec = JobSpec(
        name=name if isinstance(name, str) else "unreadable", timing=Timing(), target=Target(handler="unreadable"), description=told
    )
    return JobVersion(
        number=row["version_id"],
        job_id=as_uuid(row["job_id"]),
        version=row["version"],
        tenant=row["tenant"],
        tenant_name=row["tenant_name"],
        route=row["route"],
        spec=spec,
        created_at=row["version_created_at"],
    )


def job_of(row: Row) -> Job:
    """A job with its current version and where its schedule stands."""
    next_fire_at, skip_at = row["next_fire_at"], row["skip_at"]
    # A skip is spent once the schedule has moved past it.
    skips = skip_at is not None and next_fire_at is not None and skip_at >= next_fire_at
    return Job(
        id=as_uuid(row["job_id"]),
        state=JobState(row["state"]),
        version=readable_version_of(row) or _unread_version_of(row),
        created_at=row["created_at"],
        next_fire_at=None if next_fire_at is None or next_fire_at >= NEVER or row["state"] != JobState.ACTIVE else next_fire_at,
        paused_at=row["paused_at"],
        pause_reason=row["pause_reason"],
        paused_by=row["paused_by"],
        paused_until=row["paused_until"],
        skip_at=skip_at if skips else None,
        skip_by=row["skip_by"] if skips else None,
    )


def calendar_of(row: Row) -> CalendarRow:
    """A row of calendars."""
    return CalendarRow(replace(_calendar_decoder.decode(row["definition"]), version=row["version"]), row["updated_at"])


def skip_of(state: State, trigger: Trigger, skip: int | None, error: Any) -> SkipReason | None:
    """Why it was skipped, if it was. One that first was to wait has the reason in its outcome."""
    if skip is not None:
        return SkipReason(skip)
    if state is not State.SKIPPED:
        return None
    return SkipReason.STEP if trigger is Trigger.STEP else _later_skip(error)


def _later_skip(error: Any) -> SkipReason:
    return SkipReason.DEPENDENCY if error is not None and loads(error).get("reason") == "dependency" else SkipReason.OVERLAP


def execution_of(row: Row) -> Execution:
    """A row of execution_state joined with its job."""
    state = State(row["state"])
    outcome, trigger, error = row["last_outcome"], Trigger(row["trigger"]), row["error"]
    return Execution(
        id=as_uuid(row["id"]),
        job_id=as_uuid(row["own_job"]),
        job_name=row["job_name"],
        job_version=row["job_version"],
        tenant=row["tenant"],
        state=state,
        trigger=trigger,
        due_at=row["due_at"],
        created_at=row["created_at"],
        attempt=row["attempt"] or 0,
        max_attempts=row["max_attempts"],
        last_outcome=None if outcome is None else Outcome(outcome),
        next_attempt_at=row["next_attempt_at"],
        attempt_due_at=row["attempt_due_at"],
        fence=row["fence"],
        worker=row["worker"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        payload=row["own_payload"] if row["payload"] is None else row["payload"],
        result=row["result"],
        error=None if state is State.SUCCEEDED else error,
        cancel_asked_at=row["cancel_asked_at"],
        skip=skip_of(state, trigger, row["skip_reason"], error),
        scheduled_at=row["scheduled_at"],
        batch=None if row["batch"] is None else as_uuid(row["batch"]),
        replayed_as=None if row["replayed_as"] is None else as_uuid(row["replayed_as"]),
        discarded_at=row["dealt_with_at"] if row["settled_how"] == Settling.DISCARDED else None,
        saved=None if row["saved_number"] is None else Saved(row["saved_number"], None, row["progress"], row["saved_at"]),
        run=None if row["run"] is None else as_uuid(row["run"]),
        step=row["step"],
        step_name=row["step_name"],
        nth=row["nth"],
    )


def saved_of(row: Row) -> Saved:
    """A row of checkpoints."""
    return Saved(row["number"], row["data"], row["progress"], row["saved_at"])


def lost_of(row: Row) -> Lost:
    """A row of `lost_executions`."""
    return Lost(
        id=as_uuid(row["id"]),
        lease=row["lease_id"],
        worker=row["worker"],
        granted_at=row["granted_at"],
        attempt=row["attempt"],
        failures=row["failures"],
        losses=row["losses"],
        cancelled=bool(row["cancelled"]),
        job_id=as_uuid(row["job_id"]),
        job_version=row["job_version"],
        holds_place=bool(row["holds_place"]),
    )


def attempt_of(row: Row) -> Attempt:
    """A row of attempts, of outcomes or of a running lease, in one shape."""
    outcome = row["outcome"]
    return Attempt(
        attempt=row["attempt"],
        outcome=None if outcome is None else Outcome(outcome),
        fence=row["lease_id"],
        worker=row["worker"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        retry_at=row["retry_at"],
        error=row["error"],
    )


def log_of(row: Row) -> tuple[int, int, LogLine]:
    """(sequence, attempt, line)."""
    fields = row["fields"]
    return row["seq"], row["attempt"], LogLine(row["at"], row["level"], row["message"], msgspec.json.decode(fields) if fields else {})


def about_of(row: Row) -> WorkerAbout:
    """What a worker says of itself."""
    return _about_decoder.decode(row["about"])


def worker_of(row: Row) -> WorkerRow:
    """A worker with how much it runs."""
    return WorkerRow(
        id=row["id"],
        name=row["name"],
        about=about_of(row),
        started_at=row["started_at"],
        expires_at=row["expires_at"],
        lost_at=row["lost_at"],
        running=row["running"],
        tenant=row["tenant"],
    )


def key_of(row: Row) -> KeyRow:
    """An API key with its tenant's name."""
    return KeyRow(
        id=row["id"],
        tenant=row["tenant"],
        tenant_name=row["tenant_name"],
        role=row["role"],
        name=row["name"],
        hash=bytes(row["hash"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        prefix=row["prefix"],
        pools=None if row["pools"] is None else tuple(msgspec.json.decode(row["pools"])),
        lasts=row["lasts"],
        replaces=row["replaces"],
        replaced_by=row["replaced_by"],
        family=row["family"],
        last_used_at=row["last_used_at"],
        standing=Standing(row["standing"]),
    )


def session_of(row: Row) -> SessionRow:
    """A session with its tenant's name."""
    return SessionRow(
        hash=bytes(row["hash"]),
        tenant=row["tenant"],
        tenant_name=row["tenant_name"],
        key_id=row["key_id"],
        role=row["role"],
        created_at=row["created_at"],
        used_at=row["used_at"],
    )
