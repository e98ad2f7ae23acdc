"""`duly run compare`: two runs beside each other, where they differ."""

from __future__ import annotations

from typing import NamedTuple

from duly.cli import output, remote
from duly.cli.errors import OK
from duly.cli.execution_text import fields
from duly.cli.output import Column
from duly.cli.parsing import Arguments, Parser, remote_options
from duly.domain.instants import to_datetime
from duly.sdk import calls
from duly.wire.executions import ExecutionView


class Difference(NamedTuple):
    """One thing that is not the same in both."""

    field: str
    first: str | None
    second: str | None


def differences(first: ExecutionView, second: ExecutionView) -> list[Difference]:
    """What `duly run show` says of them, where that differs."""
    pairs = zip(fields(first), fields(second), strict=True)
    return [Difference(name, one, other) for (name, one), (_, other) in pairs if one != other]


def configure(parser: Parser) -> None:
    """Which two."""
    parser.add_argument("run", metavar="RUN", help="a run's id")
    parser.add_argument("other", metavar="OTHER", nargs="?", help="another; the run of the same job before it otherwise")
    remote_options(parser)


def compare(arguments: Arguments) -> int:
    """Both beside each other."""
    out = output.of(arguments)
    with remote.connect(arguments) as client:
        first = client.send(calls.show_execution(remote.run_id(arguments.run)))
        if arguments.other is not None:
            second = client.send(calls.show_execution(remote.run_id(arguments.other)))
        else:
            until = to_datetime(output.instant(first.scheduled_at))
            earlier = client.send(calls.list_executions(job_id=first.job_id, until=until, limit=1)).items
            if not earlier:
                out.say(f"There is no run of {first.job_name} before it.")
                return OK
            second = earlier[0]
    found = differences(first, second)
    out.rows(_COLUMNS, found, name=lambda row: row.field)
    return OK


_COLUMNS: list[Column[Difference]] = [
    Column("field", lambda row: row.field),
    Column("first", lambda row: row.first or "–"),
    Column("second", lambda row: row.second or "–"),
]
