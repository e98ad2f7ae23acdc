"""What an execution keeps over its attempts, as its handler reads and saves it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any

import msgspec

from duly.domain.errors import TooLarge
from duly.ports.handlers import Attempt

LARGEST_CHECKPOINT = 256 * 1024


class Checkpoint:
    """The last checkpoint of an execution, and the way to save the next: `ctx.checkpoint`."""

    __slots__ = ("_attempt",)

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def __call__(self, value: Any) -> Awaitable[None]:
        """Save a value (JSON) with which the next attempt begins, should there be one: `await ctx.checkpoint({"row": 500})`.

        In an async handler it is awaited; in a plain one it has been saved when the call returns. Raises TooLarge (DULY-E130) past
        256 KiB, when nothing is written, and LeaseLost when this attempt no longer holds its execution: stop then.
        """
        data = msgspec.json.encode(value)
        if len(data) > LARGEST_CHECKPOINT:
            message = f"the checkpoint has {len(data):,} bytes; {LARGEST_CHECKPOINT:,} are the limit."
            raise TooLarge("DULY-E130", message, hint="Keep large data elsewhere and save a reference.")
        saving = self._attempt.keep(data.decode())
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            saving.result()
            return _Saved()
        return asyncio.wrap_future(saving, loop=loop)

    def save(self, **values: Any) -> Awaitable[None]:
        """Save named values, all that there are: `ctx.checkpoint.save(done=500)`. What the last checkpoint had besides is gone."""
        return self(values)

    def get(self, name: str, default: Any = None) -> Any:
        """A value of the last checkpoint by its name; the default where there is no checkpoint, or none of that name in it.

        Raises TypeError when something else than named values was saved: to begin at the default again would lose it in silence.
        """
        last = self.last
        if last is None:
            return default
        if not isinstance(last, dict):
            kind = type(last).__name__
            raise TypeError(f"the last checkpoint is of type {kind} and has no names: read ctx.last_checkpoint, or save names")
        return last.get(name, default)

    @property
    def last(self) -> Any:
        """What the last checkpoint saved, in this attempt or an earlier one; None when there is none."""
        kept = self._attempt.kept
        return None if kept is None or kept.data is None else msgspec.json.decode(kept.data)


class _Saved:
    """A checkpoint that has been saved: awaiting it costs nothing."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield
