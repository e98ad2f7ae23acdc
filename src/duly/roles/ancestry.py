"""What the steps before a step came to, for the handlers of one worker: asked for by them, or named by their payload."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from duly.domain.ids import execution_text
from duly.domain.workflow.inputs import reference_in
from duly.ports.endings import Failure
from duly.ports.handlers import Attempt
from duly.ports.parents import Parent, Parents
from duly.roles.heartbeat import Heartbeat


class Ancestors:
    """Made on the worker's event loop; handlers call it from wherever they run."""

    def __init__(self, parents: Parents, heartbeat: Heartbeat) -> None:
        self._parents = parents
        self._heartbeat = heartbeat
        self._loop = asyncio.get_running_loop()

    def attach(self, attempt: Attempt) -> None:
        """A step that is about to run: it may ask, and what its payload names is read before it begins."""
        attempt.ancestry = lambda attempt: asyncio.run_coroutine_threadsafe(self._of(attempt), self._loop)
        attempt.marked = attempt.marked or bool(references_in(attempt.payload))

    async def _of(self, attempt: Attempt) -> list[Parent]:
        return await self._parents.results(self._heartbeat.worker, attempt.fence, attempt.id)


def references_in(payload: Any) -> dict[str, str]:
    """The arguments that stand for a result, each with the execution that has it."""
    if not isinstance(payload, dict):
        return {}
    return {argument: named for argument, value in payload.items() if (named := reference_in(value)) is not None}


async def fill_in(attempt: Attempt) -> None:
    """Put results in the places of what stands for them. Of this run's parents alone: whatever else looks like it is left as it is.

    It comes after the secrets: what a step has returned names none.
    """
    wanted = references_in(attempt.payload)
    if not wanted or attempt.ancestry is None:
        return
    parents = await asyncio.wrap_future(attempt.ancestry(attempt))
    if not parents:
        told = "What the steps before it came to cannot be read: its run is not under way any more."
        raise Failure(told, type="ResultNotRead", retry=False)
    results = {execution_text(parent.id): parent.result for parent in parents}
    found = {argument: decoded(results[named]) for argument, named in wanted.items() if named in results}
    attempt.payload = attempt.payload | found


def decoded(result: str | None) -> Any:
    """JSON text as a value."""
    return None if result is None else msgspec.json.decode(result)
