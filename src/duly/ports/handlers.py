"""Handlers: what a worker can run, and how it runs one attempt."""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from json import dumps
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol

from duly.domain.execution import LeaseId, LogLine
from duly.domain.ids import ExecutionId, idempotency_key
from duly.domain.instants import Instant
from duly.domain.job import JobVersion, Target
from duly.domain.lifecycle import Outcome
from duly.domain.logs import LONGEST_LINE, Allowance, dropped_words, limit_words, shortened
from duly.domain.redaction import Veil, json_without_credentials, without_credentials, without_named
from duly.domain.signature import Takes

if TYPE_CHECKING:
    from duly.ports.parents import Parent
    from duly.ports.transactions import Transactions

Keeper = Callable[["Attempt", str], "Future[None]"]
# What the steps before it came to.
Ancestry = Callable[["Attempt"], "Future[list[Parent]]"]


class Kept:
    """The last checkpoint of an execution: its number over all attempts, and its data as JSON."""

    __slots__ = ("data", "number", "writing")

    def __init__(self, number: int = 0, data: str | None = None) -> None:
        self.number = number
        self.data = data
        # One at a time, so that numbers are committed in their order.
        self.writing = Lock()


class Extras:
    """What few attempts ever have: log lines, progress, beats, a checkpoint, a handler that goes on after the end."""

    __slots__ = (
        "allowance",
        "beats",
        "kept",
        "logs",
        "logs_sent",
        "losses",
        "over",
        "partial",
        "progress",
        "target",
        "traceparent",
        "unkept",
        "veil",
    )

    def __init__(self) -> None:
        self.logs: list[LogLine] | None = None
        self.allowance: Allowance | None = None
        # The beginning of a line that its handler prints.
        self.partial = ""
        # So many characters of it are more than a line can have.
        self.unkept = 0
        self.logs_sent = 0
        self.progress: str | None = None
        self.beats = 0
        self.kept: Kept | None = None
        # How many processes have died of this execution before.
        self.losses = 0
        # Its end was reported while its handler still runs: nothing it does counts any more.
        self.over = False
        # Over the secrets that were resolved for it, and what it calls with those in their places.
        self.veil: Veil | None = None
        self.target: Target | None = None
        # Its own span, for whoever it calls; None while it is not traced.
        self.traceparent: str | None = None


class Attempt:
    """One attempt in progress, as executors and handlers see it. Mutable, and one per attempt: kept small.

    What a short handler never touches stands in `extras`, which is made when it is first needed.
    """

    __slots__ = (
        "_extras",
        "ancestry",
        "attempt",
        "cancelled",
        "clock",
        "deadline",
        "due_at",
        "failures",
        "fence",
        "holds_place",
        "id",
        "keeper",
        "marked",
        "nominal_at",
        "payload",
        "started_at",
        "stop",
        "transactions",
        "version",
        "worker_name",
    )

    def __init__(
        self,
        id: ExecutionId,
        attempt: int,
        failures: int,
        fence: LeaseId,
        due_at: Instant,
        version: JobVersion,
        payload: Any,
        clock: Callable[[], Instant],
        worker_name: str,
        holds_place: bool = False,
        keeper: Keeper | None = None,
    ) -> None:
        self.id = id
        self.attempt = attempt
        self.failures = failures
        self.fence = fence
        self.due_at = due_at
        self.version = version
        self.payload = payload
        self.holds_place = holds_place
        self.clock = clock
        self.worker_name = worker_name
        self.keeper = keeper
        # Its nominal time, where that is not when it was due: jitter, a backfill.
        self.nominal_at: Instant | None = None
        self.transactions: Transactions | None = None
        # Only a step of a workflow has one.
        self.ancestry: Ancestry | None = None
        self.started_at: Instant = 0
        self.deadline: Instant | None = None
        # The token: whoever runs the handler looks at it, and ends as soon as it can.
        self.cancelled = False
        # Why it was asked to stop; None while it was not.
        self.stop: Outcome | None = None
        # Whether its payload names secrets that are to be resolved.
        self.marked = False
        self._extras: Extras | None = None

    @property
    def extras(self) -> Extras:
        """Made here when it is first asked for. Whoever hands the attempt to a thread asks first, so that nobody makes it twice."""
        if self._extras is None:
            self._extras = Extras()
        return self._extras

    @property
    def is_plain(self) -> bool:
        """Whether it has nothing but its outcome to report."""
        return self._extras is None

    @property
    def over(self) -> bool:
        """Whether its end was reported while its handler still runs."""
        return self._extras is not None and self._extras.over

    @property
    def kept(self) -> Kept | None:
        """The last checkpoint of its execution."""
        return None if self._extras is None else self._extras.kept

    @property
    def logs(self) -> list[LogLine]:
        """The lines that its handler has logged so far."""
        return [] if self._extras is None or self._extras.logs is None else self._extras.logs

    @property
    def target(self) -> Target:
        """What it calls, with the secrets that it needs for that."""
        resolved = None if self._extras is None else self._extras.target
        return self.version.spec.target if resolved is None else resolved

    @property
    def traceparent(self) -> str | None:
        """The trace context of this attempt; None when it is not traced."""
        return None if self._extras is None else self._extras.traceparent

    @property
    def veil(self) -> Veil | None:
        """What hides the secrets that were resolved for it; None when there were none."""
        return None if self._extras is None else self._extras.veil

    def redacted(self, text: str) -> str:
        """Words that are kept, a log line or an error: without its secrets, and without what looks like a credential."""
        veil = self.veil
        return without_credentials(text if veil is None else veil.over(text))

    def hidden_json(self, text: str) -> str:
        """JSON that is kept, a result, a checkpoint or progress: without its secrets."""
        veil = self.veil
        return text if veil is None else veil.over_json(text)

    @property
    def scheduled_at(self) -> Instant:
        """The time it stands for: of a fire, that of the schedule."""
        return self.due_at if self.nominal_at is None else self.nominal_at

    @property
    def idempotency_key(self) -> str:
        """Stable over attempts: what a handler hands on to whoever must do a thing once."""
        job = self.version
        return idempotency_key(job.tenant_name, job.spec.name, job.job_id, self.id, self.scheduled_at)

    def beat(self) -> None:
        """The handler is alive. Any thread may say so."""
        self.extras.beats += 1

    def tell(self, progress: str) -> None:
        """How far it is, as JSON. The latest counts; it reaches the store with the next flush."""
        extras = self.extras
        extras.beats += 1
        extras.progress = json_without_credentials(progress if extras.veil is None else extras.veil.over_json(progress))

    def keep(self, data: str) -> Future[None]:
        """Save a checkpoint (JSON), from any thread. Done means committed; raises LeaseLost in the future when it was refused."""
        self.extras.beats += 1
        if self.keeper is None:
            raise RuntimeError("nobody keeps checkpoints of this attempt")
        return self.keeper(self, self.hidden_json(data))

    def log(self, level: str, message: str, fields: dict[str, Any], unkept: int = 0) -> None:
        """Keep a line; it reaches the store with the next flush. Past the limits one line says so, and the rest is counted only.

        `unkept` characters at its end are not in the message any more.
        """
        extras = self.extras
        if extras.logs is None or extras.allowance is None:
            extras.logs, extras.allowance = [], Allowance()
        line = shortened(storable(self.redacted(message)), unkept)
        kept = self._fields(fields) if fields else fields
        allowance = extras.allowance
        if allowance.take(len(line) + (len(dumps(kept)) if kept else 0)):
            extras.logs.append(LogLine(self.clock(), level, line, kept))
        elif allowance.dropped_lines == 1:
            extras.logs.append(LogLine(self.clock(), "warning", limit_words(), {}))

    @property
    def log_is_full(self) -> bool:
        """Whether nothing more is kept of what it says."""
        allowance = None if self._extras is None else self._extras.allowance
        return allowance is not None and allowance.dropped_lines > 0

    def pass_over(self, lines: int, size: int) -> None:
        """Count what was said after the log was full."""
        allowance = self.extras.allowance
        if allowance is not None:
            allowance.dropped_lines += lines
            allowance.dropped_bytes += size

    def close_log(self) -> None:
        """The handler has ended: what it had begun to print is a line, and what was not kept is counted in one."""
        extras = self.extras
        if extras.partial:
            rest, unkept = extras.partial, extras.unkept
            extras.partial, extras.unkept = "", 0
            self.log("info", rest, {}, unkept)
        allowance = extras.allowance
        if extras.logs is not None and allowance is not None and allowance.dropped_lines and not allowance.is_told:
            allowance.is_told = True
            words = dropped_words(allowance.dropped_lines, allowance.dropped_bytes)
            extras.logs.append(LogLine(self.clock(), "warning", words, {}))

    def _fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        kept = without_named(_storable_fields(fields))
        return kept if self.veil is None else self.veil.over_value(kept)


def storable(text: str) -> str:
    """Text that every store can keep: NUL and lone surrogates cannot be stored."""
    return text.replace("\x00", "\ufffd") if text.isascii() else text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def _storable_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields that every store can keep; a log line is not worth failing for."""
    try:
        cleaned = _storable_value(fields, 0)
        size = len(dumps(cleaned))
    except Exception as error:
        return {"unloggable": type(error).__name__}
    return cleaned if isinstance(cleaned, dict) and size <= LONGEST_LINE else {"unloggable": f"{size:,} characters of fields"}


def _storable_value(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, str):
        return storable(value)
    if depth < 8 and isinstance(value, dict):
        return {storable(str(key)): _storable_value(item, depth + 1) for key, item in value.items()}
    if depth < 8 and isinstance(value, list | tuple | set | frozenset):
        return [_storable_value(item, depth + 1) for item in value]
    return storable(str(value))


class ExecutorKind(StrEnum):
    """Where a Python handler runs."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class PythonCall:
    """A Python function that a worker can run: `call(attempt)` binds the payload and calls it; an awaitable when `kind` is LOOP.

    With `batch` above 1 it takes a list of attempts, at most that many, and returns a list of results or None.
    """

    name: str
    kind: ExecutorKind
    call: Callable[[Any], Any]
    batch: int = 1
    # Arguments whose default is a secret, by its reference.
    secret_defaults: Mapping[str, str] = field(default_factory=dict)
    # What it takes; None: that is not known.
    takes: Takes | None = None


class CallSource(Protocol):
    """An application that declares Python handlers; child processes import it by the reference the operator gave."""

    def calls(self) -> Mapping[str, PythonCall]:
        """Every handler by its name."""


class Places(Protocol):
    """Where handlers run that need more than a slot: so many fit, and handlers may share them."""

    @property
    def free(self) -> int:
        """How many more could begin now."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A named thing that a worker can run.

    `run` is awaited with the attempt and returns a JSON-encodable result; an exception is a failure. When the task that
    awaits it is cancelled and the attempt has a `stop`, it is asked: it passes the wish on and waits for the end, whatever
    that is. Asked a second time, or cancelled without a `stop`, it ends what it started before it lets the CancelledError go on.

    `run_many` takes what was claimed together, at most `batch` of one job version, and returns a result for each, or None.
    """

    name: str
    run: Callable[[Attempt], Coroutine[Any, Any, Any]]
    close: Callable[[], Awaitable[None]] | None = None
    run_many: Callable[[Sequence[Attempt]], Coroutine[Any, Any, Any]] | None = None
    batch: int = 1
    # It runs in a process of its own, and raises Died when that ends under it.
    may_die: bool = False
    # What it needs besides a slot. Nothing is claimed for a handler that could only wait for a place: it would keep a slot from others.
    places: Places | None = None
    # Arguments that it takes from secrets, by their references, unless the payload has them.
    secret_defaults: Mapping[str, str] = field(default_factory=dict)
    # The names of its arguments; None: it does not say.
    takes: Takes | None = None
    # `run` with a span around it, for an execution that was claimed with a trace context; None: nobody traces.
    run_traced: Callable[[Attempt], Coroutine[Any, Any, Any]] | None = None


@dataclass(slots=True)
class Registry:
    """The handlers of one worker by name: an explicit list, never an import path from the wire."""

    by_name: dict[str, Handler] = field(default_factory=dict)

    def add(self, handler: Handler) -> None:
        """Offer a handler; the last one of a name wins."""
        self.by_name[handler.name] = handler

    def names(self) -> list[str]:
        """What is offered, in order."""
        return sorted(self.by_name)

    def takes(self) -> dict[str, Takes]:
        """What they take, of those that say so."""
        return {name: handler.takes for name, handler in sorted(self.by_name.items()) if handler.takes is not None}

    def get(self, name: str) -> Handler | None:
        """The handler of that name."""
        return self.by_name.get(name)
