"""Kubernetes CronJobs: the controller's schedule, its policies, and the one command of their pods.

The controller reads expressions with a library of its own: a star with a step is no star any more when days are joined, times that
the clocks jump over do not happen, and those that come twice run twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from duly.domain.cron import parse_cron
from duly.domain.errors import Invalid
from duly.domain.imports import five_fields, walls
from duly.domain.imports.commands import fitting
from duly.domain.imports.draft import Decision, Draft, OldFires, cannot, name_of
from duly.domain.imports.five_fields import KUBERNETES, Expression
from duly.domain.imports.kubernetes_variables import Variables
from duly.domain.imports.timing import listed, schedule_of
from duly.domain.imports.walls import Again, Gap, Readings
from duly.domain.zones import load_zone

_ZONED = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)\Z", re.DOTALL)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|m|s|ms)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_OVERLAPS = {"Allow": "allow", "Forbid": "skip", "Replace": "kill_previous"}
_LONGEST_WINDOW = 31_622_400


def read(documents: Iterable[Any], *, zone: str, pool: str = "default") -> list[Draft]:
    """Every CronJob among the documents, in order; Lists are opened, and other kinds are passed over."""
    drafts: list[Draft] = []
    for document in _cron_jobs(documents):
        metadata = _table(document.get("metadata"))
        name, space = str(metadata.get("name") or "job"), metadata.get("namespace")
        where = f"CronJob {space}/{name}" if space else f"CronJob {name}"
        full = name_of(f"{space}/{name}" if space else name)
        spec = _table(document.get("spec"))
        source = str(spec.get("schedule", ""))
        try:
            drafts.append(_draft(full, where, source, spec, zone, pool))
        except ValueError as error:
            drafts.append(cannot(full, where, source, f"{error}."))
    return drafts


def _cron_jobs(documents: Iterable[Any]) -> Iterable[Mapping[str, Any]]:
    for document in documents:
        if not isinstance(document, Mapping):
            continue
        if document.get("kind") == "CronJob":
            yield document
        elif str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
            yield from _cron_jobs(document["items"])


def _draft(name: str, where: str, source: str, spec: Mapping[str, Any], zone: str, pool: str) -> Draft:
    decisions: list[Decision] = []
    notes: list[str] = []
    text = source.strip()
    if (match := _ZONED.match(text)) is not None:
        zone, text = match[1], match[2]
    elif spec.get("timeZone"):
        zone = str(spec["timeZone"])
    else:
        notes.append(f"It has no timeZone; the controller's own is taken to be {zone} (--tz says another).")
    body, old = _timing(text, zone)
    target, more = _target(spec, pool)
    body |= {"target": target, **_policies(spec, notes)}
    return Draft(
        name=name,
        where=where,
        source=source,
        body=body,
        decisions=(*decisions, *more),
        notes=tuple(notes),
        paused=spec.get("suspend") is True,
        old=old,
    )


def _timing(text: str, zone: str) -> tuple[dict[str, Any], OldFires]:
    if text.startswith("@every "):
        seconds = _duration(text.removeprefix("@every ").strip())

        def in_steps(after: int, until: int) -> list[int]:
            return walls.every(seconds, after, after, until)

        return {"intervalSec": seconds}, in_steps
    try:
        load_zone(zone)
    except Invalid as error:
        raise ValueError(f"timeZone: {error.message.rstrip('.')}") from error
    expression = five_fields.read(text, KUBERNETES)
    readings = Readings(expression.hours, expression.minutes, expression.is_day)

    def fires(after: int, until: int) -> list[int]:
        return walls.fires(readings, zone, Gap.NOTHING, Again.BOTH, after, until)

    return {**_written(text, expression), "timezone": zone, "dstGap": "skip", "dstOverlap": "both"}, fires


def _written(text: str, expression: Expression) -> dict[str, Any]:
    """The text as it stands where Duly reads the same in it; otherwise the same days, written so that they are."""
    if five_fields.read(text, five_fields.DULY).needs_both == expression.needs_both:
        try:
            parse_cron(text)
        except Invalid:
            pass
        else:
            return {"schedule": text}
    days = None if len(expression.days) == 31 else expression.days
    weekdays = None if len(expression.weekdays) == 7 else expression.weekdays
    if expression.needs_both or days is None or weekdays is None:
        every_day = not expression.needs_both and (days is None or weekdays is None)
        return schedule_of(
            minutes=expression.minutes,
            hours=expression.hours,
            days=None if every_day else days,
            months=None if len(expression.months) == 12 else expression.months,
            weekdays=None if every_day else weekdays,
        )
    fields = [
        listed(expression.minutes, 0, 59),
        listed(expression.hours, 0, 23),
        ",".join(map(str, sorted(expression.days))),
        listed(expression.months, 1, 12),
        ",".join(map(str, sorted(expression.weekdays))),
    ]
    return {"schedule": " ".join(fields)}


def _duration(text: str) -> float:
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"@every {text} is not understood")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    return max(1.0, float(int(seconds)))


def _policies(spec: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """How it overlaps, catches up, retries and ends."""
    policy = str(spec.get("concurrencyPolicy") or "Allow")
    if policy not in _OVERLAPS:
        raise ValueError(f"concurrencyPolicy {policy} is unknown")
    found: dict[str, Any] = {"overlap": _OVERLAPS[policy]}
    deadline = spec.get("startingDeadlineSeconds")
    if isinstance(deadline, int) and not isinstance(deadline, bool):
        found["catchUp"] = {"policy": "latest", "windowSec": min(max(deadline, 1), _LONGEST_WINDOW)}
        if deadline < 10:
            notes.append("With a startingDeadlineSeconds under 10 Kubernetes may never start it; here the window alone counts.")
    else:
        found["catchUp"] = "latest"
    job = _table(_table(spec.get("jobTemplate")).get("spec"))
    limit = job.get("backoffLimit", 6)
    retries = limit if isinstance(limit, int) and not isinstance(limit, bool) else 6
    found["retryPolicy"] = {
        "maxAttempts": min(retries + 1, 1000),
        "backoff": "EXPONENTIAL",
        "initialDelayMs": 10_000,
        "maxDelayMs": 360_000,
        "multiplier": 2.0,
    }
    seconds = job.get("activeDeadlineSeconds")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0:
        found["executionTimeoutSec"] = seconds
    for key in ("parallelism", "completions"):
        if isinstance(job.get(key), int) and job[key] > 1:
            notes.append(f"{key}: {job[key]} is not kept; a fire is one execution. Map the work over steps of a workflow instead.")
    return found


def _target(spec: Mapping[str, Any], pool: str) -> tuple[dict[str, Any], list[Decision]]:
    pod = _table(_table(_table(_table(spec.get("jobTemplate")).get("spec")).get("template")).get("spec"))
    containers = [_table(one) for one in pod.get("containers") or ()]
    if len(containers) != 1:
        raise ValueError(f"its pod has {len(containers)} containers, and a job runs one command")
    container = containers[0]
    given = [_table(one) for one in container.get("env") or ()]
    variables = Variables(given, has_sources=bool(container.get("envFrom")))
    argv = variables.expand([str(word) for word in [*(container.get("command") or ()), *(container.get("args") or ())]])
    image = str(container.get("image", "an image"))
    if not argv or not container.get("command"):
        raise ValueError(f"it runs what {image} starts by itself; name the command in the CronJob, and it can be imported")
    decisions = [
        Decision(
            "image", f"It runs in the image {image}; here a worker runs the command. Accept it if the pool's workers have the programs."
        )
    ]
    if pod.get("initContainers"):
        decisions.append(Decision("init", "It has initContainers, which are not kept. Accept that, or make them steps of a workflow."))
    env, unfit = fitting(variables.literal)
    if unfit or container.get("envFrom") or any(one.get("valueFrom") is not None for one in given):
        decisions.append(
            Decision(
                "env", "Some of its variables come from Secrets or ConfigMaps. Accept that they are missing, or give them as ${secret:…}."
            )
        )
    if variables.missing:
        used = ", ".join(f"$({name})" for name in variables.missing)
        question = (
            f"Kubernetes puts the values of {used[:200]} into its command or variables, and they are not in the manifest. Accept that"
        )
        decisions.append(Decision("variables", f"{question} the text stays as it is, and write the value or ${{secret:…}} in its place."))
    if pod.get("volumes"):
        decisions.append(Decision("volumes", "It mounts volumes. Accept it if the pool's workers have the same files."))
    return {"pool": pool, "shell": argv} | ({"env": env} if env else {}), decisions


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
