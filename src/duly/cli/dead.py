"""`duly dead`: executions that have died: list them by their causes, look at one, replay or discard them."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from duly.cli import output, remote
from duly.cli.asking import demand, yes_option
from duly.cli.errors import OK
from duly.cli.execution_text import error_text, fields
from duly.cli.output import Column, Output
from duly.cli.parsing import Arguments, Command, Group, Parser, count, remote_options
from duly.cli.values import json_value
from duly.cli.why import say_why
from duly.domain.errors import Invalid
from duly.sdk import calls
from duly.sdk.client import Client
from duly.wire.bulk import BulkView, DeadGroupView, DeadLetterView

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/(s|m|h))?")
_PERIODS = {None: 1, "s": 1, "m": 60, "h": 3600}


def rate(text: str) -> float:
    """`10/s`, `30/m`, or a number per second."""
    found = _RATE.fullmatch(text)
    if found is None or not float(found[1]):
        raise ValueError(text)
    return float(found[1]) / _PERIODS[found[2]]


# argparse names the reader in its message.
rate.__name__ = "rate"


# ---------------------------------------------------------------- looking


def _configure_list(parser: Parser) -> None:
    parser.add_argument("--job", metavar="JOB", help="of this job only")
    parser.add_argument("--cause", metavar="CAUSE", help="the single letters of this cause instead of the groups")
    parser.add_argument("-n", "--limit", metavar="N", type=count, default=50, help="at most that many single letters, newest first (50)")
    remote_options(parser)


def _list(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        job_id = None if arguments.job is None else remote.find_job(client, arguments.job).job_id
        if arguments.cause is not None:
            return _list_letters(client, out, arguments, job_id)
        found = client.send(calls.list_dead_letters(job_id=job_id))
    out.rows(_GROUPS, found.items, name=lambda group: group.cause)
    if not found.items:
        out.say("No dead letters: nothing has died that nobody has dealt with.")
    elif out.is_for_people:
        more = "" if found.complete else " and more that were not counted"
        out.say(f"\n{found.letters:,} in all{more}. One group: duly dead list --cause CAUSE   Again: duly dead replay --cause CAUSE")
    return OK


def _list_letters(client: Client, out: Output, arguments: Arguments, job_id: str | None) -> int:
    size = min(arguments.limit, 200)
    found = list(
        calls.every_page(
            client.send,
            lambda cursor: calls.list_open_letters(job_id=job_id, cause=arguments.cause, limit=size, cursor=cursor),
            arguments.limit,
        )
    )
    out.rows(_LETTERS, found, name=lambda letter: letter.execution_id)
    if not found:
        out.say("No open dead letter has this cause.")
    return OK


def _configure_show(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="an id such as run_0198c2…")
    remote_options(parser)


def _show(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        execution = client.send(calls.show_execution(remote.run_id(arguments.run)))
        out.one(fields(execution), execution, name=execution.execution_id)
        say_why(client, out, execution.execution_id)
    return OK


# ---------------------------------------------------------------- doing something about them


def _which(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", help="one dead run")
    parser.add_argument("--all", action="store_true", help="every open dead letter")
    parser.add_argument("--job", metavar="JOB", help="those of this job")
    parser.add_argument("--cause", metavar="CAUSE", help="those of this cause; `duly dead` names them")
    parser.add_argument("--dry-run", action="store_true", help="only say how many")
    parser.add_argument("-n", "--limit", metavar="N", type=count, help="at most that many, oldest first")
    yes_option(parser)


def _configure_replay(parser: Parser) -> None:
    _which(parser)
    parser.add_argument("--payload", metavar="JSON", help="another payload; @file reads a file, - standard input")
    parser.add_argument("--canary", metavar="N", type=count, help="only the first N; when they have succeeded: duly batch continue")
    parser.add_argument("--rate", metavar="N/s", type=rate, help="that many in a second, such as 10/s or 30/m")
    remote_options(parser)


def _configure_discard(parser: Parser) -> None:
    _which(parser)
    remote_options(parser)


def _match(client: Client, arguments: Arguments) -> dict[str, Any]:
    """What the flags mean. Raises Invalid when they mean nothing, or two things."""
    by_filter = arguments.job is not None or arguments.cause is not None
    if (arguments.run is not None) + arguments.all + by_filter != 1:
        hint = "Name one run, or say which ones with --job and --cause, or --all."
        raise Invalid("DULY-E604", "Which dead letters are meant is not clear.", hint=hint)
    if arguments.run is not None:
        return {"ids": [remote.run_id(arguments.run)]}
    match: dict[str, Any] = {"state": "DEAD"}
    if arguments.job is not None:
        match["jobId"] = remote.find_job(client, arguments.job).job_id
    if arguments.cause is not None:
        match["cause"] = arguments.cause
    return match


def _ask(client: Client, arguments: Arguments, verb: str, match: dict[str, Any]) -> None:
    """Where the context is a protected one, and more than one letter may be meant."""
    if arguments.dry_run or arguments.run is not None or arguments.yes:
        return
    would = client.send(calls.act_in_bulk(verb, match, dry_run=True, limit=arguments.limit))
    demand(arguments, f"{verb} {would.matched:,} dead letters?")


def _replay(arguments: Arguments) -> int:
    out = output.of(arguments)
    payload = calls.NO_PAYLOAD if arguments.payload is None else json_value(arguments.payload, "--payload")
    with remote.connect(arguments) as client:
        match = _match(client, arguments)
        if arguments.run is not None and not (arguments.dry_run or arguments.rate or arguments.canary):
            made = client.send(calls.replay_execution(arguments.run, payload=payload))
            out.one([("run", made.execution_id), ("state", output.state_text(made.state))], made, name=made.execution_id)
            return OK
        _ask(client, arguments, "replay", match)
        report = client.send(
            calls.act_in_bulk(
                "replay",
                match,
                dry_run=arguments.dry_run,
                rate_per_sec=arguments.rate,
                canary=arguments.canary,
                limit=arguments.limit,
                payload=payload,
            )
        )
    print_report(out, report)
    return OK


def _discard(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        match = _match(client, arguments)
        if arguments.run is not None and not arguments.dry_run:
            execution = client.send(calls.discard_execution(arguments.run))
            out.one(fields(execution), execution, name=execution.execution_id)
            return OK
        _ask(client, arguments, "discard", match)
        report = client.send(calls.act_in_bulk("discard", match, dry_run=arguments.dry_run, limit=arguments.limit))
    print_report(out, report)
    return OK


def print_report(out: Output, report: BulkView) -> None:
    """What a bulk action has done, and how to go on."""
    shown = [
        ("batch", report.batch_id),
        ("matched", f"{report.matched:,}"),
        ("done", f"{report.done:,}"),
        ("skipped", f"{report.skipped:,}"),
        ("remaining", f"{report.remaining:,}"),
        ("sample", ", ".join(report.sample) or None),
    ]
    out.one(shown, report, name=report.batch_id or "")
    if report.batch_id is None:
        out.say("Nothing was changed.")
    elif report.remaining:
        out.say(f"\nHow they do: duly batch show {report.batch_id}   The rest: duly batch continue {report.batch_id}")


_GROUPS: list[Column[DeadGroupView]] = [
    Column("count", lambda group: str(group.count)),
    Column("job", lambda group: group.job_name),
    Column("error", lambda group: f"{group.type}: {group.message}" if group.type else group.message),
    Column("first", lambda group: output.relative(group.first), lambda group: group.first),
    Column("last", lambda group: output.relative(group.last), lambda group: group.last),
    Column("cause", lambda group: group.cause),
    Column("sample", lambda group: group.sample),
]

_LETTERS: list[Column[DeadLetterView]] = [
    Column("died", lambda letter: output.relative(letter.died_at), lambda letter: letter.died_at),
    Column("job", lambda letter: letter.job_name),
    Column("attempts", lambda letter: str(letter.attempts)),
    Column("run", lambda letter: letter.execution_id),
    Column("error", lambda letter: (error_text(letter.error) or "").partition("\n")[0], lambda letter: _compact(letter.error)),
]


def _compact(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_EXAMPLES = """
examples:
  duly dead
  duly dead replay --job send-mail --dry-run
  duly dead replay --cause 8f14e45fceea167a --canary 5 --rate 10/s
  duly batch continue batch_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d
"""

COMMANDS = {
    "dead": Group(
        "Executions that have died, and what to do about them.",
        "duly dead",
        {
            "list": Command("open dead letters, grouped by cause", _configure_list, _list, "duly dead list"),
            "show": Command("one dead letter, and why it died", _configure_show, _show, "duly dead show"),
            "replay": Command(
                "run dead letters again, as new runs", _configure_replay, _replay, "duly dead replay", _EXAMPLES, changes=True
            ),
            "discard": Command(
                "put dead letters away; their history stays", _configure_discard, _discard, "duly dead discard", changes=True
            ),
        },
        otherwise=Command("Open dead letters, grouped by cause.", _configure_list, _list, "duly dead", _EXAMPLES),
        is_whole=True,
    )
}
