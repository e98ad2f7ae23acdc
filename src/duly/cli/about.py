"""`duly help CODE`, `duly version`, `duly config show`."""

from __future__ import annotations

import platform
import sqlite3
import sys
import textwrap
from typing import Any

import msgspec

from duly import config
from duly.cli import output
from duly.cli.errors import OK, Several, did_you_mean
from duly.cli.output import BOLD, GREY, YELLOW, Column, paint
from duly.cli.parsing import Arguments, Command, Group, Parser, output_options
from duly.cli.places import masked
from duly.domain.codes import CODES
from duly.domain.errors import NotFound
from duly.domain.zones import tzdata_version


def _configure_help(parser: Parser) -> None:
    parser.add_argument("topic", metavar="CODE", help="an error code such as E204 or DULY-E204, or a command")


def _help(arguments: Arguments) -> int:
    topic: str = arguments.topic
    code = CODES.get(f"DULY-{topic.upper().removeprefix('DULY-')}")
    if code is not None:
        print(f"{paint(code.code, BOLD)}  {code.title}\n")
        print(textwrap.fill(code.fix, 100, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
        print(f"\n  {paint(f'HTTP status {code.status}.', GREY)}")
        return OK
    from duly.cli.main import MODULES, main
    from duly.cli.spelling import SAME

    if (topic in MODULES and topic != "help") or (topic,) in SAME:
        return main([topic, "--help"])
    names = [name.removeprefix("DULY-") for name in CODES]
    hint = (
        did_you_mean(topic.upper().removeprefix("DULY-"), names)
        or f"Codes are {names[0]} to {names[-1]}; `duly --help` shows the commands."
    )
    raise NotFound("DULY-E604", f"There is no error code {topic!r}.", hint=hint)


def _version(arguments: Arguments) -> int:
    out = output.of(arguments)
    versions = {
        "duly": config.VERSION,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "tzdata": tzdata_version(),
        "platform": platform.platform(terse=True),
    }
    if out.format in ("json", "jsonl"):
        out.one([], versions, name=config.VERSION)
    else:
        below = f"Python {versions['python']}, SQLite {versions['sqlite']}, tzdata {versions['tzdata']}, {versions['platform']}"
        print(f"duly {versions['duly']} ({below})")
    return OK


def settings_shown() -> list[dict[str, Any]]:
    """Every setting with its value as it may be shown, and where it came from."""
    return [
        {"name": setting.name, "value": _shown(setting, text), "origin": origin, "help": setting.help}
        for setting, text, origin in config.origins()
    ]


def _shown(setting: config.Setting, text: str) -> str:
    # A default is known to everybody.
    if not setting.secret or text == setting.default:
        return text
    return masked(text) if "://" in text else "…"


def _configure_show(parser: Parser) -> None:
    parser.add_argument("--origin", action="store_true", help="also where each comes from; it is always shown")
    output_options(parser)


def _schema(arguments: Arguments) -> int:
    print(msgspec.json.format(msgspec.json.encode(config.schema()), indent=2).decode())
    return OK


def _show(arguments: Arguments) -> int:
    out = output.of(arguments)
    rows = settings_shown()
    out.rows(_COLUMNS, rows, name=lambda row: str(row["name"]))
    for name, meant in config.misspelled():
        out.say(f"{paint('!', YELLOW, sys.stderr)} {name} is not a setting. Did you mean {meant}?")
    if faults := config.faults():
        raise Several(faults)
    settings = config.load()
    if out.is_for_people:
        out.say(f"\nSo the store is {masked(settings.store)} and commands talk to {settings.url}. Flags win over all of this.")
    return OK


_COLUMNS: list[Column[dict[str, Any]]] = [
    Column("setting", lambda row: row["name"]),
    Column("value", lambda row: row["value"] or "–", lambda row: row["value"]),
    Column("origin", lambda row: row["origin"], colour=lambda row: GREY if row["origin"] == "default" else None),
    Column("what it does", lambda row: row["help"], None, "help", lambda row: GREY),
]

COMMANDS = {
    "help": Command("Explain an error code; needs no server.", _configure_help, _help, "duly help"),
    "version": Command("What this is and what it runs on.", output_options, _version, "duly version"),
    "config": Group(
        "Settings: flags over DULY_… variables over duly.toml or [tool.duly] over your own files over defaults.",
        "duly config",
        {
            "show": Command("each setting, its value and where it comes from", _configure_show, _show, "duly config show"),
            "schema": Command("a JSON Schema of duly.toml, for editors", lambda parser: None, _schema, "duly config schema"),
        },
    ),
}
