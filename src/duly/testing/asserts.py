"""What an assertion about enqueued executions says when it does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duly.domain.execution import Execution
from duly.testing.moments import Moment, shown

MOST_LISTED = 10


def enqueued_as_wanted(
    job: str, arguments: dict[str, Any], at: Moment | None, wanted: str, found: Sequence[Execution], others: Sequence[Execution], zone: str
) -> str:
    """The message: what was expected, how it came, and what else of the job was enqueued."""
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    when = "" if at is None else f" for {at}"
    lines = [f"{job}({given}){when} was expected {wanted}, and was enqueued {len(found)} times."]
    lines += _listed("It was enqueued", found, zone) if found else []
    lines += _listed("Others of this job", others, zone) if others else []
    if not found and not others:
        lines.append("Nobody has enqueued this job at all: fires of its schedule do not count.")
    return "\n".join(lines)


def _listed(title: str, executions: Sequence[Execution], zone: str) -> list[str]:
    lines = [f"{title}:"]
    lines += [f"  {one.payload or '{}'}  due {shown(one.due_at, zone)}, {one.state.name.lower()}" for one in executions[:MOST_LISTED]]
    if len(executions) > MOST_LISTED:
        lines.append(f"  … and {len(executions) - MOST_LISTED} more")
    return lines
