"""An execution in words: its row in a list, its fields, its situation."""

from __future__ import annotations

from typing import Any

import msgspec

from duly.cli import output
from duly.cli.output import Column
from duly.wire.executions import CheckpointView, ExecutionView, StateName

# Below this nobody calls it late.
TOLERATED_MS = 1000


def situation(execution: ExecutionView) -> str:
    """Symbol, word, and what else there is to know: which attempt, why skipped, when it is tried again."""
    text = output.state_text(execution.state)
    tries = f"{execution.attempt}/{execution.max_attempts}"
    if execution.state is StateName.SCHEDULED and execution.last_outcome is not None:
        when = output.relative(execution.next_attempt_at)
        return f"↻ retrying (attempt {tries} {when})"
    if execution.state is StateName.RUNNING and execution.cancel_asked_at is not None:
        return f"{text} (asked to stop)"
    if execution.state is StateName.RUNNING and execution.attempt > 1:
        return f"{text} (attempt {tries})"
    if execution.skip_reason is not None:
        return f"{text} ({execution.skip_reason})"
    return text


def error_text(error: Any) -> str | None:
    """The error in one line, and its detail below."""
    if not isinstance(error, dict):
        return None if error is None else _compact(error)
    line = ": ".join(str(error[key]) for key in ("type", "message") if error.get(key)) or str(error.get("reason", ""))
    detail = error.get("detail")
    return f"{line}\n{detail.rstrip()}" if isinstance(detail, str) else line


def duration(execution: ExecutionView) -> str:
    """How long it ran, or has run so far."""
    if execution.started_at is None:
        return "–"
    end = output.now() if execution.finished_at is None else output.instant(execution.finished_at)
    return output.span(end - output.instant(execution.started_at))


def lateness(execution: ExecutionView) -> str:
    """How long after its due time it started."""
    return "–" if execution.lateness_ms is None else output.span(execution.lateness_ms * 1000)


def progress_text(progress: Any) -> str | None:
    """How far it is: `30 of 200 (15 %)  reading`."""
    if not isinstance(progress, dict) or "done" not in progress:
        return None if progress is None else _compact(progress)
    done, total, message = progress["done"], progress.get("total"), progress.get("message")
    text = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    if total:
        text += f" ({100 * done / total:.0f} %)"
    return f"{text}  {message}" if message else text


def checkpoint_text(checkpoint: CheckpointView) -> str:
    """Which one, and when it was saved."""
    return f"no. {checkpoint.number}, saved {output.relative(checkpoint.saved_at)}"


def fields(execution: ExecutionView) -> list[tuple[str, str | None]]:
    """All of it, for `run show`."""
    late = execution.lateness_ms
    return [
        ("run", execution.execution_id),
        ("job", f"{execution.job_name}  ({execution.job_id})"),
        ("state", situation(execution)),
        ("trigger", execution.trigger),
        ("due", output.moment(execution.scheduled_at)),
        ("started", output.moment(execution.started_at)),
        ("late", None if late is None else f"{lateness(execution)}{'  (late)' if late > TOLERATED_MS and execution.attempt <= 1 else ''}"),
        ("ran", None if execution.started_at is None else duration(execution)),
        ("finished", output.moment(execution.finished_at)),
        ("attempt", f"{execution.attempt}/{execution.max_attempts}"),
        ("worker", execution.worker_id),
        ("progress", progress_text(execution.progress)),
        ("checkpoint", None if execution.checkpoint is None else checkpoint_text(execution.checkpoint)),
        ("payload", None if execution.payload is None else _compact(execution.payload)),
        ("result", None if execution.result is None else _compact(execution.result)),
        ("error", error_text(execution.error)),
        ("replayed as", execution.replayed_as),
        ("discarded", output.moment(execution.discarded_at)),
        ("batch", execution.batch_id),
    ]


def _compact(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _remark(execution: ExecutionView) -> str:
    if execution.error is not None and execution.state is not StateName.SUCCEEDED:
        return (error_text(execution.error) or "").partition("\n")[0]
    return "" if execution.result is None else _compact(execution.result)[:200]


def _plain_duration(execution: ExecutionView) -> str:
    if execution.started_at is None or execution.finished_at is None:
        return ""
    return str((output.instant(execution.finished_at) - output.instant(execution.started_at)) // 1000)


COLUMNS: list[Column[ExecutionView]] = [
    Column("state", situation, lambda execution: execution.state, colour=lambda execution: output.state_colour(execution.state)),
    Column("job", lambda execution: execution.job_name),
    Column("due", lambda execution: output.relative(execution.scheduled_at), lambda execution: execution.scheduled_at),
    Column("late", lateness, lambda execution: "" if execution.lateness_ms is None else str(execution.lateness_ms), "late_ms"),
    Column("ran", duration, _plain_duration, "ran_ms"),
    Column("attempt", lambda execution: f"{execution.attempt}/{execution.max_attempts}", lambda execution: str(execution.attempt)),
    Column("run", lambda execution: execution.execution_id),
    Column("result or error", _remark, None, "remark"),
]
