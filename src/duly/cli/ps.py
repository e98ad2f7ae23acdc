"""`duly ps`: what runs and what waits for a worker, now."""

from __future__ import annotations

from duly.cli import output, remote
from duly.cli.errors import OK
from duly.cli.execution_text import COLUMNS
from duly.cli.output import Output
from duly.cli.parsing import Arguments, Command, Parser, count, remote_options
from duly.sdk import calls
from duly.sdk.client import Client
from duly.wire.executions import ExecutionView


def _configure_ps(parser: Parser) -> None:
    parser.add_argument("-n", "--limit", metavar="N", type=count, default=50, help="at most that many of each state (50)")
    remote_options(parser)


def _ps(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        found: list[ExecutionView] = []
        for state in ("RUNNING", "PENDING"):
            found += client.send(calls.list_executions(state=state, limit=min(arguments.limit, 200))).items
        out.rows(COLUMNS[:-1], found, name=lambda execution: execution.execution_id)
        if out.is_for_people and not out.quiet:
            _summarise(client, out, found)
    return OK


def _summarise(client: Client, out: Output, found: list[ExecutionView]) -> None:
    stats = client.send(calls.show_stats())
    counts = [
        f"{number:,} {state.lower()}"
        for state in ("RUNNING", "PENDING", "BLOCKED", "SCHEDULED")
        if (number := stats.executions.get(state, 0))
    ]
    if found:
        out.say(f"\n{', '.join(counts)}" if counts else "")
    elif counts:
        out.say(f"Nothing runs and nothing is ready; {', '.join(counts)}.")
    else:
        out.say("Nothing runs and nothing waits. `duly next` shows what fires when; `duly run JOB` starts something now.")
    if stats.workers == 0:
        out.say("No worker is alive: start one with `duly worker`, or `duly up`.")


COMMANDS = {"ps": Command("What runs and what waits for a worker, now.", _configure_ps, _ps, "duly ps")}
