"""`duly why RUN|JOB`: why something stands where it stands, or did not happen."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from duly.cli import output, remote
from duly.cli.errors import OK
from duly.cli.output import BOLD, GREY, Column, Output
from duly.cli.parsing import Arguments, Command, Parser, remote_options
from duly.cli.times import earlier_of
from duly.domain.errors import Invalid
from duly.domain.why.answers import WhyCode
from duly.domain.zones import load_zone
from duly.sdk import why_calls
from duly.sdk.client import Client
from duly.wire.jobs import JobView
from duly.wire.why import ReasonView, WhyView

# What will not pass by itself: somebody has to start or change a worker.
_STUCK = frozenset(
    {WhyCode.NO_WORKER, WhyCode.NO_WORKER_IN_POOL, WhyCode.LABELS_MISSING, WhyCode.HANDLER_NOT_OFFERED, WhyCode.WORKERS_DRAINING}
)


def say_why(client: Client, out: Output, execution_id: str) -> None:
    """The one sentence at the end of what is shown of a run; and the way out, if it is stuck."""
    reason = client.send(why_calls.why_execution(execution_id)).reasons[0]
    out.say(f"\n{_with_hint(reason) if reason.code in _STUCK else reason.message}")


def say_if_stuck(client: Client, out: Output, execution_id: str) -> None:
    """Why a run that was just made may stay where it is, if nobody can run it."""
    reason = client.send(why_calls.why_execution(execution_id)).reasons[0]
    if reason.code in _STUCK:
        out.say(f"! {_with_hint(reason)}")


def _with_hint(reason: ReasonView) -> str:
    return f"{reason.message} {reason.hint}" if reason.hint else reason.message


def _configure(parser: Parser) -> None:
    parser.add_argument("what", metavar="RUN|JOB", help="a run's id, or a job's name or id")
    parser.add_argument("--at", metavar="TIME", help="a job at this time: with an offset, or as the clocks in the job's zone show it")
    remote_options(parser)


def _why(arguments: Arguments) -> int:
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        if remote.is_run(arguments.what):
            if arguments.at is not None:
                raise Invalid("DULY-E604", "--at goes with a job.", field="--at", hint="Name the job instead of the run.")
            answer = client.send(why_calls.why_execution(remote.run_id(arguments.what)))
        else:
            job = remote.find_job(client, arguments.what)
            answer = client.send(why_calls.why_job(job.job_id, at=None if arguments.at is None else _time(arguments.at, job)))
    _print(out, answer)
    return OK


def _time(text: str, job: JobView) -> datetime:
    """A time with an offset, or a reading of the clocks in the job's zone."""
    zone = load_zone(job.timezone or "UTC")
    try:
        # Also a time that the clocks leave out: that may be the very question.
        reading = datetime.fromisoformat(text)
    except ValueError:
        return earlier_of(text, "--at", zone)
    return reading.replace(tzinfo=zone) if reading.tzinfo is None else reading


def _print(out: Output, answer: WhyView) -> None:
    if not out.is_for_people:
        if out.format in ("json", "jsonl"):
            out.one([], answer, name="")
        else:
            out.rows(_COLUMNS, answer.reasons, name=lambda reason: reason.code)
        return
    print(output.paint(answer.summary, BOLD))
    for nth, reason in enumerate(answer.reasons):
        print()
        print(f"{output.paint(reason.code, GREY)}{'' if nth == 0 else f'  {reason.message}'}")
        width = max((len(name) for name, _ in _facts(reason)), default=0)
        for name, value in _facts(reason):
            print(f"  {output.paint(name.ljust(width), GREY)}  {value}")
    hints = list(dict.fromkeys(reason.hint for reason in answer.reasons if reason.hint))
    if hints:
        print("\n" + "\n".join(f"→ {hint}" for hint in hints))


def _facts(reason: ReasonView) -> list[tuple[str, str]]:
    facts = [(name, value if isinstance(value, str) else _compact(value)) for name, value in reason.facts.items()]
    times = [(name, output.moment(value) or "") for name, value in (("since", reason.since), ("until", reason.until)) if value]
    return facts + times


def _compact(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_COLUMNS: list[Column[ReasonView]] = [
    Column("code", lambda reason: reason.code),
    Column("message", lambda reason: reason.message),
    Column("since", lambda reason: reason.since or ""),
    Column("until", lambda reason: reason.until or ""),
    Column("hint", lambda reason: reason.hint or ""),
]

_EXAMPLES = """
examples:
  duly why run_0198c2d5a4e87f3b9c1d2e3f4a5b6c7d
  duly why nightly-report
  duly why nightly-report --at "2026-03-08 02:30"
"""

COMMANDS = {
    "why": Command("Why a run stands where it stands, or a job does not run: now, or at a time.", _configure, _why, "duly why", _EXAMPLES)
}
