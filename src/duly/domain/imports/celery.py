"""Celery beat: `beat_schedule` and `add_periodic_task`, read from the source and never run.

In crontab(...) day_of_month and day_of_week must both match. Beat reckons on the wall clock of its zone: of the times that the
clocks jump over the first is as much later, and what they show twice runs at the first, stars or not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import Any

from duly.domain.errors import Invalid
from duly.domain.imports import walls
from duly.domain.imports.draft import Decision, Draft, OldFires, cannot, name_of
from duly.domain.imports.literals import Called, NotLiteral, Reference, constants, dotted, parse, value_of
from duly.domain.imports.timing import schedule_of
from duly.domain.imports.walls import Again, Gap, Readings
from duly.domain.zones import load_zone

_TABLES = frozenset({"beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE"})
_ZONES = frozenset({"timezone", "CELERY_TIMEZONE"})
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FIELDS = {"minute": (0, 59), "hour": (0, 23), "day_of_week": (0, 6), "day_of_month": (1, 31), "month_of_year": (1, 12)}
POSITIONAL = Decision("args", 'It passes arguments by position. Accept {"args": […]} as its payload, or name them.')


def read(source: str, *, zone: str | None = None, pool: str | None = None) -> list[Draft]:
    """Every entry that the source declares, in order; what is not literal is there too, with the line that says so."""
    tree = parse(source)
    known = constants(tree)
    zone = zone or _zone(tree, known)
    drafts: list[Draft] = []
    for line, table in _tables(tree):
        if not isinstance(table, ast.Dict):
            drafts.append(
                cannot("beat_schedule", f"line {line}", ast.unparse(table)[:200], "The schedule is not written as a literal dictionary.")
            )
            continue
        for key, value in zip(table.keys, table.values, strict=True):
            where = f"line {value.lineno}"
            text = ast.unparse(value)[:300]
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                drafts.append(cannot("beat_schedule", where, text, "Its name is not a literal."))
                continue
            try:
                drafts.append(_entry(key.value, where, text, value_of(value, known), zone, pool))
            except ValueError as error:
                drafts.append(cannot(key.value, where, text, f"{error}."))
    for node in _calls(tree):
        where, text = f"line {node.lineno}", ast.unparse(node)[:300]
        try:
            drafts.append(_periodic(node, where, text, known, zone, pool))
        except ValueError as error:
            drafts.append(cannot("add_periodic_task", where, text, f"{error}."))
    return drafts


def _zone(tree: ast.Module, known: Mapping[str, ast.expr]) -> str:
    """The zone that the configuration names; Celery's own default is UTC."""
    for name, node in _settings(tree):
        if name in _ZONES:
            value = value_of(node, known)
            if isinstance(value, str):
                return value
    return "UTC"


def _settings(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Each assignment and each keyword of a `.conf.update(…)`, by the last part of its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name | ast.Attribute):
                    yield (target.id if isinstance(target, ast.Name) else target.attr), node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update":
            yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg)
            for argument in node.args:
                if isinstance(argument, ast.Dict):
                    pairs = zip(argument.keys, argument.values, strict=True)
                    yield from ((key.value, value) for key, value in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str))


def _tables(tree: ast.Module) -> Iterator[tuple[int, ast.expr]]:
    for name, node in _settings(tree):
        if name in _TABLES:
            yield node.lineno, node


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_periodic_task":
            yield node


def _periodic(node: ast.Call, where: str, text: str, known: Mapping[str, ast.expr], zone: str, pool: str | None) -> Draft:
    """`add_periodic_task(schedule, signature, name=…)`."""
    named = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    if len(node.args) < 2:
        raise NotLiteral("it has no schedule and signature by position")
    signature = node.args[1]
    if not isinstance(signature, ast.Call) or not isinstance(signature.func, ast.Attribute) or signature.func.attr not in ("s", "si"):
        raise NotLiteral("its task is not written as task.s(…)")
    task = dotted(signature.func.value)
    entry = {
        "task": task,
        "schedule": value_of(node.args[0], known),
        "args": [value_of(argument, known) for argument in signature.args],
        "kwargs": {keyword.arg: value_of(keyword.value, known) for keyword in signature.keywords},
    }
    name = value_of(named["name"], known) if "name" in named else task
    return _entry(str(name), where, text, entry, zone, pool)


def _entry(name: str, where: str, text: str, entry: Any, zone: str, pool: str | None) -> Draft:
    if not isinstance(entry, dict) or not isinstance(entry.get("task"), str):
        raise NotLiteral("it names no task")
    decisions: list[Decision] = []
    notes: list[str] = []
    timing, old = _timing(entry.get("schedule"), zone)
    options = entry.get("options")
    options = options if isinstance(options, dict) else {}
    queue = options.get("queue")
    if isinstance(queue, str) and pool is None:
        notes.append(f"The queue {queue} becomes the pool {name_of(queue)}.")
    if "expires" in options:
        notes.append("options.expires is not kept; execution_timeout_sec ends what takes too long.")
    args, kwargs = entry.get("args") or [], entry.get("kwargs") or {}
    payload: Any = kwargs or None
    if args:
        decisions.append(POSITIONAL)
        payload = {"args": args, **kwargs}
    if not is_plain(payload):
        raise NotLiteral("its arguments are not literals")
    body: dict[str, Any] = {
        **timing,
        "target": {"pool": pool or (name_of(queue) if isinstance(queue, str) else "default"), "handler": name_of(entry["task"])},
        # Beat sends a message and looks no further: runs overlap, and what an outage swallowed comes once.
        "overlap": "allow",
        "catchUp": "latest",
        # A task is tried once unless it says otherwise, and that is said where the task is, not here.
        "retryPolicy": {"maxAttempts": 1},
    }
    if payload is not None:
        body["payload"] = payload
    notes.append("It is tried once, as a plain task is: what autoretry_for or self.retry did in the task belongs into retry_policy.")
    notes.append(f"A worker must offer the handler {name_of(entry['task'])}: @app.job(name=…) above the function.")
    return Draft(name=name_of(name), where=where, source=text, body=body, decisions=tuple(decisions), notes=tuple(notes), old=old)


def _timing(schedule: Any, zone: str) -> tuple[dict[str, Any], OldFires]:
    if isinstance(schedule, Called) and schedule.name.rsplit(".", 1)[-1] == "schedule":
        schedule = schedule.named.get("run_every", schedule.positional[0] if schedule.positional else None)
    if isinstance(schedule, timedelta):
        schedule = schedule.total_seconds()
    if isinstance(schedule, int | float) and not isinstance(schedule, bool):
        if schedule < 1:
            raise ValueError("it runs more than once a second")
        seconds = float(schedule)

        def in_steps(after: int, until: int) -> list[int]:
            return walls.every(seconds, after, after, until)

        return {"intervalSec": seconds}, in_steps
    if isinstance(schedule, Called):
        kind = schedule.name.rsplit(".", 1)[-1]
        if kind == "crontab":
            return _crontab(schedule, zone)
        if kind == "solar":
            raise ValueError("solar(…) follows the sun; there is no schedule for that here")
        raise NotLiteral(f"its schedule {schedule.text[:60]} is not known")
    if isinstance(schedule, Reference):
        raise NotLiteral(f"its schedule {schedule.name} is made elsewhere")
    raise NotLiteral("it has no schedule that is literal")


def _crontab(call: Called, zone: str) -> tuple[dict[str, Any], OldFires]:
    given = dict(zip(("minute", "hour", "day_of_week", "day_of_month", "month_of_year"), call.positional, strict=False)) | dict(call.named)
    for key in sorted(given.keys() - _FIELDS.keys()):
        raise NotLiteral(f"crontab({key}=…) is not known")
    sets = {key: _values(given.get(key, "*"), key) for key in _FIELDS}
    try:
        load_zone(zone)
    except Invalid as error:
        raise ValueError(error.message.rstrip(".")) from error
    days = None if len(sets["day_of_month"]) == 31 else sets["day_of_month"]
    months = None if len(sets["month_of_year"]) == 12 else sets["month_of_year"]
    weekdays = None if len(sets["day_of_week"]) == 7 else sets["day_of_week"]
    body = schedule_of(minutes=sets["minute"], hours=sets["hour"], days=days, months=months, weekdays=weekdays)

    def is_day(day: date) -> bool:
        return day.day in sets["day_of_month"] and day.month in sets["month_of_year"] and day.isoweekday() % 7 in sets["day_of_week"]

    readings = Readings(sets["hour"], sets["minute"], is_day)

    def fires(after: int, until: int) -> list[int]:
        return walls.fires(readings, zone, Gap.FIRST_LATER, Again.FIRST, after, until)

    return {**body, "timezone": zone, "dstGap": "shift", "dstOverlap": "first"}, fires


def _values(given: Any, key: str) -> frozenset[int]:
    low, high = _FIELDS[key]
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    if isinstance(given, list | set):
        found = frozenset(value for item in given for value in _values(item, key))
    elif isinstance(given, str):
        found = frozenset(value for item in given.split(",") for value in _part(item.strip().lower(), key, low, high))
    else:
        raise NotLiteral(f"crontab({key}=…) is not a literal")
    if not found or not all(low <= value <= high for value in found):
        raise ValueError(f"crontab({key}={given!r}) is out of range")
    return found


def _part(item: str, key: str, low: int, high: int) -> list[int]:
    span, slash, step_text = item.partition("/")
    step = int(step_text) if slash and step_text.isdigit() and int(step_text) else 1
    if slash and not step_text.isdigit():
        raise ValueError(f"crontab({key}={item!r}) is not understood")
    if span == "*":
        return list(range(low, high + 1, step))
    first, dash, last = span.partition("-")
    start = _number(first, key)
    if not dash:
        if slash:
            raise ValueError(f"crontab({key}={item!r}) has a step without a range, which Celery does not take")
        return [start]
    end = _number(last, key)
    values = list(range(start, end + 1)) if start <= end else [*range(start, high + 1), *range(low, end + 1)]
    return values[::step]


def _number(text: str, key: str) -> int:
    names = _DAYS if key == "day_of_week" else _MONTHS if key == "month_of_year" else ()
    if text[:3] in names:
        return names.index(text[:3]) + (1 if names is _MONTHS else 0)
    if not text.isascii() or not text.isdigit() or len(text) > 2:
        raise ValueError(f"crontab({key}={text!r}) is not understood")
    return int(text)


def is_plain(value: Any) -> bool:
    """Whether it is JSON."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or isinstance(value, str | int | float | bool)
