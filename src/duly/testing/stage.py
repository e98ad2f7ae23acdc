"""What a test has planned for its executions: attempts that fail, workers that die in the middle of one; and what was seen of each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from duly.domain.errors import Invalid
from duly.domain.ids import ExecutionId
from duly.domain.instants import SECOND, Instant, Micros
from duly.ports.handlers import Attempt, ExecutorKind, PythonCall
from duly.testing.moments import Span, span_of
from duly.testing.strands import in_strands

Error = BaseException | type[BaseException]


@dataclass(slots=True, eq=False)
class Script:
    """What befalls one execution. `fail` has an error for each attempt, or None for one that goes well; then they all go well."""

    fail: Sequence[Error | None] = ()
    kill_after: Micros | None = None
    # Of a fire that is still to come: the instant it stands for; None is the next one, whichever it is.
    on: Instant | None = None
    was_killed: bool = False


@dataclass(slots=True)
class Stage:
    """The scripts by execution, and those that wait for one of their job's."""

    kill: Callable[[str], None]
    by_execution: dict[ExecutionId, Script] = field(default_factory=dict)
    by_job: dict[str, list[Script]] = field(default_factory=dict)
    # The checkpoint with which each attempt began.
    resumed: dict[tuple[ExecutionId, int], Any] = field(default_factory=dict)
    # The execution that began last.
    begun: ExecutionId | None = None

    def calls(self, declared: Mapping[str, PythonCall]) -> dict[str, PythonCall]:
        """The handlers, with the scripts before them."""
        return {name: self._scripted(in_strands(call)) for name, call in declared.items()}

    def _scripted(self, call: PythonCall) -> PythonCall:
        inner = call.call
        if call.batch > 1:
            return replace(call, call=lambda attempts: self._run_many(inner, attempts))

        def run(attempt: Attempt) -> Coroutine[Any, Any, Any]:
            self.begun = attempt.id
            # No coroutine around it where nothing is planned: a handler that ends at its first step costs no more than in a worker.
            if attempt.attempt > 1:
                self._note(attempt)
            script = self._script_of(attempt)
            return inner(attempt) if script is None else self._run(inner, attempt, script)

        return replace(call, kind=ExecutorKind.LOOP, call=run)

    async def _run(self, inner: Callable[[Any], Any], attempt: Attempt, script: Script) -> Any:
        timer = self._begin(attempt, script)
        try:
            return await inner(attempt)
        finally:
            if timer is not None:
                timer.cancel()

    async def _run_many(self, inner: Callable[[Any], Any], attempts: Sequence[Attempt]) -> Any:
        for attempt in attempts:
            self._note(attempt)
            if (script := self._script_of(attempt)) is not None:
                self._begin(attempt, script)
        return await inner(attempts)

    def waiting(self) -> list[tuple[str, Script]]:
        """The scripts that have befallen nobody so far, each with its job."""
        return [(job, script) for job, scripts in self.by_job.items() for script in scripts]

    @contextlib.contextmanager
    def first_in_line(self, job: str, script: Script | None) -> Iterator[None]:
        """Inside, whoever begins of this job first gets the script: it may run before its id is known. After it nobody does by chance."""
        if script is not None:
            self.by_job.setdefault(job, []).insert(0, script)
        try:
            yield
        finally:
            if script is not None and script in (left := self.by_job[job]):
                left.remove(script)

    def last_begun(self) -> ExecutionId | None:
        """The execution whose handler was called last, since `begun` was forgotten."""
        return self.begun

    def _note(self, attempt: Attempt) -> None:
        kept = attempt.kept
        if kept is not None and kept.data is not None:
            self.resumed[attempt.id, attempt.attempt] = msgspec.json.decode(kept.data)

    def _script_of(self, attempt: Attempt) -> Script | None:
        if not self.by_execution and not self.by_job:
            return None
        found = self.by_execution.get(attempt.id)
        if found is None and attempt.attempt == 1 and (coming := self.by_job.get(attempt.version.spec.name)):
            found = next((script for script in coming if script.on in (None, attempt.scheduled_at)), None)
            if found is not None:
                coming.remove(found)
                self.by_execution[attempt.id] = found
        return found

    def _begin(self, attempt: Attempt, script: Script) -> asyncio.TimerHandle | None:
        """Fail if that is planned; else answer what will kill the worker, if that is."""
        nth = attempt.attempt - 1 - script.was_killed
        if nth < len(script.fail) and (error := script.fail[nth]) is not None:
            raise error if isinstance(error, BaseException) else error("planned by the test")
        if script.kill_after is None or script.was_killed:
            return None

        def kill() -> None:
            script.was_killed = True
            self.kill(attempt.worker_name)

        return asyncio.get_running_loop().call_later(script.kill_after / SECOND, kill)


def script_of(fail: Sequence[Error | None] | Error | None, kill_worker_after: Span | None) -> Script | None:
    """What is planned, or None for nothing. Raises Invalid (DULY-E118) for what is no exception."""
    errors = [fail] if isinstance(fail, BaseException | type) else list(fail or [])
    for error in errors:
        kind = error if isinstance(error, type) else type(error)
        if error is not None and not issubclass(kind, BaseException):
            raise Invalid("DULY-E118", f"{error!r} is no exception.", field="fail", hint="For example fail=[TimeoutError, None].")
    kill = None if kill_worker_after is None else span_of(kill_worker_after, "kill_worker_after")
    return None if not errors and kill is None else Script(errors, kill)
