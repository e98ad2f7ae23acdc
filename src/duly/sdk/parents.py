"""What a step's handler sees of the steps before it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import msgspec

from duly.ports.handlers import Attempt
from duly.ports.parents import Parent


class ParentResults(Mapping[str, Any]):
    """Results of parents that succeeded, by the names of the steps. Read once, when it is first looked into.

    In an async handler it is awaited first, because nothing may block there.
    """

    __slots__ = ("_attempt", "_found")

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._found: dict[str, Any] | None = None

    def __await__(self) -> Generator[Any, Any, dict[str, Any]]:
        return self._read().__await__()

    def __getitem__(self, name: str) -> Any:
        return self._known()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    async def _read(self) -> dict[str, Any]:
        ask = self._attempt.ancestry
        if self._found is None:
            self._found = {} if ask is None else _by_name(await asyncio.wrap_future(ask(self._attempt)))
        return self._found

    def _known(self) -> dict[str, Any]:
        if self._found is None:
            if self._attempt.ancestry is None:
                self._found = {}
                return self._found
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                self._found = _by_name(self._attempt.ancestry(self._attempt).result())
            else:
                raise RuntimeError("`await ctx.parents` first: an async handler must not wait in any other way")
        return self._found


def _by_name(parents: list[Parent]) -> dict[str, Any]:
    return {parent.name: None if parent.result is None else msgspec.json.decode(parent.result) for parent in parents}
