"""Definitions of jobs in TOML: snake_case names as in Python, or the API's, with short forms for what is written most.

[[jobs]]
name = "pg-backup"
cron = "H 3 * * *"                      # or rrule, every = "15m", at = 2026-12-01T09:00:00Z
tz = "Europe/Berlin"
shell = ["pg_dump", "-Fc", "shop"]      # or handler = "…", http = { url = "https://…" }
timeout = "1h"
retry = 5
alert = { missed_after = "15m", to = ["ops"] }
paused = true                           # when it is made; afterwards nobody's pause is touched
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from duly.cli.errors import Several, did_you_mean
from duly.domain.durations import parse_duration
from duly.domain.errors import DulyError, Invalid
from duly.domain.instants import SECOND
from duly.wire.jobs import JobShape

LARGEST_FILE = 16 << 20
# What is the user's own: nothing in it is a name of ours.
_OPAQUE = frozenset({"payload", "env", "headers", "requires", "inputs", "body"})
_TARGET = ("pool", "handler", "http", "shell", "requires", "env")
_SECONDS = {
    "every": "intervalSec",
    "jitter": "jitterSec",
    "timeout": "timeoutSec",
    "execution_timeout": "executionTimeoutSec",
    "heartbeat_timeout": "heartbeatTimeoutSec",
    "stop_grace": "stopGraceSec",
    "kill_grace": "killGraceSec",
}
_OF_ALERTS = {
    "late_after": "lateAfterSec",
    "missed_after": "missedAfterSec",
    "overrun_after": "overrunAfterSec",
    "no_success_in": "noSuccessInSec",
    "grace": "graceSec",
}
_RENAMED = {"cron": "schedule", "tz": "timezone", "at": "runAt", "retry": "retryPolicy"}
_KNOWN = [
    *(field.name for field in msgspec.structs.fields(JobShape)),
    *_TARGET,
    *_SECONDS,
    *_OF_ALERTS,
    *_RENAMED,
    "rrule",
    "paused",
]


class Definition(NamedTuple):
    """One job: its name, as it is sent, and whether it is made paused."""

    name: str
    body: dict[str, Any]
    paused: bool
    shape: JobShape
    where: str


def read(path: Path) -> list[Definition]:
    """The jobs of a file, each in its shape. Raises Invalid: DULY-E604 for the file, Several for the jobs in it."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise Invalid("DULY-E604", f"{path} is larger than 16 MB.")
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Invalid("DULY-E604", f"{path} cannot be read: {error}.") from error
    listed = [*_tables(tables, "jobs"), *_tables(tables, "job")]
    if not listed or set(tables) - {"jobs", "job"}:
        raise Invalid(
            "DULY-E604", f"{path} has no [[jobs]], or something else beside them.", hint="docs/how-to/definitions.md has an example."
        )
    found: list[Definition] = []
    faults: list[DulyError] = []
    for table in listed:
        try:
            found.append(definition(table, str(path)))
        except DulyError as fault:
            faults.append(fault)
    if faults:
        raise Several(faults)
    names = [one.name for one in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Invalid("DULY-E604", f"{path}: {', '.join(twice)} is there twice.", hint="Jobs are found again by their names.")
    return found


def definition(table: Mapping[str, Any], where: str) -> Definition:
    """One job of a file."""
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise Invalid("DULY-E604", f"{where}: a job without a name.", hint="Jobs are found again by their names.")
    body = _body(dict(table), f"{where}: {name}")
    paused = body.pop("paused", False)
    if not isinstance(paused, bool):
        raise Invalid("DULY-E106", f"{where}: {name}: paused is true or false.")
    try:
        shape = msgspec.json.decode(msgspec.json.encode(body), type=JobShape)
    except msgspec.ValidationError as error:
        raise Invalid("DULY-E106", f"{where}: {name}: {error}.", hint=_suggestion(str(error))) from error
    return Definition(name, body, paused, shape, where)


def _tables(document: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = document.get(key, [])
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        return value
    raise Invalid("DULY-E604", f"{key} must be written as [[{key}]], once for each of them.")


def _body(table: dict[str, Any], where: str) -> dict[str, Any]:
    """A table as the API takes it."""
    target = {key: table.pop(key) for key in _TARGET if key in table}
    body: dict[str, Any] = {}
    for key, value in table.items():
        if key in _SECONDS and not isinstance(value, dict):
            body[_SECONDS[key]] = _seconds(value, f"{where}: {key}")
        elif key == "rrule":
            body |= {"type": "RRULE", "schedule": value}
        elif key == "retry" and isinstance(value, int):
            body["retryPolicy"] = {"maxAttempts": value}
        elif key == "alert" and isinstance(value, dict):
            body["alert"] = _alert(value, f"{where}: alert")
        else:
            body[_RENAMED.get(key) or _camel(key)] = value if key in _OPAQUE else _renamed(value)
    if target:
        if "target" in body:
            raise Invalid("DULY-E106", f"{where}: {next(iter(target))} stands beside target.", hint="Write it into the target.")
        body["target"] = {key: value if key in _OPAQUE else _renamed(value) for key, value in target.items()}
    return body


def _alert(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The alert of a job: durations in words, one channel or several."""
    body: dict[str, Any] = {}
    for key, value in table.items():
        if key in _OF_ALERTS:
            body[_OF_ALERTS[key]] = _seconds(value, f"{where}.{key}")
        else:
            body[_camel(key)] = [value] if key == "to" and isinstance(value, str) else _renamed(value)
    return body


def _renamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {_camel(key): one if key in _OPAQUE else _renamed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one) for one in value]
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def snake(name: str) -> str:
    """A name of the API as TOML has it."""
    return re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name)


def _seconds(value: Any, field: str) -> float:
    if not isinstance(value, str | int | float):
        raise Invalid("DULY-E106", f"{field}: is not a duration.", hint='For example "90s", "15m" or "1h30m".')
    try:
        seconds = parse_duration(value, field=field) / SECOND
    except DulyError as error:
        raise Invalid("DULY-E106", f"{field}: {error.message}", hint=error.hint) from error
    return int(seconds) if seconds.is_integer() else seconds


def _suggestion(message: str) -> str | None:
    unknown = re.search(r"unknown field `(\w+)`", message)
    return None if unknown is None else did_you_mean(snake(unknown[1]), _KNOWN)


# ---------------------------------------------------------------- written


def written(bodies: list[tuple[dict[str, Any], bool, tuple[str, ...]]]) -> str:
    """Jobs as a file that `read` reads: each with its body, whether it is made paused, and remarks that stand above it."""
    parts: list[str] = []
    for body, paused, remarks in bodies:
        lines = [*(f"# {line}" for remark in remarks for line in remark.splitlines()), "[[jobs]]"]
        lines += [f"{snake(key)} = {_toml(value, key in _OPAQUE)}" for key, value in body.items() if value is not None]
        lines += ["paused = true"] if paused else []
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _toml(value: Any, opaque: bool = False) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() else repr(value)
        case str():
            # A JSON string is a basic string of TOML, once DEL is written out too.
            return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
        case datetime() | date():
            return value.isoformat()
        case Mapping():
            pairs = (
                f"{_key(key if opaque else snake(key))} = {_toml(one, opaque or key in _OPAQUE)}"
                for key, one in value.items()
                if one is not None
            )
            return "{ " + ", ".join(pairs) + " }" if value else "{}"
        case _:
            return "[" + ", ".join(_toml(one, opaque) for one in value) + "]"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else msgspec.json.encode(name).decode()
