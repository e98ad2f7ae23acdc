"""How a batch handler is called: with the items that fit, and each that does not fails alone."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from duly.domain.errors import Invalid
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt
from duly.sdk.arguments import BatchArguments
from duly.sdk.context import enter


def call_async(function: Callable[..., Any], arguments: BatchArguments) -> Callable[[Sequence[Attempt]], Coroutine[Any, Any, Any]]:
    """The call of a coroutine function."""

    async def run(attempts: Sequence[Attempt]) -> Any:
        batch = _Batch(attempts, arguments)
        return batch.results(await function(**batch.bound()) if batch.items else None)

    return run


def call_sync(function: Callable[..., Any], arguments: BatchArguments) -> Callable[[Sequence[Attempt]], Any]:
    """The call of a plain function."""

    def run(attempts: Sequence[Attempt]) -> Any:
        batch = _Batch(attempts, arguments)
        return batch.results(function(**batch.bound()) if batch.items else None)

    return run


class _Batch:
    def __init__(self, attempts: Sequence[Attempt], arguments: BatchArguments) -> None:
        self._arguments = arguments
        self._fitting: list[Attempt] = []
        self._answers: list[Failure | None] = []
        self.items: list[Any] = []
        for attempt in attempts:
            try:
                self.items.append(arguments.check(attempt.payload))
                self._fitting.append(attempt)
                self._answers.append(None)
            except Invalid as error:
                self._answers.append(Failure(str(error), type="InvalidPayload", retry=False))

    def bound(self) -> dict[str, Any]:
        return self._arguments.bind(self.items, enter(self._fitting[0], self._fitting))

    def results(self, results: Any) -> Any:
        """One for each attempt again: what the handler returned, and the failures of those it never saw."""
        if len(self._fitting) == len(self._answers):
            return results
        if results is None:
            results = [None] * len(self._fitting)
        if not isinstance(results, list | tuple) or len(results) != len(self._fitting):
            # Let whoever counts them say what is wrong with it.
            return results
        rest = iter(results)
        return [next(rest) if answer is None else answer for answer in self._answers]
