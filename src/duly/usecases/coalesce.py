"""Coalescing: calls that come while a write is under way go together in the next one, so n callers share one commit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from duly.domain.errors import Unavailable
from duly.ports.wall import behind_wall

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Coalescer(Generic[Item, Answer]):
    """Gathers items while a flush is in flight. Each caller gets its own answer, after the commit that holds its item.

    A flush takes items up to the weight `most`, and at least one. What a caller waits for when it is cancelled is written if
    a flush has taken it already, and dropped if none has.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        most: int = 1000,
        weigh: Callable[[Item], int] = lambda item: 1,
    ) -> None:
        self._flush = flush
        self._most = most
        self._weigh = weigh
        self._waiting: deque[tuple[Item, asyncio.Future[Answer]]] = deque()
        self._flusher: asyncio.Task[None] | None = None

    async def add(self, item: Item) -> Answer:
        """Write the item together with its neighbours. An error is the item's own: a neighbour's never reaches it."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._flusher is None or self._flusher.done():
            with behind_wall(None):  # it writes for many, whoever came first
                self._flusher = asyncio.create_task(self._run(), name="duly-coalescer")
        return await future

    async def _run(self) -> None:
        while batch := self._take():
            try:
                await self._write(batch)
            except asyncio.CancelledError:
                # The loop ends: whoever waits for this batch must not wait for ever.
                for _, future in batch:
                    future.cancel()
                raise

    def _take(self) -> list[tuple[Item, asyncio.Future[Answer]]]:
        batch: list[tuple[Item, asyncio.Future[Answer]]] = []
        room = self._most
        while self._waiting:
            item, future = self._waiting[0]
            if not future.done():
                room -= self._weigh(item)
                if batch and room < 0:
                    break
                batch.append((item, future))
            self._waiting.popleft()
        return batch

    async def _write(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._flush([item for item, _ in batch])
        except Unavailable as error:
            # The store is away for everybody: trying each alone would only take longer.
            for _, future in batch:
                _refuse(future, error)
        except Exception as error:
            if len(batch) == 1:
                _refuse(batch[0][1], error)
            else:
                await self._singly(batch)
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)

    async def _singly(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        """One bad item must not take its neighbours down: nothing of the failed batch was committed."""
        away: Unavailable | None = None
        for item, future in batch:
            if away is not None:
                _refuse(future, away)
                continue
            try:
                answer = (await self._flush([item]))[0]
            except Unavailable as error:
                away = error
                _refuse(future, error)
            except Exception as error:
                _refuse(future, error)
            else:
                if not future.done():
                    future.set_result(answer)


def _refuse(future: asyncio.Future[Answer], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
