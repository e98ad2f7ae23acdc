"""A declared job: still the plain function, and the way to enqueue it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid
from duly.domain.job import JobSpec
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt, ExecutorKind, PythonCall
from duly.sdk import batch
from duly.sdk.arguments import Arguments, BatchArguments
from duly.sdk.context import Context, enter
from duly.sdk.moments import instant_of
from duly.sdk.schedules import DeclaredSchedule
from duly.sdk.transactions import Using
from duly.sdk.wishes import NO_WISH, Wish, taken_apart

if TYPE_CHECKING:
    from duly.sdk.app import App

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """Calling it runs the function, here and now, as if it had never been declared."""

    def __init__(self, app: App, function: Callable[P, R], spec: JobSpec, kind: ExecutorKind) -> None:
        functools.update_wrapper(self, function)
        self.app = app
        self._function = function
        self.spec = spec
        self.arguments = Arguments(function) if spec.batch == 1 else BatchArguments(function)
        self.kind = kind

    @property
    def name(self) -> str:
        """The job's name."""
        return self.spec.name

    @property
    def schedule(self) -> DeclaredSchedule:
        """When it fires: `print(nightly_report.schedule.explain())`."""
        return DeclaredSchedule(self.app, self.spec)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    async def enqueue(self, *args: Any, **kwargs: Any) -> str:
        """Run it as soon as a worker is free; returns the execution's id. Arguments are checked here.

        A handler that takes one model gets it, or its fields. `delay="5m"` or `at=…` says when and `tx=session` in whose transaction,
        unless the handler has an argument of that name: then see enqueue_in, enqueue_at and using.
        """
        return await self._enqueue(args, kwargs)

    async def enqueue_in(self, delay: str | float | timedelta, *args: Any, **kwargs: Any) -> str:
        """Run it after a delay such as "5m"."""
        return await self._enqueue(args, kwargs, Wish(delay=parse_duration(delay, field="delay")))

    async def enqueue_at(self, when: datetime, *args: Any, **kwargs: Any) -> str:
        """Run it at a time, which needs a zone."""
        return await self._enqueue(args, kwargs, Wish(run_at=instant_of(when)))

    async def _enqueue(self, args: tuple[Any, ...], kwargs: dict[str, Any], said: Wish = NO_WISH) -> str:
        payload, wish = taken_apart(self.arguments, args, kwargs, said)
        if wish.tx is None:
            return (await self.app.enqueue_payloads(self, [payload], run_at=wish.run_at, delay=wish.delay))[0]
        answer = self.using(wish.tx).send(payload, wish)
        made: str = await answer if inspect.isawaitable(answer) else answer
        return made

    async def enqueue_many(self, calls: Iterable[Any]) -> list[str]:
        """Many at once, in one transaction: each is the keyword arguments of one call, or an item of a batch handler."""
        return await self.app.enqueue_payloads(self, [self.arguments.of_call(call) for call in calls])

    def using(self, connection: Any) -> Using:
        """The same in a transaction of yours: `await send_mail.using(connection).enqueue(user_id=7)`. See Using."""
        return Using(self.name, self.arguments, connection, sealed=self.app.is_sealed)

    def call(self) -> PythonCall:
        """How a worker runs it."""
        is_async = inspect.iscoroutinefunction(self._function)
        if isinstance(self.arguments, BatchArguments):
            many = batch.call_async if is_async else batch.call_sync
            return PythonCall(self.name, self.kind, many(self._function, self.arguments), self.spec.batch)
        single = self._call_async if is_async else self._call_sync
        arguments = self.arguments
        return PythonCall(self.name, self.kind, single(arguments), secret_defaults=arguments.secret_defaults, takes=arguments.takes)

    def _call_async(self, arguments: Arguments) -> Callable[[Attempt], Coroutine[Any, Any, Any]]:
        function: Any = self._function

        async def run(attempt: Attempt) -> Any:
            context = enter(attempt)
            return context.returned(await function(**_bind(arguments, attempt, context)))

        return run

    def _call_sync(self, arguments: Arguments) -> Callable[[Attempt], Any]:
        function: Any = self._function

        def run(attempt: Attempt) -> Any:
            context = enter(attempt)
            return context.returned(function(**_bind(arguments, attempt, context)))

        return run


def _bind(arguments: Arguments, attempt: Attempt, context: Context) -> dict[str, Any]:
    try:
        return arguments.bind(attempt.payload, context)
    except Invalid as error:
        raise Failure(str(error), type="InvalidPayload", retry=False) from error


def kind_of(function: Callable[..., Any], executor: str | None, batch: int) -> ExecutorKind:
    """Where a function runs: as it says, or on the event loop if it can. Raises Invalid when that does not go together."""
    is_async = inspect.iscoroutinefunction(function)
    if executor is None:
        return ExecutorKind.LOOP if is_async else ExecutorKind.THREAD
    if executor == "process":
        if batch > 1:
            raise Invalid("DULY-E118", 'a batch handler cannot have executor="process".', field="batch", hint="Leave one of them out.")
        return ExecutorKind.PROCESS
    if executor == "thread" and not is_async:
        return ExecutorKind.THREAD
    if executor == "loop" and is_async:
        return ExecutorKind.LOOP
    hint = 'Use "process", or leave it out.'
    raise Invalid("DULY-E118", f"executor={executor!r} does not go with this function.", field="executor", hint=hint)
