"""`duly logs`: what a run has logged, as it was logged or as it comes; of a job its latest run, or a text across its recent ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from duly.cli import output, remote
from duly.cli.errors import OK
from duly.cli.output import GREY, RED, YELLOW, Output
from duly.cli.parsing import Arguments, Command, Parser, count, remote_options
from duly.cli.times import earlier_of
from duly.domain.errors import Invalid, NotFound
from duly.domain.logs import LEVELS
from duly.domain.plain import indented, visible
from duly.sdk import calls
from duly.sdk.client import Client
from duly.sdk.logs import list_job_logs
from duly.sdk.streams import log_line
from duly.wire.executions import FoundLineView, LogLineView

_COLOURS = {"warning": YELLOW, "error": RED, "critical": RED, "debug": GREY}
EVERYTHING = 1 << 30


def options(parser: Parser) -> None:
    """Also those of `duly run logs`."""
    parser.add_argument("what", metavar="RUN|JOB", help="a run's id, or a job's name or id for its latest run")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run has ended")
    parser.add_argument("--attempt", metavar="N", type=count, help="one attempt only")
    parser.add_argument("--level", choices=LEVELS, help="lines of this level or higher")
    parser.add_argument("--grep", metavar="TEXT", help="lines with this text in them; of a job: in all its recent runs")
    parser.add_argument("--since", metavar="TIME", help="with --grep on a job: runs from then on, such as 2026-03-08T07:00:00Z or 7d")
    parser.add_argument("-n", "--limit", metavar="N", type=count, help="at most that many lines")
    remote_options(parser)


def logs(arguments: Arguments) -> int:
    """Print what was logged, as it was logged."""
    out = output.of(arguments)
    across = arguments.grep is not None and not arguments.follow and not remote.is_run(arguments.what)
    if across and arguments.attempt is not None:
        raise Invalid("DULY-E604", "--attempt goes with a run only.", hint="`duly run list --job JOB` shows the runs.")
    if arguments.since is not None and not across:
        raise Invalid("DULY-E604", "--since goes with a job and --grep only.", hint="A run's lines are shown from its beginning.")
    wanted = {"level": arguments.level, "contains": arguments.grep}
    with remote.connect(arguments) as client:
        if across:
            return _across(client, out, arguments, wanted)
        execution_id = _latest(client, out, arguments.what)
        wanted["attempt"] = arguments.attempt
        if not arguments.follow:
            most = arguments.limit or EVERYTHING
            size = min(most, 1000)
            lines = calls.every_page(client.send, lambda cursor: calls.list_logs(execution_id, **wanted, limit=size, cursor=cursor), most)
            if not _print(out, lines):
                state = client.send(calls.show_execution(execution_id)).state
                out.say(f"It logged nothing{' like that' if any(wanted.values()) else ''}; it is {state.lower()}.")
            return OK
        for event in client.stream(calls.follow_logs(execution_id, **wanted)):
            line = log_line(event)
            if line is not None:
                _print_line(out, line)
            elif event.name == "end":
                state = msgspec.json.decode(event.data)["state"]
                out.say(output.paint(output.state_text(state), output.state_colour(state)))
    return OK


def _across(client: Client, out: Output, arguments: Arguments, wanted: dict[str, Any]) -> int:
    job = remote.find_job(client, arguments.what)
    since = None if arguments.since is None else earlier_of(arguments.since, "--since")
    most = arguments.limit or EVERYTHING
    lines = calls.every_page(
        client.send,
        lambda cursor: list_job_logs(job.job_id, **wanted, since=since, limit=min(most, 1000), cursor=cursor),
        most,
    )
    if not _print(out, lines):
        out.say(f"No run of {job.name} has logged that.")
    return OK


def _latest(client: Client, out: Output, what: str) -> str:
    if remote.is_run(what):
        return remote.run_id(what)
    job = remote.find_job(client, what)
    latest = client.send(calls.list_executions(job_id=job.job_id, limit=1)).items
    if not latest:
        raise NotFound("DULY-E205", f"{job.name} has not run yet.", hint=f"Run it now: duly run {job.name}")
    out.say(output.paint(f"{latest[0].execution_id}, due {output.relative(latest[0].scheduled_at)}", GREY))
    return latest[0].execution_id


def _print(out: Output, lines: Iterable[LogLineView]) -> int:
    """How many there were."""
    if out.format == "json":
        found = list(lines)
        out.rows([], found, name=str)
        return len(found)
    printed = 0
    before = ""
    for line in lines:
        if isinstance(line, FoundLineView) and out.is_for_people and line.execution_id != before:
            before = line.execution_id
            print(output.paint(before, GREY))
        _print_line(out, line)
        printed += 1
    return printed


def _print_line(out: Output, line: LogLineView) -> None:
    if out.format in ("json", "jsonl"):
        print(msgspec.json.encode(line).decode(), flush=True)
        return
    extra = "".join(
        f" {visible(key)}={visible(value if isinstance(value, str) else msgspec.json.encode(value).decode())}"
        for key, value in line.fields.items()
    )
    at = output.today(line.at) if out.is_for_people else line.at
    run = f"{line.execution_id} " if isinstance(line, FoundLineView) and not out.is_for_people else ""
    level = output.paint(f"{visible(line.level):<7}", _COLOURS.get(line.level))
    print(f"{run}{output.paint(at, GREY)} {level} {indented(line.message)}{output.paint(extra, GREY)}", flush=True)


COMMANDS = {"logs": Command("What a run, or a job's latest run, has logged.", options, logs, "duly logs")}
