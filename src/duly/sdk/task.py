"""A declared job: still the plain function, and the way to enqueue it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid
from duly.domain.job import JobSpec
from duly.ports.handlers import Attempt, ExecutorKind, Failure, PythonCall
from duly.sdk.arguments import Arguments
from duly.sdk.context import Context, enter
from duly.sdk.transactions import Using, instant_of

if TYPE_CHECKING:
    from duly.sdk.app import App

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """Calling it runs the function, here and now, as if it had never been declared."""

    def __init__(self, app: App, function: Callable[P, R], spec: JobSpec, kind: ExecutorKind) -> None:
        functools.update_wrapper(self, function)
        self._app = app
        self._function = function
        self.spec = spec
        self.arguments = Arguments(function)
        self.kind = kind

    @property
    def name(self) -> str:
        """The job's name."""
        return self.spec.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    async def enqueue(self, *args: Any, **kwargs: Any) -> str:
        """Run it as soon as a worker is free; returns the execution's id. Arguments are checked here."""
        return (await self._app.enqueue_payloads(self, [self.arguments.to_payload(args, kwargs)]))[0]

    async def enqueue_in(self, delay: str | float | timedelta, *args: Any, **kwargs: Any) -> str:
        """Run it after a delay such as "5m"."""
        payload = self.arguments.to_payload(args, kwargs)
        return (await self._app.enqueue_payloads(self, [payload], delay=parse_duration(delay, field="delay")))[0]

    async def enqueue_at(self, when: datetime, *args: Any, **kwargs: Any) -> str:
        """Run it at a time, which needs a zone."""
        payload = self.arguments.to_payload(args, kwargs)
        return (await self._app.enqueue_payloads(self, [payload], run_at=instant_of(when)))[0]

    async def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[str]:
        """Many at once, in one transaction: each item is the keyword arguments of one."""
        return await self._app.enqueue_payloads(self, [self.arguments.to_payload((), dict(call)) for call in calls])

    def using(self, connection: Any) -> Using:
        """The same in a transaction of yours: `await send_mail.using(connection).enqueue(user_id=7)`. See Using."""
        return Using(self.name, self.arguments, connection)

    def call(self) -> PythonCall:
        """How a worker runs it."""
        return PythonCall(self.name, self.kind, self._call_async() if inspect.iscoroutinefunction(self._function) else self._call_sync())

    def _call_async(self) -> Callable[[Attempt], Coroutine[Any, Any, Any]]:
        function: Any = self._function

        async def run(attempt: Attempt) -> Any:
            context = enter(attempt)
            return context.returned(await function(**self._bind(attempt, context)))

        return run

    def _call_sync(self) -> Callable[[Attempt], Any]:
        function: Any = self._function

        def run(attempt: Attempt) -> Any:
            context = enter(attempt)
            return context.returned(function(**self._bind(attempt, context)))

        return run

    def _bind(self, attempt: Attempt, context: Context) -> dict[str, Any]:
        try:
            return self.arguments.bind(attempt.payload, context)
        except Invalid as error:
            raise Failure(str(error), type="InvalidPayload", retry=False) from error
