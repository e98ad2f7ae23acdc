"""Deeds in the words of the API: what the audit trail says about a job, a calendar or a key.

Payloads, and what a webhook or a shell command carries, may hold secrets: a record says that they changed, never what they are. The
whole definition stands in the job's versions, which the record names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import urlsplit

import msgspec

from duly.domain.access import Actor
from duly.domain.audit import WITHHELD, Deed, diff, on_job
from duly.domain.calendars import Calendar
from duly.domain.execution import NewExecution
from duly.domain.ids import JobId, execution_text
from duly.domain.instants import SECOND, Instant, to_rfc3339
from duly.domain.job import Job, JobSpec, Target
from duly.domain.lifecycle import Trigger
from duly.domain.tenants import Quotas, Tenant
from duly.ports.keys import KeyRow
from duly.wire.calendars import calendar_view
from duly.wire.jobs import JobView, job_fields

# What a job's view has and a change of its definition does not change, or says elsewhere.
_NOT_DEFINED = {
    "jobId",
    "state",
    "version",
    "createdAt",
    "updatedAt",
    "nextFireAt",
    "words",
    "target",
    "payload",
    "pausedAt",
    "pausedBy",
    "pausedUntil",
    "pauseReason",
    "skipAt",
    "skipBy",
}
_ASKED = {
    Trigger.ENQUEUE: "execution.enqueue",
    Trigger.MANUAL: "execution.run",
    Trigger.REPLAY: "execution.replay",
    Trigger.BACKFILL: "execution.backfill",
}


def job_created(actor: Actor, at: Instant, id: JobId, spec: JobSpec) -> Deed:
    """A new job, by what tells it from others."""
    timing = spec.timing
    after: dict[str, Any] = {"name": spec.name, "version": 1, "type": timing.type.value, "target": _target(spec.target)}
    if timing.cron is not None or timing.rule is not None:
        after["schedule"] = timing.cron or timing.rule
    if timing.every is not None:
        after["intervalSec"] = timing.every / SECOND
    if timing.run_at is not None:
        after["runAt"] = to_rfc3339(timing.run_at)
    return on_job(actor, at, "job.create", id, after=after)


def job_changed(actor: Actor, at: Instant, before: Job, spec: JobSpec) -> Deed:
    """A new version of a job: what differs in its definition."""
    old = before.version.spec
    was, now = diff(_definition(before, old, at), _definition(before, spec, at))
    if old.target != spec.target:
        was["target"], now["target"] = _target(old.target), _target(spec.target)
    if old.steps != spec.steps:
        was["steps"], now["steps"] = ([step.name for step in steps] for steps in (old.steps, spec.steps))
    if old.payload != spec.payload:
        was["payload"], now["payload"] = _hidden(old.payload), _hidden(spec.payload)
    if old.timing.calendars != spec.timing.calendars and "calendars" not in now:
        was["calendars"] = now["calendars"] = [calendar.name for calendar in spec.timing.calendars]
    version = before.version.version
    return on_job(actor, at, "job.change", before.id, before={"version": version, **was}, after={"version": version + 1, **now})


def enqueued(actor: Actor, at: Instant, new: Sequence[NewExecution]) -> Deed:
    """Executions of one job that somebody asks for."""
    first = new[0]
    if len(new) == 1:
        after = {"dueAt": to_rfc3339(first.due_at)}
        if first.payload is not None:
            after["payload"] = WITHHELD
        return Deed(actor, at, _ASKED[first.trigger], "execution", execution_text(first.id), first.job_id, None, after, (first.id,))
    return on_job(actor, at, _ASKED[first.trigger], first.job_id, executions=[item.id for item in new])


def calendar_set(actor: Actor, at: Instant, calendar: Calendar, before: Calendar | None, jobs: Sequence[Job]) -> Deed:
    """A calendar made or changed, and how many jobs changed with it."""
    was, now = diff({} if before is None else _days(before), _days(calendar))
    if jobs:
        now["jobsChanged"] = len(jobs)
    return Deed(actor, at, "calendar.set", "calendar", calendar.name, before=was or None, after=now)


def calendar_deleted(actor: Actor, at: Instant, calendar: Calendar) -> Deed:
    """A calendar that is gone."""
    return Deed(actor, at, "calendar.delete", "calendar", calendar.name, before=_days(calendar))


def key_created(actor: Actor, row: KeyRow) -> Deed:
    """A new key: whose, for what and for how long."""
    after: dict[str, Any] = {"role": row.role, "name": row.name}
    after |= {"expiresAt": None if row.expires_at is None else to_rfc3339(row.expires_at)}
    after |= {} if row.pools is None else {"pools": list(row.pools)}
    return Deed(actor, row.created_at, "key.create", "key", row.id, after=after)


def tenant_created(actor: Actor, tenant: Tenant) -> Deed:
    """A new tenant, its weight and its quotas."""
    after = {"weight": tenant.weight, **asdict(tenant.quotas)}
    return Deed(actor, tenant.created_at, "tenant.create", "tenant", tenant.name, after=_wire(after))


def tenant_changed(actor: Actor, at: Instant, before: Tenant, weight: int, quotas: Quotas) -> Deed:
    """Another weight, other quotas."""
    was, now = diff(_wire({"weight": before.weight, **asdict(before.quotas)}), _wire({"weight": weight, **asdict(quotas)}))
    return Deed(actor, at, "tenant.change", "tenant", before.name, before=was, after=now)


def _wire(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Names as the wire writes them; what is None is left out."""
    return {re.sub("_(.)", lambda found: found[1].upper(), name): value for name, value in fields.items() if value is not None}


def _definition(job: Job, spec: JobSpec, now: Instant) -> Mapping[str, Any]:
    """The definition in the words of the API, but for what may hold a secret."""
    plain = replace(spec, payload=None, target=Target(pool="-", handler="-"), steps=())
    shown = JobView(**job_fields(replace(job, version=replace(job.version, spec=plain)), "", now))
    fields: dict[str, Any] = msgspec.to_builtins(shown)
    return {name: value for name, value in fields.items() if name not in _NOT_DEFINED}


def _target(target: Target) -> dict[str, Any]:
    """What runs it and where; of a webhook the host, of a command its program."""
    told: dict[str, Any] = {"pool": target.pool}
    if target.requires:
        told["requires"] = dict(target.requires)
    if target.http is not None:
        # The path and the query of an address may hold a token as well as its headers do.
        told["http"] = {"method": target.http.method, "host": urlsplit(target.http.url).hostname, "headers": sorted(target.http.headers)}
    elif target.shell is not None:
        told["shell"] = [target.shell[0], *[WITHHELD] * (len(target.shell) > 1)]
    else:
        told["handler"] = target.handler
    return told


def _hidden(value: str | None) -> str | None:
    return None if value is None else WITHHELD


def _days(calendar: Calendar) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(calendar_view(calendar, 0))
    return {name: value for name, value in fields.items() if name not in ("name", "version", "updatedAt")}
