"""`duly audit`: who did what, as a list, as a file, and whether the record of it is as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TextIO

import msgspec

from duly.cli import output, remote
from duly.cli.errors import OK
from duly.cli.output import Column
from duly.cli.parsing import Arguments, Command, Group, Parser, connection_options, count, remote_options
from duly.cli.times import earlier_of
from duly.domain.audit import canonical
from duly.domain.errors import Conflict, Invalid
from duly.domain.ids import EXECUTION_PREFIX, parse_execution_id
from duly.sdk import audit as calls
from duly.sdk.calls import every_page
from duly.sdk.client import Client
from duly.wire.audit import AuditView

EVERYTHING = 1 << 62
PAGE = 200


def _filters(parser: Parser) -> None:
    parser.add_argument("--job", metavar="JOB", help="what was done to this job and its runs; name or id")
    parser.add_argument("--run", metavar="RUN", help="what was done to this run")
    parser.add_argument("--subject", metavar="ID", help="what was done to this: a key, a calendar, a batch, …")
    parser.add_argument("--actor", metavar="KEY", help="what this key did, by its id")
    parser.add_argument("--action", metavar="ACTION", help="such as job.pause, or all that begins so: job")
    parser.add_argument("--channel", metavar="CHANNEL", help="api, cli, sdk, dashboard, proxy or server")
    parser.add_argument("--since", metavar="TIME", help="from this time on, such as 2026-12-24T00:00:00Z")
    parser.add_argument("--until", metavar="TIME", help="up to this time")


def _configure_list(parser: Parser) -> None:
    _filters(parser)
    parser.add_argument("-n", "--limit", metavar="N", type=count, default=50, help="how many at most (50)")
    remote_options(parser)


def _list(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        found = list(_records(client, arguments, arguments.limit))
    out.rows(_COLUMNS, found, name=lambda record: record.audit_id)
    if not found:
        out.say("Nothing like that is recorded.")
    return OK


def _configure_export(parser: Parser) -> None:
    _filters(parser)
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="where to; standard output otherwise")
    parser.add_argument("-q", "--quiet", action="store_true", help="no remarks on standard error")
    connection_options(parser)


def _export(arguments: Arguments) -> int:
    """Oldest first, one JSON object a line, as the hash is made of it."""
    import sys

    written = 0
    with remote.connect(arguments) as client:
        found = _records(client, arguments, EVERYTHING, oldest_first=True)
        with _opened(arguments.file) if arguments.file != "-" else nullcontext(sys.stdout) as file:
            for record in found:
                file.write(canonical(msgspec.to_builtins(record)) + "\n")
                written += 1
    if not arguments.quiet:
        print(f"{written:,} records.", file=sys.stderr)
    return OK


def _configure_verify(parser: Parser) -> None:
    parser.add_argument("--expect", metavar="SEQ:HASH", help="a head that was noted before, and must still be in the chain")
    remote_options(parser)


def _verify(arguments: Arguments) -> int:
    out = output.of(arguments)
    checked, cursor = 0, None
    with remote.connect(arguments) as client:
        while True:
            chain = client.send(calls.verify_audit(cursor=cursor))
            checked += chain.checked
            cursor = chain.next_cursor
            if cursor is None or chain.broken is not None:
                break
        if arguments.expect is not None and chain.broken is None:
            chain = client.send(calls.verify_audit(expect=arguments.expect, cursor=f"{chain.head.seq}:{chain.head.hash}"))
    if chain.broken is not None:
        record = "" if chain.broken.audit_id is None else f" It is record {chain.broken.audit_id}."
        raise Conflict("DULY-E273", f"The chain is broken after {checked:,} good links: {chain.broken.what}.{record}")
    head = f"{chain.head.seq}:{chain.head.hash}"
    shown = [
        ("intact", f"{checked:,} links"),
        ("head", head),
        ("begins", None if not chain.anchor.seq else f"after link {chain.anchor.seq:,}, of {output.moment(chain.anchor.at)}"),
        ("waiting", f"{chain.waiting:,} records have no link yet" if chain.waiting else None),
    ]
    out.one(shown, chain, name=head)
    out.say("Keep the head elsewhere: `duly audit verify --expect HEAD` shows later whether anything before it was changed or cut off.")
    return OK


def _records(client: Client, arguments: Arguments, most: int, *, oldest_first: bool = False) -> Iterator[AuditView]:
    run = arguments.run
    if run is not None:
        if not run.startswith(EXECUTION_PREFIX):
            raise Invalid("DULY-E604", f"{run!r} is not the id of a run.", hint="For example run_0198c2…; `duly run list` shows them.")
        parse_execution_id(run)
    listing = partial(
        calls.list_audit,
        actor=arguments.actor,
        action=arguments.action,
        job_id=None if arguments.job is None else remote.find_job(client, arguments.job).job_id,
        execution_id=run,
        subject=arguments.subject,
        channel=arguments.channel,
        since=None if arguments.since is None else earlier_of(arguments.since, "--since"),
        until=None if arguments.until is None else earlier_of(arguments.until, "--until"),
        oldest_first=oldest_first,
        limit=min(most, PAGE),
    )
    return every_page(client.send, lambda cursor: listing(cursor=cursor), most)


def _opened(name: str) -> TextIO:
    try:
        return Path(name).open("w", encoding="utf-8")
    except OSError as error:
        raise Invalid("DULY-E604", f"cannot be written: {error.strerror}.", field="FILE") from error


def _what(record: AuditView) -> str:
    changed = record.after or record.before or {}
    return ", ".join(f"{name}={canonical(value)}" for name, value in changed.items())[:80]


_COLUMNS: list[Column[AuditView]] = [
    Column("when", lambda record: output.relative(record.at), lambda record: record.at, "at"),
    Column("who", lambda record: f"{record.actor} ({record.role.lower()})", lambda record: record.actor, "actor"),
    Column("by", lambda record: record.channel, key="channel"),
    Column("action", lambda record: record.action),
    Column("subject", lambda record: record.subject),
    Column("what", _what),
    Column("reason", lambda record: record.reason or ""),
]

COMMANDS = {
    "audit": Group(
        "Who did what.",
        "duly audit",
        {
            "list": Command("the latest records, newest first", _configure_list, _list, "duly audit list"),
            "export": Command("all records, oldest first, one JSON object a line", _configure_export, _export, "duly audit export"),
            "verify": Command("check that no record was changed, removed or inserted", _configure_verify, _verify, "duly audit verify"),
        },
    )
}
