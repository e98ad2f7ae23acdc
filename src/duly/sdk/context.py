"""What a handler sees of its execution."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec

from duly.domain.errors import LeaseLost
from duly.domain.ids import execution_text, job_text
from duly.domain.instants import to_datetime
from duly.ports.current import speaker
from duly.ports.endings import Snooze
from duly.ports.handlers import Attempt
from duly.sdk.checkpoint import Checkpoint
from duly.sdk.parents import ParentResults
from duly.sdk.progress import Progress
from duly.sdk.shield import shielded
from duly.sdk.transactions import Transaction, complete_with, encode_result

if TYPE_CHECKING:
    from duly.sdk.task import Task
    from duly.sdk.workflow import Workflow

T = TypeVar("T")


class Cancelled(Exception):
    """The execution was asked to stop; raised by `Context.raise_if_cancelled`."""


class Log:
    """A structured log of one attempt: kept with it, and shown live."""

    __slots__ = ("_attempt",)

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def debug(self, message: str, **fields: Any) -> None:
        """Detail for whoever looks closely."""
        self._write("debug", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        """What happened."""
        self._write("info", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        """What somebody should look at."""
        self._write("warning", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        """What went wrong."""
        self._write("error", message, fields)

    def _write(self, level: str, message: str, fields: dict[str, Any]) -> None:
        self._attempt.log(level, message, fields)


class Context:
    """One attempt of one execution. Every value is read from the attempt; nothing here is shared.

    A batch handler gets the context of the first execution; `items` has that of each.
    """

    __slots__ = ("_attempt", "_ended", "_members", "_open", "_parents", "_result")

    def __init__(self, attempt: Attempt, members: Sequence[Attempt] = ()) -> None:
        self._attempt = attempt
        self._members = members
        self._parents: ParentResults | None = None
        self._result: str | None = None
        self._ended = False
        # The connection of a transaction block that is open.
        self._open: Any = None

    @property
    def log(self) -> Log:
        """The attempt's own log."""
        return Log(self._attempt)

    @property
    def speaks_for(self) -> Attempt:
        """The attempt whose log gets what the handler logs and prints by other means; of a batch, the first one's."""
        return self._attempt

    @property
    def items(self) -> list[Context]:
        """A context for each execution of a batch, in the order of the items; only this one when it is none."""
        return [Context(attempt) for attempt in self._members] if self._members else [self]

    @property
    def run_id(self) -> str:
        """The execution's id, `run_…`."""
        return execution_text(self._attempt.id)

    @property
    def job(self) -> str:
        """The job's name."""
        return self._attempt.version.spec.name

    @property
    def job_id(self) -> str:
        """The job's id, `job_…`."""
        return job_text(self._attempt.version.job_id)

    @property
    def tenant(self) -> str:
        """Whose job it is."""
        return self._attempt.version.tenant_name

    @property
    def labels(self) -> dict[str, str]:
        """The labels that the job requires, which its worker therefore has."""
        return dict(self._attempt.version.spec.target.requires)

    @property
    def attempt(self) -> int:
        """Which try this is, from 1."""
        return self._attempt.attempt

    @property
    def max_attempts(self) -> int:
        """How many tries may fail."""
        return self._attempt.version.spec.retry.max_attempts

    @property
    def fence(self) -> int:
        """The fencing token: it only grows, so whatever you write to can refuse a lower one."""
        return self._attempt.fence

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this execution: hand it to whatever must happen once."""
        return self._attempt.idempotency_key

    @property
    def traceparent(self) -> str | None:
        """The trace context of this attempt, for whatever it calls (W3C `traceparent`); None when it is not traced."""
        return self._attempt.traceparent

    @property
    def scheduled_at(self) -> datetime:
        """The time it stands for: of a fire or a backfill, that of the schedule; jitter and waiting do not move it."""
        return to_datetime(self._attempt.scheduled_at)

    @property
    def due_at(self) -> datetime:
        """When it was due."""
        return to_datetime(self._attempt.due_at)

    @property
    def started_at(self) -> datetime:
        """When this attempt began."""
        return to_datetime(self._attempt.started_at)

    @property
    def lateness(self) -> timedelta:
        """How long after its due time this attempt began."""
        return timedelta(microseconds=self._attempt.started_at - self._attempt.due_at)

    @property
    def deadline(self) -> datetime | None:
        """When this attempt is stopped, if the job has a timeout."""
        return None if self._attempt.deadline is None else to_datetime(self._attempt.deadline)

    @property
    def cancelled(self) -> bool:
        """Whether it was asked to stop: cancelled, out of time, or its worker drains. Of a batch: all of it."""
        if self._members:
            return all(attempt.cancelled for attempt in self._members)
        return self._attempt.cancelled

    def raise_if_cancelled(self) -> None:
        """Stop here if it was asked to."""
        if self.cancelled:
            raise Cancelled(self.run_id)

    async def shield(self, work: Coroutine[Any, Any, T]) -> T:
        """`await ctx.shield(pay(order))`: a cancel or a timeout that comes meanwhile lands when the work has ended, within the job's
        `stop_grace`. For async handlers: in a plain one nothing lands but by `raise_if_cancelled`.
        """
        return await shielded(work)

    def snooze(self, wait: str | float | timedelta) -> NoReturn:
        """End here and be called again then, at no cost in attempts: `raise Snooze(wait)` in a word."""
        raise Snooze(wait)

    def enqueue(self, job: Task[Any, Any] | Workflow, /, *args: Any, **kwargs: Any) -> Any:
        """Enqueue another job of the application: `await ctx.enqueue(send_mail, user_id=7)`; a plain handler has its id at once."""
        call = job.enqueue(*args, **kwargs)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return job.app.sync.wait(call)
        return call

    def heartbeat(self) -> None:
        """Say that it is alive, for a job with a `heartbeat_timeout`. Progress and checkpoints say it as well."""
        self._attempt.beat()

    def progress(self, done: float | None = None, total: float | None = None, message: str | None = None, *, start: float = 0) -> Progress:
        """How far it is; shown to whoever looks. Cheap: the latest is sent along every now and then.

        `ctx.progress(3, 10)` says it once; `with ctx.progress(total=10, start=3) as bar:` has `bar.advance()` say it from there on.
        """
        return Progress(self._attempt, start if done is None else done, total, message)

    @property
    def checkpoint(self) -> Checkpoint:
        """What is kept for the next attempt: `await ctx.checkpoint(value)` saves a value, `ctx.checkpoint.save(done=500)` named ones and
        `ctx.checkpoint.get("done", 0)` reads one. In a plain handler nothing is awaited: it has been saved when the call returns.
        """
        return Checkpoint(self._attempt)

    @property
    def last_checkpoint(self) -> Any:
        """What the last checkpoint saved, in this attempt or an earlier one; None when there is none."""
        return self.checkpoint.last

    @property
    def parents(self) -> ParentResults:
        """What the steps before this one came to, by their names; empty for what is no step of a workflow.

        `results = await ctx.parents` in an async handler; `ctx.parents["load"]` in a plain one. Whole, however long a result is.
        """
        if self._parents is None:
            self._parents = ParentResults(self._attempt)
        return self._parents

    # ------------------------------------------------------------ effects that commit with the end of the attempt

    def transaction(self) -> Transaction:
        """A transaction of the store: what is written in the block commits with the end of this attempt, or not at all.

        `async with ctx.transaction() as connection:` gives an asyncpg connection on PostgreSQL; on SQLite, where `with` serves a
        handler in a thread, a sqlite3 connection to the same file. One block per attempt. An exception in it rolls back and is
        the attempt's failure; LeaseLost, after a rollback, means that another worker has the execution.
        """
        if self._ended:
            raise LeaseLost.of(self.run_id)
        return Transaction(self._attempt, lambda: self._result, self._settle, self._opened)

    @property
    def tx(self) -> Any:
        """The connection of the `transaction()` block that is open, for whoever writes deeper down; None outside of one."""
        return self._open

    def result(self, value: Any) -> None:
        """What the execution's result is when its transaction commits: what a handler returns comes too late for that."""
        self._result = encode_result(value, self._attempt)

    def complete_with(self, connection: Any, result: Any = None) -> Any:
        """End this attempt as succeeded in a transaction of yours, on any connection that `Task.using` takes: call it last, then commit.

        Raises LeaseLost when the attempt is no longer yours to end: roll back. Returns a coroutine if the library is async. What the
        handler returns counts only if that transaction was rolled back.
        """
        return complete_with(self._attempt, connection, self._result if result is None else encode_result(result, self._attempt))

    def returned(self, value: Any) -> Any:
        """What the worker reports for what the handler returned: what was committed stands."""
        if not self._ended:
            return value
        if value is not None and encode_result(value, self._attempt) != self._result:
            self.log.warning("the result was committed with the transaction; what the handler returned later is not kept")
        return None if self._result is None else msgspec.json.decode(self._result)

    def _opened(self, connection: Any) -> None:
        self._open = connection

    def _settle(self, result: str | None) -> None:
        self._ended, self._result = True, result


def current() -> Context:
    """The context of the handler that runs here. Raises RuntimeError outside of one."""
    context = speaker.get()
    if not isinstance(context, Context):
        raise RuntimeError("duly.current() works inside a handler only")
    return context


def enter(attempt: Attempt, members: Sequence[Attempt] = ()) -> Context:
    """Make the context of an attempt, or of a batch, the current one."""
    context = Context(attempt, members)
    speaker.set(context)
    return context
