"""Transactions of the store for handlers: an effect commits with the end of its attempt, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol

from duly.ports.handlers import Attempt


class Transactions(Protocol):
    """Opens a transaction for one attempt, on a connection that the handler may write with.

    At the end of the block the attempt ends as succeeded, with the JSON that `result` then gives, and everything commits. What
    leaves the block by an exception is rolled back. Raises LeaseLost, after a rollback, when the attempt is no longer ours to end,
    and Unavailable when nobody knows whether the commit took place: the store does, and tries nothing again that was committed.
    """

    def open(self, attempt: Attempt, result: Callable[[], str | None]) -> AbstractAsyncContextManager[Any]:
        """For a handler on the event loop."""

    def open_blocking(self, attempt: Attempt, result: Callable[[], str | None]) -> AbstractContextManager[Any]:
        """For a handler in a thread. Raises Invalid (DULY-E132) where the store has no connection for it."""

    async def close(self) -> None:
        """Let connections go."""
