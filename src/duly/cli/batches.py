"""`duly batch`: bulk actions and backfills: how they stand, do the rest, stop."""

from __future__ import annotations

from duly.cli import output, remote
from duly.cli.asking import demand, yes_option
from duly.cli.dead import print_report
from duly.cli.errors import OK
from duly.cli.output import Output
from duly.cli.parsing import Arguments, Command, Group, Parser, count, remote_options
from duly.sdk import calls
from duly.wire.bulk import BatchView


def _configure_batch(parser: Parser) -> None:
    parser.add_argument("batch", metavar="BATCH", help="an id such as batch_0198c2…")
    remote_options(parser)


def _configure_abort(parser: Parser) -> None:
    yes_option(parser)
    _configure_batch(parser)


def _configure_continue(parser: Parser) -> None:
    parser.add_argument("--anyway", action="store_true", help="whatever became of the canaries")
    parser.add_argument("-n", "--limit", metavar="N", type=count, help="at most that many, oldest first")
    yes_option(parser)
    _configure_batch(parser)


def _continue(arguments: Arguments) -> int:
    out = output.of(arguments)
    _ask(arguments, f"go on with {arguments.batch}?")
    with remote.connect(arguments) as client:
        report = client.send(calls.continue_batch(arguments.batch, anyway=arguments.anyway, limit=arguments.limit))
    print_report(out, report)
    return OK


def _batch(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        _print_batch(out, client.send(calls.show_batch(arguments.batch)))
    return OK


def _ask(arguments: Arguments, question: str) -> None:
    if not arguments.withhold:
        demand(arguments, question)


def _abort(arguments: Arguments) -> int:
    out = output.of(arguments)
    _ask(arguments, f"abort {arguments.batch}?")
    with remote.connect(arguments) as client:
        _print_batch(out, client.send(calls.abort_batch(arguments.batch)))
    return OK


def _print_batch(out: Output, batch: BatchView) -> None:
    shown: list[tuple[str, str | None]] = [
        ("batch", batch.batch_id),
        ("kind", batch.kind),
        ("asked", f"{output.moment(batch.asked_at)} by {batch.asked_by}"),
        ("matched", f"{batch.total:,}"),
        ("aborted", output.moment(batch.aborted_at)),
    ]
    shown += [(state.lower(), f"{number:,}") for state, number in batch.executions.items()]
    out.one(shown, batch, name=batch.batch_id)


COMMANDS = {
    "batch": Group(
        "Bulk actions and backfills.",
        "duly batch",
        {
            "show": Command("how a batch stands", _configure_batch, _batch, "duly batch show"),
            "continue": Command("do the rest of a bulk action", _configure_continue, _continue, "duly batch continue", changes=True),
            "abort": Command(
                "cancel what a batch has made and what has not started", _configure_abort, _abort, "duly batch abort", changes=True
            ),
        },
    )
}
