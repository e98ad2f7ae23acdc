"""APScheduler 3: `add_job(…)` and `@scheduled_job(…)`, read from the source and never run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from duly.domain.errors import Invalid
from duly.domain.imports import apscheduler_fields as fields
from duly.domain.imports import walls
from duly.domain.imports.apscheduler_fields import CronTrigger
from duly.domain.imports.celery import POSITIONAL, is_plain
from duly.domain.imports.draft import Decision, Draft, OldFires, cannot, name_of
from duly.domain.imports.literals import Called, NotLiteral, Reference, constants, dotted, parse, value_of
from duly.domain.zones import load_zone

_PARTS = ("weeks", "days", "hours", "minutes", "seconds")
_ADD_JOB = ("func", "trigger", "args", "kwargs", "id", "name", "misfire_grace_time", "coalesce", "max_instances", "next_run_time")
_SCHEDULED_JOB = ("trigger", "args", "kwargs", "id", "name", "misfire_grace_time", "coalesce", "max_instances", "next_run_time")
_ELSEWHERE = frozenset({"jobstore", "executor", "replace_existing"})


@dataclass(frozen=True, slots=True)
class _Defaults:
    """What the scheduler says for all its jobs."""

    zone: str
    jobs: Mapping[str, Any] = field(default_factory=dict)


def read(source: str, *, zone: str, pool: str | None = None) -> list[Draft]:
    """Every job that the source declares, in order; what is not literal is there too, with the line that says so."""
    tree = parse(source)
    known = constants(tree)
    defaults = _defaults(tree, known, zone)
    drafts: list[Draft] = []
    for node, function in _declared(tree):
        where, text = f"line {node.lineno}", ast.unparse(node)[:300]
        name = function or _identity(node)
        try:
            drafts.append(_draft(node, function, where, text, known, defaults, pool))
        except ValueError as error:
            drafts.append(cannot(name, where, text, f"{error}."))
    return drafts


def _defaults(tree: ast.Module, known: Mapping[str, ast.expr], zone: str) -> _Defaults:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rsplit(".", 1)[-1].endswith("Scheduler"):
            given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
            found: dict[str, Any] = {}
            for key in ("timezone", "job_defaults"):
                if key in given:
                    value = value_of(given[key], known)
                    found[key] = value
            jobs = found.get("job_defaults")
            return _Defaults(_zone(found.get("timezone"), zone), jobs if isinstance(jobs, dict) else {})
    return _Defaults(zone)


def _declared(tree: ast.Module) -> Iterator[tuple[ast.Call, str | None]]:
    """Each call of add_job, and each decorator with the function below it, in the order of the source."""
    found: list[tuple[ast.Call, str | None]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found += [
                (decorator, node.name)
                for decorator in node.decorator_list
                if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Attribute) and decorator.func.attr == "scheduled_job"
            ]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_job":
            found.append((node, None))
    yield from sorted(found, key=lambda one: one[0].lineno)


def _draft(
    node: ast.Call, function: str | None, where: str, text: str, known: Mapping[str, ast.expr], defaults: _Defaults, pool: str | None
) -> Draft:
    if any(isinstance(argument, ast.Starred) for argument in node.args) or any(keyword.arg is None for keyword in node.keywords):
        raise NotLiteral("* and ** take in what stands elsewhere")
    order = _ADD_JOB if function is None else _SCHEDULED_JOB
    given: dict[str, Any] = {}
    for key, argument in zip(order, node.args, strict=False):
        given[key] = _function(argument, known) if key == "func" else value_of(argument, known)
    for keyword in node.keywords:
        if keyword.arg is not None:
            given[keyword.arg] = _function(keyword.value, known) if keyword.arg == "func" else value_of(keyword.value, known)
    handler = function or given.pop("func", None)
    if not isinstance(handler, str):
        raise NotLiteral("its function is not a name")
    for key in _ELSEWHERE:
        given.pop(key, None)
    settings = {key: given.pop(key, defaults.jobs.get(key)) for key in ("misfire_grace_time", "coalesce", "max_instances")}
    has_grace = "misfire_grace_time" in defaults.jobs or settings["misfire_grace_time"] is not None
    identity, label = given.pop("id", None), given.pop("name", None)
    args, kwargs = given.pop("args", None) or [], given.pop("kwargs", None) or {}
    if given.pop("next_run_time", None) is not None:
        raise NotLiteral("next_run_time moves its first run; give it a start_date instead")
    timing, old, notes = _timing(given.pop("trigger", None), given, defaults.zone)
    decisions: list[Decision] = [POSITIONAL] if args else []
    payload: Any = {"args": args, **kwargs} if args else (kwargs or None)
    if not is_plain(payload):
        raise NotLiteral("its arguments are not literals")
    short = name_of(handler)
    body: dict[str, Any] = {
        **timing,
        "target": {"pool": pool or "default", "handler": short},
        **_policies(settings, has_grace),
        "retryPolicy": {"maxAttempts": 1},
    }
    if payload is not None:
        body["payload"] = payload
    notes.append(f"A worker must offer the handler {short}: @app.job(name=…) above the function.")
    name = next((value for value in (identity, label) if isinstance(value, str) and value), short.rsplit(".", 1)[-1].rsplit(":", 1)[-1])
    return Draft(name=name_of(name), where=where, source=text, body=body, decisions=tuple(decisions), notes=tuple(notes), old=old)


def _identity(node: ast.Call) -> str:
    """The id of a job whose other arguments cannot be read."""
    for keyword in node.keywords:
        if keyword.arg == "id" and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str):
            return keyword.value.value
    return "job"


def _function(node: ast.expr, known: Mapping[str, ast.expr]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name) and node.id in known:
        return _function(known[node.id], {})
    return dotted(node)


def _policies(settings: Mapping[str, Any], has_grace: bool) -> dict[str, Any]:
    most = settings["max_instances"]
    most = most if isinstance(most, int) and not isinstance(most, bool) and most > 1 else 1
    found: dict[str, Any] = {"overlap": "skip"} if most == 1 else {"overlap": "allow", "maxRunning": min(most, 1000)}
    policy = "all" if settings["coalesce"] is False else "latest"
    grace = settings["misfire_grace_time"]
    if not has_grace:
        # A second of grace is what APScheduler gives when nobody says otherwise.
        found["catchUp"] = "none"
    elif isinstance(grace, int) and not isinstance(grace, bool):
        found["catchUp"] = {"policy": policy, "windowSec": min(max(grace, 1), 31_622_400)}
    else:
        found["catchUp"] = policy
    return found


def _timing(trigger: Any, given: dict[str, Any], default_zone: str) -> tuple[dict[str, Any], OldFires, list[str]]:
    """By the trigger's name with its fields beside it, or by a trigger that is made in place."""
    if isinstance(trigger, Called):
        kind = trigger.name.rsplit(".", 1)[-1]
        if kind == "from_crontab":
            if not trigger.positional or not isinstance(trigger.positional[0], str):
                raise NotLiteral("from_crontab(…) has no literal expression")
            zone = _zone(trigger.named.get("timezone"), default_zone)
            note = "from_crontab counts weekdays from Monday (0) and asks for both kinds of days; the job fires as APScheduler did."
            body, old = _cron(fields.from_crontab(trigger.positional[0]), {}, zone)
            return body, old, [note]
        names = {"CronTrigger": "cron", "IntervalTrigger": "interval", "DateTrigger": "date"}
        if kind not in names:
            raise ValueError(f"the trigger {kind} has no equal here")
        order = {"cron": fields.FIELDS, "interval": _PARTS, "date": ("run_date", "timezone")}[names[kind]]
        given = {**dict(zip(order, trigger.positional, strict=False)), **trigger.named}
        trigger = names[kind]
    zone = _zone(given.pop("timezone", None), default_zone)
    dates = ("start_date", "end_date", "run_date")
    if any(isinstance(value, Called | Reference) for key, value in given.items() if key not in dates):
        raise NotLiteral("a field of its trigger is not a literal")
    match trigger:
        case "cron":
            bounds = {key: given.pop(key) for key in ("start_date", "end_date", "jitter") if given.get(key) is not None}
            _refuse_others(given, fields.FIELDS)
            body, old = _cron(fields.read(given), bounds, zone)
            return body, old, []
        case "interval":
            body, old = _interval(given, zone)
            return body, old, []
        case "date" | None:
            if given.get("run_date") is None:
                raise ValueError("it runs at once, when the program starts: enqueue it there")
            at = _instant(given["run_date"], zone)
            return {"runAt": _shown(at)}, lambda after, until: [at] if after < at <= until else [], []
        case str():
            raise ValueError(f"the trigger {trigger!r} has no equal here")
        case _:
            raise NotLiteral("its trigger is not a literal")


def _cron(trigger: CronTrigger, bounds: Mapping[str, Any], zone: str) -> tuple[dict[str, Any], OldFires]:
    body = {**trigger.timing(), "timezone": zone, "dstGap": "shift", "dstOverlap": "both"}
    start = _instant(bounds["start_date"], zone) if "start_date" in bounds else None
    end = _instant(bounds["end_date"], zone) if "end_date" in bounds else None
    if trigger.years is not None:
        first, last = min(trigger.years), max(trigger.years)
        if len(trigger.years) != last - first + 1:
            raise ValueError("it names years that do not follow one another")
        start = max(start or 0, _instant(f"{first}-01-01", zone))
        end = min(end if end is not None else 1 << 60, _instant(f"{last + 1}-01-01", zone) - 1)
    if start is not None:
        body["startAt"] = _shown(start)
    if end is not None:
        body["endAt"] = _shown(end)
    if bounds.get("jitter"):
        body["jitterSec"] = bounds["jitter"]

    def fires(after: int, until: int) -> list[int]:
        low, high = max(after, (start or 0) - 1), until if end is None else min(until, end)
        return trigger.fires(zone, low, high) if low < high else []

    return body, fires


def _interval(given: dict[str, Any], zone: str) -> tuple[dict[str, Any], OldFires]:
    start, end, jitter = given.pop("start_date", None), given.pop("end_date", None), given.pop("jitter", None)
    _refuse_others(given, _PARTS)
    if not all(isinstance(value, int | float) for value in given.values()):
        raise NotLiteral("its interval is not a number")
    seconds = timedelta(**given).total_seconds() or 1.0
    if seconds < 1:
        raise ValueError("it runs more than once a second")
    anchor = None if start is None else _instant(start, zone)
    last = None if end is None else _instant(end, zone)
    body: dict[str, Any] = {"intervalSec": seconds}
    if anchor is not None:
        body |= {"anchorAt": _shown(anchor), "startAt": _shown(anchor)}
    if last is not None:
        body["endAt"] = _shown(last)
    if jitter:
        body["jitterSec"] = jitter

    def fires(after: int, until: int) -> list[int]:
        return walls.every(seconds, after if anchor is None else anchor, after, until if last is None else min(until, last))

    return body, fires


def _refuse_others(given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in sorted(given.keys() - set(known)):
        raise ValueError(f"{key} is not known")


def _zone(value: Any, otherwise: str) -> str:
    """A zone by name, or made in place from a literal name."""
    if isinstance(value, Called) and value.positional and isinstance(value.positional[0], str):
        value = value.positional[0]
    if isinstance(value, Reference) and value.name.rsplit(".", 1)[-1].lower() == "utc":
        value = "UTC"
    if value is None:
        value = otherwise
    if not isinstance(value, str):
        raise NotLiteral("its zone is not a literal")
    try:
        load_zone(value)
    except Invalid as error:
        raise ValueError(error.message.rstrip(".")) from error
    return value


def _instant(value: Any, zone: str) -> int:
    """A time on the zone's clock, or with an offset of its own, as seconds since 1970."""
    if isinstance(value, Called) and value.name.rsplit(".", 1)[-1] in ("datetime", "date") and not value.named:
        numbers = [part for part in value.positional if isinstance(part, int)]
        if len(numbers) != len(value.positional) or not 3 <= len(numbers) <= 6:
            raise NotLiteral("its time is not a literal")
        moment = datetime(*(numbers + [0] * (6 - len(numbers)))[:6], tzinfo=UTC)  # type: ignore[misc, arg-type]
        naive = True
    elif isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError as error:
            raise ValueError(f"{value!r} is not a time") from error
        naive = moment.tzinfo is None
        moment = moment.replace(tzinfo=UTC) if naive else moment
    else:
        raise NotLiteral("its time is not a literal")
    second = int(moment.timestamp())
    if not naive:
        return second
    found = walls.instants_of(second, zone)
    if not found:
        raise ValueError(f"{value} does not exist in {zone}")
    return found[0]


def _shown(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")
