"""systemd timers with the services that they start."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from duly.domain.imports import walls
from duly.domain.imports.commands import SHELL, fitting
from duly.domain.imports.draft import Decision, Draft, OldFires, cannot, name_of
from duly.domain.imports.systemd_calendar import Calendar, span
from duly.domain.imports.systemd_calendar import read as read_calendar

Unit = Mapping[str, Mapping[str, list[str]]]
_MONOTONIC = ("OnActiveSec", "OnBootSec", "OnStartupSec")
_LONGEST_TIMEOUT = 604_800


def parse_unit(text: str) -> dict[str, dict[str, list[str]]]:
    """Sections and settings of a unit file; a setting may stand several times, and an empty one forgets those before it."""
    sections: dict[str, dict[str, list[str]]] = {}
    section = sections.setdefault("", {})
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        if stripped.startswith("[") and stripped.endswith("]"):
            section = sections.setdefault(stripped[1:-1], {})
            continue
        key, sign, value = stripped.partition("=")
        if sign:
            section[key.strip()] = [*section.get(key.strip(), ()), value.strip()] if value.strip() else []
    return sections


def service_of(timer: Unit, name: str) -> str:
    """The unit that a timer starts: the one that it names, or the service of its own name."""
    return _last(timer.get("Timer", {}), "Unit") or f"{name.removesuffix('.timer')}.service"


def read(timer: Unit, service: Unit | None, *, name: str, zone: str, pool: str = "default") -> list[Draft]:
    """A draft for each schedule of a timer. `service` is None when its file was not found."""
    table = timer.get("Timer", {})
    label = name_of(name.removesuffix(".timer"))
    unit = service_of(timer, name)
    calendars = table.get("OnCalendar", [])
    sources = [f"OnCalendar={text}" for text in calendars]
    steps = _last(table, "OnUnitActiveSec") or _last(table, "OnUnitInactiveSec")
    if steps is not None:
        sources.append(f"{'OnUnitActiveSec' if _last(table, 'OnUnitActiveSec') else 'OnUnitInactiveSec'}={steps}")
    if not sources:
        given = next((key for key in _MONOTONIC if table.get(key)), None)
        reason = f"{given} counts from a boot or a start, which a fleet has not." if given else "It names no time."
        return [cannot(label, name, f"{given}={_last(table, given)}" if given else "", reason)]
    drafts: list[Draft] = []
    for nth, source in enumerate(sources):
        try:
            target, decisions, notes = _target(service, unit, pool)
            timing, old = _timing(source, table, zone)
        except ValueError as error:
            drafts.append(cannot(label, name, source, f"{error}."))
            continue
        policies, more, remarks = _policies(table, service, source)
        if nth == 0 and steps is not None and any(table.get(key) for key in _MONOTONIC):
            remarks.append("Its first run after a boot is not kept; it runs at its own distance from when the job is made.")
        drafts.append(
            Draft(
                name=label,
                where=name,
                source=source,
                body={**timing, "target": target, **policies},
                decisions=(*decisions, *more),
                notes=(*notes, *remarks),
                old=old,
            )
        )
    return drafts


def _timing(source: str, table: Mapping[str, list[str]], zone: str) -> tuple[dict[str, Any], OldFires]:
    key, _, text = source.partition("=")
    delay = span(_last(table, "RandomizedDelaySec") or "0")
    jitter: dict[str, Any] = {"jitterSec": min(delay, 86_400)} if delay else {}
    if key == "OnCalendar":
        calendar: Calendar = read_calendar(text)

        def elapses(after: int, until: int) -> list[int]:
            return calendar.fires(zone, after, until)

        return {**calendar.timing(zone), **jitter}, elapses
    seconds = span(text)
    if seconds < 1:
        raise ValueError("it runs more than once a second")

    def in_steps(after: int, until: int) -> list[int]:
        return walls.every(seconds, after, after, until)

    return {"intervalSec": seconds, **jitter}, in_steps


def _policies(table: Mapping[str, list[str]], service: Unit | None, source: str) -> tuple[dict[str, Any], list[Decision], list[str]]:
    notes: list[str] = []
    decisions: list[Decision] = []
    persistent = (_last(table, "Persistent") or "no").lower() in ("yes", "true", "1", "on")
    found: dict[str, Any] = {"overlap": "skip", "catchUp": "latest" if persistent else "none"}
    accuracy = span(_last(table, "AccuracySec") or "60")
    if accuracy > 1:
        notes.append(f"systemd may elapse up to {accuracy:g} s later (AccuracySec); Duly does not wait.")
    if span(_last(table, "RandomizedDelaySec") or "0"):
        notes.append("RandomizedDelaySec becomes jitter: a delay that is the same for the same fire, here and in every preview.")
    if source.startswith("OnUnitInactiveSec"):
        decisions.append(
            Decision("inactive", "It counts from the end of the run before. Accept a distance from start to start, skipped while one runs.")
        )
    if (_last(table, "WakeSystem") or "no").lower() in ("yes", "true"):
        notes.append("WakeSystem is not kept: nothing here wakes a machine.")
    settings = (service or {}).get("Service", {})
    timeout = _last(settings, "TimeoutStartSec") or _last(settings, "RuntimeMaxSec") or "infinity"
    if timeout.lower() not in ("infinity", "0"):
        found["timeoutSec"] = min(span(timeout), _LONGEST_TIMEOUT)
    restart = _last(settings, "Restart") or "no"
    if restart in ("no", "always", "on-success"):
        found["retryPolicy"] = {"maxAttempts": 1}
    else:
        burst = _last((service or {}).get("Unit", {}), "StartLimitBurst") or "5"
        delay = span(_last(settings, "RestartSec") or "0.1")
        found["retryPolicy"] = {
            "maxAttempts": max(1, min(int(burst), 1000)) if burst.isdigit() else 5,
            "backoff": "FIXED",
            "initialDelayMs": max(100, round(delay * 1000)),
        }
        notes.append(f"Restart={restart} becomes retries at a fixed distance.")
    return found, decisions, notes


def _target(service: Unit | None, unit: str, pool: str) -> tuple[dict[str, Any], list[Decision], list[str]]:
    if service is None:
        raise ValueError(f"{unit} was not found beside it, so nothing says what to run")
    settings = service.get("Service", {})
    commands = settings.get("ExecStart", [])
    if not commands:
        raise ValueError(f"{unit} has no ExecStart")
    decisions: list[Decision] = []
    notes: list[str] = []
    words = [_argv(command) for command in commands]
    if any("%" in word.replace("%%", "") for argv in words for word in argv):
        raise ValueError("its command has specifiers (%i, %h, …) that only systemd fills in")
    words = [[word.replace("%%", "%") for word in argv] for argv in words]
    if len(words) == 1 and not any("$" in word for word in words[0]):
        argv = words[0]
    else:
        argv = ["/bin/sh", "-c", " && ".join(" ".join(word if "$" in word else shlex.quote(word) for word in one) for one in words)]
        decisions.append(SHELL)
    if settings.get("ExecStartPre") or settings.get("ExecStartPost") or settings.get("ExecCondition"):
        decisions.append(
            Decision("hooks", "ExecStartPre, ExecStartPost and ExecCondition are not kept. Accept that, or make them steps of a workflow.")
        )
    if user := _last(settings, "User"):
        decisions.append(
            Decision(
                "user",
                f"systemd runs it as {user}; a worker runs everything as its own user. Accept that, or import it to a pool for {user}.",
            )
        )
    if directory := _last(settings, "WorkingDirectory"):
        decisions.append(Decision("directory", f"It runs in {directory}; commands run in the worker's DULY_SHELL_DIR. Accept that."))
    if settings.get("EnvironmentFile"):
        decisions.append(
            Decision(
                "env", "It reads variables from a file (EnvironmentFile), which are not kept. Accept that, or give them as ${secret:…}."
            )
        )
    env, unfit = fitting(_variables(settings.get("Environment", [])))
    if unfit:
        notes.append(f"These variables cannot be given to a job: {', '.join(unfit)}.")
    return {"pool": pool, "shell": argv} | ({"env": env} if env else {}), decisions, notes


def _argv(command: str) -> list[str]:
    try:
        words = shlex.split(command.lstrip("-:+!"))
    except ValueError as error:
        raise ValueError(f"its command cannot be read: {error}") from error
    if not words:
        raise ValueError("its command is empty")
    if command.lstrip("-:+!").startswith("@"):
        return [words[0].lstrip("@"), *words[2:]]
    return words


def _variables(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        for word in shlex.split(line):
            name, sign, value = word.partition("=")
            if sign:
                found[name] = value
    return found


def _last(table: Mapping[str, list[str]], key: str) -> str | None:
    values = table.get(key) or []
    return values[-1] if values else None
