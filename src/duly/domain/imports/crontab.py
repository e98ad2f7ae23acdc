"""Crontabs, those of users and those of a system: lines, variables, `%`, and the fires of cron itself.

Debian's cron runs a job that names times once for each time that the clocks jump over, as soon as they have jumped, and not
again when they go back; a job with a star in minute or hour follows the clock. A CRON_TZ (cronie) moves the schedule to
another zone, whose jumps that cron does not look after: what is jumped over does not happen, and what comes twice runs twice.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import Any

from duly.domain.cron import parse_cron
from duly.domain.errors import Invalid
from duly.domain.imports import five_fields, walls
from duly.domain.imports.commands import SHELL, fitting, name_from, target_of
from duly.domain.imports.draft import Decision, Draft, OldFires, cannot
from duly.domain.imports.five_fields import Expression
from duly.domain.imports.timing import listed
from duly.domain.imports.walls import Again, Gap, Readings
from duly.domain.zones import load_zone

_VARIABLE = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z_][A-Za-z0-9_]*))\s*=\s*(.*?)\s*\Z""")
_USER = re.compile(r"[a-z_][a-z0-9_-]*\$?\Z")
# cronie: root's lines may begin with a dash, and are then not logged.
_LOGLESS = re.compile(r"\A-(?=[0-9*@])")
# Variables that speak to cron and not to the command.
_CRONS_OWN = frozenset(
    {"CRON_TZ", "MAILTO", "MAILFROM", "SHELL", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "RANDOM_DELAY", "CRON_SECURE"}
)
_SYSTEM_HEAD = re.compile(r"^#.*\b(?:user|user-name)\s+command", re.IGNORECASE | re.MULTILINE)
PERCENT_INPUT = Decision(
    "stdin", "A % in it gives the command an input. Accept it, and a shell pipes that text in (it takes --allow-shell too)."
)


@dataclass(slots=True)
class _Surroundings:
    """What the lines so far have set."""

    zone: str
    cron_zone: str | None = None
    shell: str = "/bin/sh"
    mail: str | None = None
    delay: int = 0
    variables: dict[str, str] = field(default_factory=dict)


def is_system(text: str, path: str) -> bool:
    """Whether lines have a user in them: by where the file lies, or by what its head says."""
    return path.startswith(("/etc/crontab", "/etc/cron.d/")) or _SYSTEM_HEAD.search(text) is not None


def read(text: str, *, zone: str, system: bool, pool: str = "default") -> list[Draft]:
    """Every line that is a job, in order."""
    around = _Surroundings(zone)
    drafts: list[Draft] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        where = f"line {number}"
        if (match := _VARIABLE.match(line)) is not None and not _is_job(stripped):
            _set(around, match[1] or match[2] or match[3], match[4])
            continue
        try:
            drafts.append(_entry(_LOGLESS.sub("", stripped, count=1), where, stripped, around, system, pool))
        except ValueError as error:
            drafts.append(cannot(name_from(_command_part(stripped.removeprefix("-"))), where, stripped, f"{error}."))
    return drafts


def _is_job(line: str) -> bool:
    return re.match(r"-?[0-9*@]", line) is not None


def _set(around: _Surroundings, name: str, raw: str) -> None:
    value = raw[1:-1] if len(raw) > 1 and raw[0] == raw[-1] and raw[0] in "\"'" else raw
    if name == "CRON_TZ":
        around.cron_zone = value or None
    elif name == "SHELL":
        around.shell = value
    elif name == "MAILTO":
        around.mail = value
    elif name == "RANDOM_DELAY":
        around.delay = int(value) if value.isdigit() else 0
    if name not in _CRONS_OWN:
        around.variables[name] = value


def _command_part(line: str) -> str:
    parts = line.split(None, 1 if line.startswith("@") else 5)
    return parts[-1]


def _entry(line: str, where: str, source: str, around: _Surroundings, system: bool, pool: str) -> Draft:
    """One line. `source` is the same as it is written, where cronie's dash may stand before the time."""
    fields = 1 if line.startswith("@") else 5
    parts = line.split(None, fields + system)
    if len(parts) < fields:
        raise ValueError(f"it has {len(parts)} words, and a line has {fields} fields and a command")
    if len(parts) <= fields + system:
        raise ValueError("it has no command")
    expression, command = " ".join(parts[:fields]), parts[-1]
    user = parts[fields] if system else None
    name = name_from(command)
    if expression.lower() == "@reboot":
        return cannot(
            name, where, source, "@reboot is no time: a fleet has no boot. Enqueue it when the service starts, or leave it to systemd."
        )
    if user is not None and not _USER.match(user):
        raise ValueError(f"{user!r} is not a user; say --user-crontab if the lines have none")
    schedule = _read_expression(expression)
    zone = around.cron_zone or around.zone
    try:
        load_zone(zone)
    except Invalid as error:
        raise ValueError(f"CRON_TZ: {error.message.rstrip('.')}") from error
    body: dict[str, Any] = {"schedule": _canonical(expression, schedule), "timezone": zone}
    if around.cron_zone is not None:
        body |= {"dstGap": "skip", "dstOverlap": "both"}
    if around.delay:
        body["jitterSec"] = around.delay * 60
    notes, decisions = _remarks(around, user)
    if source != line:
        notes.append("The dash before the time keeps cron from writing to syslog; here every run has its record.")
    target, extra = _target(command, around, pool)
    body |= {
        "target": target,
        # cron starts the next one whether or not the last has ended, looks back at nothing, and tries once.
        "overlap": "allow",
        "catchUp": "none",
        "retryPolicy": {"maxAttempts": 1},
    }
    notes.append("Runs may overlap and are tried once, as in cron: look at overlap, catch_up and retry_policy.")
    return Draft(
        name=name,
        where=where,
        source=source,
        body=body,
        decisions=(*decisions, *extra),
        notes=tuple(notes),
        old=_old_fires(schedule, zone, follows_no_clock=around.cron_zone is not None),
    )


def _read_expression(text: str) -> Expression:
    if "~" in text:
        raise ValueError("~ draws a time at random at each start of cron; use H here, a quiet time that stays")
    return five_fields.read(text, five_fields.VIXIE)


def _canonical(text: str, expression: Expression) -> str:
    """The text as it stands if Duly reads it, else the same sets written anew (a step that is wider than its field, say)."""
    try:
        parse_cron(text)
    except Invalid:
        day, weekday = (
            ("*" if len(expression.days) == 31 else listed(expression.days, 1, 31)),
            ("*" if len(expression.weekdays) == 7 else listed(expression.weekdays, 0, 6)),
        )
        return " ".join(
            [listed(expression.minutes, 0, 59), listed(expression.hours, 0, 23), day, listed(expression.months, 1, 12), weekday]
        )
    return text


def _remarks(around: _Surroundings, user: str | None) -> tuple[list[str], list[Decision]]:
    notes: list[str] = []
    decisions: list[Decision] = []
    if user is not None:
        question = f"cron runs it as {user}; a worker runs everything as its own user. Accept that, or import it to a pool for {user}."
        decisions.append(Decision("user", question))
    if around.mail:
        notes.append(f"MAILTO={around.mail}: what it prints is kept as its log instead; an alert tells of failures.")
    _, unfit = fitting(around.variables)
    if unfit:
        notes.append(f"These variables cannot be given to a job: {', '.join(unfit)}.")
    return notes, decisions


def _target(command: str, around: _Surroundings, pool: str) -> tuple[dict[str, Any], list[Decision]]:
    """What runs, with what a `%` makes of it."""
    env, _ = fitting(around.variables)
    first, *rest = _at_percents(command)
    if rest:
        text = "\n".join(rest) + "\n"
        piped = f"printf %s {shlex.quote(text)} | {first}"
        target, _ = target_of(piped, shell=around.shell, pool=pool, env=env)
        return target, [PERCENT_INPUT, SHELL]
    target, takes_shell = target_of(first, shell=around.shell, pool=pool, env=env)
    return target, [SHELL] if takes_shell else []


def _at_percents(command: str) -> list[str]:
    """The command, and the lines of its input: an unescaped % ends a line, \\% is a percent sign."""
    return [part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", command)]


def _old_fires(expression: Expression, zone: str, *, follows_no_clock: bool) -> OldFires:
    readings = Readings(expression.hours, expression.minutes, expression.is_day)
    if expression.is_wild or follows_no_clock:
        gap, again = Gap.NOTHING, Again.BOTH
    else:
        gap, again = Gap.EACH_AT_ONCE, Again.FIRST

    def fires(after: int, until: int) -> list[int]:
        return walls.fires(readings, zone, gap, again, after, until)

    return fires
