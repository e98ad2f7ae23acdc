"""A job as it is wanted beside the job that there is, field by field, in the form in which both are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from duly.domain.instants import Instant
from duly.domain.job import Job, JobType, JobVersion
from duly.domain.lifecycle import JobState
from duly.wire.job_alerts import JobAlertShape
from duly.wire.jobs import JobShape, JobView, job_fields
from duly.wire.specs import spec_of
from duly.wire.targets import TargetShape

# What makes up a definition; the rest of a view says where the job stands.
FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(JobShape) if field.encode_name != "delaySec")
# Left out, these are the server's to choose once, when the job is made.
_CHOSEN_ONCE = ("anchorAt", "startAt", "runAt")
_POOL = ("pool", "default")


class Change(NamedTuple):
    """One field that differs: as it is, and as it is wanted."""

    field: str
    before: Any
    after: Any


def as_read(shape: JobShape, now: Instant) -> dict[str, Any]:
    """The definition as the API would show it, defaults included. Raises Invalid when keys contradict one another."""
    spec = spec_of(shape, now, fallback_name=shape.name or "job")
    version = JobVersion(
        number=0,
        job_id=UUID(int=0),
        version=0,
        tenant=0,
        tenant_name="",
        route=0,
        spec=spec,
        created_at=now,
    )
    view = JobView(**job_fields(Job(id=version.job_id, state=JobState.ACTIVE, version=version, created_at=now), "", now))
    return _plain(view)


def changes(live: JobView, shape: JobShape, now: Instant) -> list[Change]:
    """What would change if the job became as it is wanted, in the order of the fields."""
    wanted, shown = as_read(shape, now), _plain(live)
    given = _plain(shape)
    found: list[Change] = []
    for field in FIELDS:
        if field in _CHOSEN_ONCE and given.get(field) is None and not (field == "startAt" and wanted["type"] not in ("RRULE", "INTERVAL")):
            continue
        if shown.get(field) != wanted.get(field):
            found.append(Change(field, shown.get(field), wanted.get(field)))
    return found


def between(before: JobView, after: JobView) -> list[Change]:
    """What one version of a job changed of another, in the order of the fields."""
    was, became = _plain(before), _plain(after)
    return [Change(field, was.get(field), became.get(field)) for field in FIELDS if was.get(field) != became.get(field)]


def definition_of(job: JobView) -> dict[str, Any]:
    """A job as somebody would write it: what it would be without a word is left out."""
    unsaid = as_read(JobShape(name="job", target=TargetShape(handler="job")), 0)
    shown = _plain(job)
    body = {field: shown[field] for field in FIELDS if shown.get(field) is not None and shown[field] != unsaid.get(field)}
    if job.type is not JobType.RRULE:
        # What else there is says it.
        body.pop("type", None)
    if "target" in body:
        body["target"] = {key: value for key, value in body["target"].items() if value not in (None, {}) and (key, value) != _POOL}
    if "alert" in body:
        unwatched = _plain(JobAlertShape())
        body["alert"] = {key: value for key, value in body["alert"].items() if value != unwatched[key]}
    return body


def _plain(value: Any) -> dict[str, Any]:
    decoded: Mapping[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return dict(decoded)
