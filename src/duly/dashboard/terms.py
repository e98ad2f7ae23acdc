"""Search by anything: words, and `key:value` terms, as the API's own filters.

    nightly state:paused pool:mail next:<1h

What is not a key that a list knows is a word to look for. A value with spaces stands in double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from duly.domain.durations import parse_duration
from duly.domain.errors import DulyError
from duly.domain.instants import Instant, to_rfc3339

_TERM = re.compile(r'(?:(?P<key>[A-Za-z][A-Za-z.]*):)?(?:"(?P<quoted>[^"]*)"|(?P<plain>\S+))')


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the search: the API's parameter, and how its values are written there.

    `upper`: states are names. `is_time`: `2h` is two hours ago.
    """

    parameter: str
    upper: bool = False
    values: tuple[str, ...] = ()
    is_time: bool = False


JOB_KEYS: Mapping[str, Key] = {
    "state": Key("state", upper=True, values=("active", "paused", "completed", "cancelled")),
    "type": Key("type", upper=True, values=("cron", "rrule", "interval", "one_time", "delayed", "on_demand")),
    "pool": Key("pool"),
    "handler": Key("handler"),
    "name": Key("name"),
}
EXECUTION_KEYS: Mapping[str, Key] = {
    "state": Key("state", upper=True, values=("scheduled", "blocked", "pending", "running", "succeeded", "dead", "cancelled", "skipped")),
    "outcome": Key("lastOutcome", upper=True, values=("succeeded", "failed", "timed_out", "worker_lost", "cancelled", "released")),
    "trigger": Key("trigger", values=("schedule", "enqueue", "manual", "backfill", "replay", "step")),
    "pool": Key("pool"),
    "handler": Key("handler"),
    "job": Key("jobName"),
    "worker": Key("workerId"),
    "batch": Key("batchId"),
    "since": Key("since", is_time=True),
    "until": Key("until", is_time=True),
}


@dataclass(frozen=True, slots=True)
class Terms:
    """What a search means: the API's parameters, the words that are left, and what could not be understood."""

    wanted: dict[str, str]
    words: str
    trouble: str | None = None


def parse(text: str, keys: Mapping[str, Key], now: Instant) -> Terms:
    """A search as the API's parameters. What contradicts itself is told, not guessed."""
    wanted: dict[str, str] = {}
    words: list[str] = []
    trouble: str | None = None
    for term in _TERM.finditer(text):
        key, value = term["key"], term["quoted"] if term["quoted"] is not None else term["plain"]
        if key is None:
            words.append(value)
        elif key in keys:
            known = keys[key]
            wanted[known.parameter] = value.upper() if known.upper else _time(value, now) if known.is_time else value
            if known.values and value.lower() not in known.values:
                trouble = f"{key}: one of {', '.join(known.values)}"
        elif key.startswith("args."):
            wanted[f"payload.{key[5:]}"] = value
        elif key == "next" and value[:1] in "<>":
            try:
                at = to_rfc3339(now + parse_duration(value[1:]))
            except DulyError as error:
                trouble = f"next: {error.message}"
            else:
                wanted["nextFireBefore" if value[0] == "<" else "nextFireAfter"] = at
        else:
            words.append(f"{key}:{value}")
    return Terms(wanted, " ".join(words), trouble)


def _time(text: str, now: Instant) -> str:
    """`2h` is two hours ago; anything else is left for the API to read."""
    try:
        return to_rfc3339(now - parse_duration(text))
    except DulyError:
        return text
