"""`duly backfill`: run what a job's schedule named in the past."""

from __future__ import annotations

from duly.cli import output, remote
from duly.cli.asking import demand, yes_option
from duly.cli.dead import rate
from duly.cli.errors import OK
from duly.cli.parsing import Arguments, Command, Parser, count, remote_options
from duly.cli.times import earlier_of
from duly.cli.values import json_value
from duly.domain.backfill import Rerun
from duly.sdk import backfill_calls, calls

_EXAMPLES = """examples:
  duly backfill nightly-report --from 2026-01-01T00:00:00Z --to 2026-01-31T23:59:59Z --dry-run
  duly backfill nightly-report --from 2026-01-01T00:00:00Z --to 2026-01-31T23:59:59Z --rate 10/m --max-concurrent 2
"""


def _configure(parser: Parser) -> None:
    parser.add_argument("job", metavar="JOB", help="name or id")
    parser.add_argument("--from", metavar="TIME", dest="first", required=True, help="the first time that counts")
    parser.add_argument("--to", metavar="TIME", dest="last", required=True, help="the last time that counts")
    parser.add_argument(
        "--rerun",
        choices=[choice.value for choice in Rerun],
        default="none",
        help="also times whose run failed, or all",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would run")
    parser.add_argument("--rate", metavar="RATE", type=rate, help="start that many, such as 10/m")
    parser.add_argument("--max-concurrent", metavar="N", type=count, help="that many at a time (1)")
    parser.add_argument("--payload", metavar="JSON", help="instead of the job's own; @file reads a file, - standard input")
    yes_option(parser)
    remote_options(parser)


def _backfill(arguments: Arguments) -> int:
    out = output.of(arguments)
    first, last = earlier_of(arguments.first, "--from"), earlier_of(arguments.last, "--to")
    payload = calls.NO_PAYLOAD if arguments.payload is None else json_value(arguments.payload, "--payload")
    with remote.connect(arguments) as client:
        job = remote.find_job(client, arguments.job)
        if not arguments.dry_run:
            demand(arguments, f"backfill {job.name} from {arguments.first} to {arguments.last}?")
        report = client.send(
            backfill_calls.backfill(
                job.job_id,
                first,
                last,
                rerun=arguments.rerun,
                dry_run=arguments.dry_run,
                rate_per_sec=arguments.rate,
                max_concurrent=arguments.max_concurrent,
                payload=payload,
            )
        )
    shown: list[tuple[str, str | None]] = [
        ("batch", report.batch_id),
        ("times in the range", f"{report.targets:,}"),
        ("would run" if arguments.dry_run else "run", f"{report.run:,}"),
        ("left as they are", f"{report.left:,}"),
    ]
    out.one(shown, report, name=report.batch_id or "")
    if report.batch_id is not None:
        out.say(f"\nHow they do: duly batch show {report.batch_id}   Stop the rest: duly batch abort {report.batch_id}")
    elif not report.run:
        out.say("\nThere is nothing to run." + (" `--rerun failed` runs what failed as well." if report.left else ""))
    return OK


COMMANDS = {
    "backfill": Command("run what a job's schedule named in the past", _configure, _backfill, "duly backfill", _EXAMPLES, changes=True),
}
