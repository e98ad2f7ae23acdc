"""`duly run JOB` runs a job now; `duly run list|show|logs|watch|attempts|cancel|retry|replay|compare` look at runs.

The two share a word as in `docker run` and `gh run`: the first argument decides. A job whose name is one of
the nine verbs is run with `duly job run NAME`.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from duly.cli import comparing, logs, output, remote
from duly.cli.errors import OK, RUN_FAILED, TIMED_OUT
from duly.cli.execution_text import COLUMNS, error_text, fields, progress_text, situation
from duly.cli.output import Column, Output
from duly.cli.parsing import Arguments, Command, Group, Parser, count, remote_options
from duly.cli.times import earlier_of, later_of
from duly.cli.values import payload_of, seconds_of
from duly.cli.why import say_if_stuck, say_why
from duly.domain.errors import Invalid
from duly.sdk import calls
from duly.sdk.client import Client
from duly.wire.executions import AttemptView, EnqueuedView, ExecutionView, OutcomeName, StateName

FINAL = frozenset({StateName.SUCCEEDED, StateName.DEAD, StateName.CANCELLED, StateName.SKIPPED})
# After that long in the queue it is worth looking whether anybody can run it at all.
PATIENCE = 3.0
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0


def run_options(parser: Parser) -> None:
    """Also those of `duly job run`."""
    parser.add_argument("job", metavar="JOB", help="name or id")
    parser.add_argument("words", metavar="KEY=VALUE", nargs="*", help="the payload, key by key; a value may be JSON")
    parser.add_argument("--payload", metavar="JSON", help="the whole payload; @file reads a file, - standard input")
    parser.add_argument("--priority", choices=("critical", "high", "normal", "low"), help="this once")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--in", metavar="TIME", dest="delay", help="after a while, such as 5m")
    when.add_argument("--at", metavar="TIME", help='at a time, such as 09:00, "2026-03-08 09:00" or 2026-03-08T07:00:00Z')
    _wait_options(parser)


def _wait_options(parser: Parser) -> None:
    parser.add_argument("--wait", action="store_true", help="until it has ended")
    parser.add_argument("--timeout", metavar="TIME", help="wait no longer than that, such as 10m; exit code 7 then")
    parser.add_argument("--exit-status", action="store_true", help="wait, and exit with 8 unless it succeeded")
    remote_options(parser)


def run(arguments: Arguments) -> int:
    """Enqueue an execution, and wait for it if asked to."""
    out = output.of(arguments)
    payload = payload_of(arguments.words, arguments.payload)
    priority = arguments.priority and arguments.priority.upper()
    with remote.connect(arguments) as client:
        job = remote.find_job(client, arguments.job)
        if arguments.delay is None and arguments.at is None:
            made = client.send(calls.run_job(job.job_id, payload=payload, priority=priority))
        else:
            delay = None if arguments.delay is None else seconds_of(arguments.delay, "--in")
            run_at = None if arguments.at is None else later_of(arguments.at, "--at")
            made = client.send(calls.enqueue(job.job_id, payload=payload, run_at=run_at, delay_sec=delay, priority=priority))
        follow = "duly workflow show" if job.steps else "duly logs -f"
        return _after_enqueue(client, out, made, job.name, arguments, follow)


def _after_enqueue(
    client: Client, out: Output, made: EnqueuedView, job_name: str, arguments: Arguments, follow: str = "duly logs -f"
) -> int:
    if not (arguments.wait or arguments.exit_status or arguments.timeout):
        shown = [
            ("run", made.execution_id),
            ("job", job_name),
            ("state", output.state_text(made.state)),
            ("due", output.moment(made.scheduled_at)),
        ]
        out.one(shown, made, name=made.execution_id)
        if out.is_for_people:
            out.say(f"\nFollow it: {follow} {made.execution_id}")
        say_if_stuck(client, out, made.execution_id)
        return OK
    limit = None if arguments.timeout is None else seconds_of(arguments.timeout, "--timeout")
    try:
        execution = wait(client, out, made.execution_id, limit)
    except KeyboardInterrupt:
        out.say(f"\nIt goes on without you: duly run show {made.execution_id}")
        raise
    out.one(fields(execution), execution, name=execution.execution_id)
    if execution.state not in FINAL:
        out.say(f"Not ended after {arguments.timeout}; it goes on: duly run show {execution.execution_id}")
        return TIMED_OUT
    return RUN_FAILED if arguments.exit_status and execution.state is not StateName.SUCCEEDED else OK


def wait(client: Client, out: Output, execution_id: str, limit: float | None) -> ExecutionView:
    """Ask until the execution is final or the time is up; each change is said."""
    started = time.monotonic()
    pause = FIRST_PAUSE
    said: tuple[str, int, str | None] | None = None
    has_looked = False
    while True:
        execution = client.send(calls.show_execution(execution_id))
        progress = progress_text(execution.progress)
        stands = (execution.state, execution.attempt, progress)
        if stands != said and execution.state not in FINAL:
            where = output.paint(situation(execution), output.state_colour(execution.state), sys.stderr)
            out.say(f"{where}  {execution.job_name}{f'  {bar(execution.progress)}{progress}' if progress else ''}")
            said = stands
        waited = time.monotonic() - started
        if waited > PATIENCE and execution.state is StateName.PENDING and not has_looked:
            has_looked = True
            say_if_stuck(client, out, execution_id)
        left = None if limit is None else limit - waited
        if execution.state in FINAL or (left is not None and left <= 0):
            return execution
        time.sleep(pause if left is None else min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE)


def bar(progress: Any, width: int = 20) -> str:
    """How far it is, drawn; nothing where nobody knows how much there is."""
    if not isinstance(progress, dict) or not progress.get("total"):
        return ""
    full = max(0, min(width, round(width * float(progress.get("done", 0)) / float(progress["total"]))))
    return "█" * full + "░" * (width - full) + " "


def _configure_watch(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's id")
    parser.add_argument("--timeout", metavar="TIME", help="no longer than that, such as 10m; exit code 7 then")
    parser.add_argument("--exit-status", action="store_true", help="exit with 8 unless it succeeded")
    remote_options(parser)


def _watch(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        limit = None if arguments.timeout is None else seconds_of(arguments.timeout, "--timeout")
        execution = wait(client, out, remote.run_id(arguments.run), limit)
    out.one(fields(execution), execution, name=execution.execution_id)
    if execution.state not in FINAL:
        return TIMED_OUT
    return RUN_FAILED if arguments.exit_status and execution.state is not StateName.SUCCEEDED else OK


# ---------------------------------------------------------------- the noun


def _configure_list(parser: Parser) -> None:
    parser.add_argument("--job", metavar="JOB", help="runs of this job only")
    parser.add_argument("--state", choices=[state.lower() for state in StateName], help="runs in this state only")
    parser.add_argument(
        "--trigger", choices=("schedule", "enqueue", "manual", "backfill", "replay", "step"), help="runs that came to be like this"
    )
    parser.add_argument("--outcome", choices=[outcome.lower() for outcome in OutcomeName], help="runs whose last attempt ended like this")
    parser.add_argument("--pool", help="runs of this pool")
    parser.add_argument("--handler", metavar="NAME", help="runs of this handler")
    parser.add_argument(
        "--since", metavar="TIME", help="runs that were due then or later, such as 7d, 09:00, 2026-03-08 or 2026-03-08T07:00:00Z"
    )
    parser.add_argument("--until", metavar="TIME", help="runs that were due before then")
    parser.add_argument("--batch", metavar="BATCH", help="runs that a backfill or a bulk action has made")
    parser.add_argument("--worker", metavar="ID", help="runs that this worker has or had last")
    parser.add_argument(
        "--payload", metavar="PATH=VALUE", action="append", default=[], help="runs with this in their payload, such as customer.id=42"
    )
    parser.add_argument("-n", "--limit", metavar="N", type=count, default=20, help="at most that many, newest first (20)")
    remote_options(parser)


def _list(arguments: Arguments) -> int:
    out = output.of(arguments)
    wanted = _filter(arguments)
    with remote.connect(arguments) as client:
        job = None if arguments.job is None else remote.find_job(client, arguments.job)
        job_id = None if job is None else job.job_id
        size = min(arguments.limit, 200)
        found = list(
            calls.every_page(
                client.send,
                lambda cursor: calls.list_executions(job_id=job_id, **wanted, limit=size, cursor=cursor),
                arguments.limit,
            )
        )
    out.rows(COLUMNS, found, name=lambda execution: execution.execution_id)
    if not found and any(value for name, value in wanted.items() if name != "state"):
        out.say("No run is like that.")
    elif not found:
        stands = f" are {arguments.state}" if arguments.state else " yet"
        out.say(f"No runs{f' of {job.name}' if job else ''}{stands}. `duly run JOB` starts one.")
    return OK


def _filter(arguments: Arguments) -> dict[str, Any]:
    """What the flags ask for."""
    pairs = [pair.partition("=") for pair in arguments.payload]
    for path, equals, _ in pairs:
        if not equals:
            raise Invalid("DULY-E604", f"{path!r} is not PATH=VALUE.", field="--payload", hint="For example --payload customer.id=42.")
    return {
        "state": arguments.state and arguments.state.upper(),
        "trigger": arguments.trigger,
        "last_outcome": arguments.outcome and arguments.outcome.upper(),
        "pool": arguments.pool,
        "handler": arguments.handler,
        "since": None if arguments.since is None else earlier_of(arguments.since, "--since"),
        "until": None if arguments.until is None else earlier_of(arguments.until, "--until"),
        "batch_id": arguments.batch,
        "worker_id": arguments.worker,
        "payload": {path: value for path, _, value in pairs},
    }


def _configure_one(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="an id such as run_0198c2…")
    remote_options(parser)


def _show(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        execution = client.send(calls.show_execution(remote.run_id(arguments.run)))
        out.one(fields(execution), execution, name=execution.execution_id)
        if execution.state is not StateName.RUNNING:
            say_why(client, out, execution.execution_id)
    return OK


def _attempts(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        found = client.send(calls.list_attempts(remote.run_id(arguments.run))).items
    out.rows(_ATTEMPT_COLUMNS, found, name=lambda attempt: str(attempt.attempt))
    if not found:
        out.say("No attempt has started yet.")
    return OK


def _cancel(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        execution = client.send(calls.cancel_execution(remote.run_id(arguments.run)))
    out.one(fields(execution), execution, name=execution.execution_id)
    if execution.state not in FINAL:
        out.say("It is running: its worker is told, and it stops soon.")
    return OK


def _retry(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        execution = client.send(calls.retry_execution(remote.run_id(arguments.run)))
    out.one(fields(execution), execution, name=execution.execution_id)
    if execution.execution_id != arguments.run:
        out.say(f"It was dead: it runs again as {execution.execution_id}.")
    return OK


def _configure_replay(parser: Parser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run that has ended")
    parser.add_argument("words", metavar="KEY=VALUE", nargs="*", help="another payload, key by key")
    parser.add_argument("--payload", metavar="JSON", help="another payload; @file reads a file, - standard input")
    _wait_options(parser)


def _replay(arguments: Arguments) -> int:
    out = output.of(arguments)
    payload = payload_of(arguments.words, arguments.payload)
    with remote.connect(arguments) as client:
        before = client.send(calls.show_execution(remote.run_id(arguments.run)))
        made = client.send(calls.replay_execution(before.execution_id, payload=payload))
        return _after_enqueue(client, out, made, before.job_name, arguments)


def _outcome(attempt: AttemptView) -> str:
    if attempt.outcome is None:
        return "▶ running"
    symbol = {"SUCCEEDED": "✓", "CANCELLED": "⊘", "RELEASED": "↩"}.get(attempt.outcome, "✗")
    return f"{symbol} {attempt.outcome.lower().replace('_', ' ')}"


def _ran(attempt: AttemptView) -> str:
    if attempt.started_at is None:
        return "–"
    end = output.now() if attempt.finished_at is None else output.instant(attempt.finished_at)
    return output.span(end - output.instant(attempt.started_at))


_ATTEMPT_COLUMNS: list[Column[AttemptView]] = [
    Column("attempt", lambda attempt: str(attempt.attempt)),
    Column("outcome", _outcome, lambda attempt: attempt.outcome or ""),
    Column("started", lambda attempt: output.relative(attempt.started_at), lambda attempt: attempt.started_at or ""),
    Column("ran", _ran, lambda attempt: attempt.finished_at or "", "finished"),
    Column("worker", lambda attempt: attempt.worker_id),
    Column("fence", lambda attempt: str(attempt.fence)),
    Column("retry", lambda attempt: output.relative(attempt.retry_at), lambda attempt: attempt.retry_at or ""),
    Column("error", lambda attempt: (error_text(attempt.error) or "").partition("\n")[0]),
]

_EXAMPLES = """
examples:
  duly run nightly-report region=eu day='{"from": 1}'
  duly run import --payload @rows.json --wait --timeout 10m
  duly run backup --exit-status && echo "it is safe"

exit codes: 7 not ended in time, 8 it did not succeed (--exit-status)
"""

_WATCH = ("follow a run to its end: how far it is, and how it ended", _configure_watch, _watch)

_RETRY = ("let a retry that waits run now, or replay a dead run", _configure_one, _retry)

COMMANDS = {
    "watch": Command(*_WATCH, "duly watch"),
    "retry": Command(*_RETRY, "duly retry", "Many at once: duly dead replay", changes=True),
    "run": Group(
        "Run a job now, and look at runs.",
        "duly run",
        {
            "list": Command("runs, newest first", _configure_list, _list, "duly run list"),
            "show": Command("one run: where it stands, its result or error", _configure_one, _show, "duly run show"),
            "logs": Command("what a run has logged", logs.options, logs.logs, "duly run logs"),
            "watch": Command(*_WATCH, "duly run watch"),
            "attempts": Command("every attempt of a run", _configure_one, _attempts, "duly run attempts"),
            "cancel": Command(
                "cancel a run: at once when it waits, soon when it runs", _configure_one, _cancel, "duly run cancel", changes=True
            ),
            "retry": Command(*_RETRY, "duly run retry", changes=True),
            "compare": Command("two runs beside each other, where they differ", comparing.configure, comparing.compare, "duly run compare"),
            "replay": Command("run an ended run again, as a new one", _configure_replay, _replay, "duly run replay", changes=True),
        },
        otherwise=Command("Run a job now, whatever its schedule says.", run_options, run, "duly run", _EXAMPLES, changes=True),
    ),
}
