"""`duly context`: servers by name, with the key for each, so that nobody types addresses.

They are kept in a file of their own that only these commands write. A key is named by the file that has it, and never kept here itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from duly import config
from duly.cli import output
from duly.cli.errors import OK, did_you_mean
from duly.cli.output import RED, Column
from duly.cli.parsing import Arguments, Command, Group, Parser, output_options
from duly.domain.errors import Conflict, Invalid, NotFound


def _configure_name(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")
    _configure_dry_run(parser)
    output_options(parser)


def _configure_dry_run(parser: Parser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would be kept, and write nothing")


def _configure_add(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="such as prod")
    parser.add_argument("--url", metavar="URL", required=True, help="the server, such as https://duly.example.com")
    parser.add_argument("--key-file", metavar="FILE", help="the file that has the key")
    mark = parser.add_mutually_exclusive_group()
    mark.add_argument("--protected", action="store_true", default=None, help="show a badge, and ask before wide changes; as it is for prod")
    mark.add_argument("--unprotected", action="store_false", dest="protected", help="neither, though it is called prod")
    parser.add_argument("--use", action="store_true", help="use it from now on")
    _configure_dry_run(parser)
    output_options(parser)


def _contexts() -> tuple[dict[str, dict[str, Any]], str | None]:
    found = config.read_contexts(config.contexts_file().parent)
    return {name: dict(table) for name, table in found.known.items()}, found.current


def _list(arguments: Arguments) -> int:
    out = output.of(arguments)
    known, current = _contexts()
    rows = [
        {
            "name": name,
            "url": table.get("url"),
            "keyFile": table.get("key_file"),
            "inUse": name == current,
            "protected": config.is_protected(name, table),
        }
        for name, table in known.items()
    ]
    out.rows(_COLUMNS, rows, name=lambda row: str(row["name"]))
    if not rows:
        out.say("There are no contexts yet: duly context add prod --url https://duly.example.com --key-file FILE --use")
    return OK


def _use(arguments: Arguments) -> int:
    known, _ = _contexts()
    _there(arguments.name, known)
    return _keep(arguments, known, arguments.name, f"Commands talk to {known[arguments.name].get('url')} from now on.")


def _add(arguments: Arguments) -> int:
    known, current = _contexts()
    if arguments.name in known:
        raise Conflict(
            "DULY-E604", f"There is a context {arguments.name!r} already.", hint=f"duly context remove {arguments.name} takes it away."
        )
    if not arguments.name.replace("-", "").replace("_", "").isalnum() or not arguments.name.isascii():
        raise Invalid("DULY-E604", "takes letters, digits, - and _.", field="NAME")
    known[arguments.name] = {"url": arguments.url} | ({"key_file": os.path.abspath(arguments.key_file)} if arguments.key_file else {})
    if arguments.protected is not None:
        known[arguments.name][config.PROTECTED] = arguments.protected
    return _keep(arguments, known, arguments.name if arguments.use else current, f"{arguments.name} is kept in {config.contexts_file()}.")


def _remove(arguments: Arguments) -> int:
    known, current = _contexts()
    _there(arguments.name, known)
    del known[arguments.name]
    return _keep(arguments, known, None if current == arguments.name else current, f"{arguments.name} is gone.")


def _there(name: str, known: dict[str, dict[str, Any]]) -> None:
    if name not in known:
        raise NotFound("DULY-E604", f"There is no context {name!r}.", hint=did_you_mean(name, known) or "See all: duly context list")


def _keep(arguments: Arguments, known: dict[str, dict[str, Any]], current: str | None, remark: str) -> int:
    """Write the file, or show what would be in it."""
    text = _file(known, current)
    if arguments.dry_run:
        print(text, end="")
        output.of(arguments).say("That would be kept, and was not.")
        return OK
    _write(text)
    output.of(arguments).say(remark)
    return OK


def _file(known: dict[str, dict[str, Any]], current: str | None) -> str:
    lines = ["# Written by `duly context`."] + ([f"current = {_text(current)}"] if current else [])
    for name, table in known.items():
        lines += ["", f"[contexts.{name}]", *(f"{key} = {_text(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _write(text: str) -> None:
    """The whole file, readable by its owner alone, or the one that was there."""
    path: Path = config.contexts_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.part")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    beside.replace(path)


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_COLUMNS = (
    Column[dict[str, Any]]("use", lambda row: "*" if row["inUse"] else ""),
    Column[dict[str, Any]]("name", lambda row: row["name"]),
    Column[dict[str, Any]]("protected", lambda row: "yes" if row["protected"] else "", colour=lambda row: RED),
    Column[dict[str, Any]]("server", lambda row: row["url"] or "", None, "url"),
    Column[dict[str, Any]]("key file", lambda row: row["keyFile"] or "–", lambda row: row["keyFile"] or "", "key_file"),
)

COMMANDS = {
    "context": Group(
        "Servers by name. DULY_CONTEXT or --context choose one for a single command.",
        "duly context",
        {
            "list": Command("the contexts that there are", output_options, _list, "duly context list"),
            "use": Command("talk to this one from now on", _configure_name, _use, "duly context use"),
            "add": Command("keep another one", _configure_add, _add, "duly context add"),
            "remove": Command("forget one", _configure_name, _remove, "duly context remove"),
        },
    )
}
