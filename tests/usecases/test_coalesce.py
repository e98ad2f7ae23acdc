"""Callers that come at once share a flush, and each gets its own answer whatever happens to the others."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence

import pytest

from duly.domain.errors import Conflict, Unavailable
from duly.usecases.coalesce import Coalescer


class Ledger:
    """Writes items, and keeps what each flush was given. It can be held up, and told what to refuse."""

    def __init__(self) -> None:
        self.flushes: list[list[int]] = []
        self.written: list[int] = []
        self.refuses: Callable[[Sequence[int]], Exception | None] = lambda items: None
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def flush(self, items: Sequence[int]) -> list[str]:
        self.flushes.append(list(items))
        self.entered.set()
        await self.open.wait()
        error = self.refuses(items)
        if error is not None:
            raise error
        self.written += items
        return [f"wrote {item}" for item in items]


@pytest.fixture
async def ledger() -> Ledger:
    return Ledger()


async def held_up(ledger: Ledger, coalescer: Coalescer[int, str], items: Sequence[int]) -> list[asyncio.Task[str]]:
    """Callers of which the first is in a flush that does not end, and the others wait behind it."""
    ledger.open.clear()
    tasks = [asyncio.create_task(coalescer.add(item)) for item in items[:1]]
    await ledger.entered.wait()
    tasks += [asyncio.create_task(coalescer.add(item)) for item in items[1:]]
    await asyncio.sleep(0)
    return tasks


async def test_callers_that_come_at_once_share_a_flush_and_each_gets_its_own_answer(ledger: Ledger) -> None:
    coalescer = Coalescer(ledger.flush)
    tasks = await held_up(ledger, coalescer, range(100))

    ledger.open.set()
    answers = await asyncio.gather(*tasks)

    assert answers == [f"wrote {n}" for n in range(100)]
    assert [len(flush) for flush in ledger.flushes] == [1, 99]


async def test_a_flush_is_cut_by_weight_and_takes_at_least_one(ledger: Ledger) -> None:
    coalescer = Coalescer(ledger.flush, most=10, weigh=lambda item: item)
    tasks = await held_up(ledger, coalescer, [1, 4, 6, 1, 50, 10, 2, 3])

    ledger.open.set()
    await asyncio.gather(*tasks)

    assert ledger.flushes == [[1], [4, 6], [1], [50], [10], [2, 3]]


async def test_one_bad_item_fails_alone(ledger: Ledger) -> None:
    coalescer = Coalescer(ledger.flush)
    ledger.refuses = lambda items: Conflict("DULY-E208", "taken") if 3 in items else None
    tasks = await held_up(ledger, coalescer, range(6))

    ledger.open.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(answer) for answer in answers] == [str, str, str, Conflict, str, str]
    assert ledger.written == [0, 1, 2, 4, 5]


async def test_a_store_that_is_away_fails_its_batch_and_later_calls_work_again(ledger: Ledger) -> None:
    coalescer = Coalescer(ledger.flush)
    ledger.refuses = lambda items: Unavailable("DULY-E501", "away") if len(items) > 1 else None
    tasks = await held_up(ledger, coalescer, range(4))

    ledger.open.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(answer) for answer in answers] == [str, Unavailable, Unavailable, Unavailable]
    assert ledger.flushes == [[0], [1, 2, 3]]
    assert await coalescer.add(5) == "wrote 5"


async def test_a_store_that_goes_away_between_single_items_is_not_asked_again(ledger: Ledger) -> None:
    coalescer = Coalescer(ledger.flush)
    errors = {(1, 2, 3, 4): Conflict("DULY-E208", "taken"), (2,): Unavailable("DULY-E501", "away")}
    ledger.refuses = lambda items: errors.get(tuple(items))
    tasks = await held_up(ledger, coalescer, range(5))

    ledger.open.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(answer) for answer in answers] == [str, str, Unavailable, Unavailable, Unavailable]
    assert ledger.flushes == [[0], [1, 2, 3, 4], [1], [2]]


async def test_a_caller_that_left_breaks_nobody_and_what_was_taken_is_written(ledger: Ledger) -> None:
    coalescer = Coalescer(ledger.flush)
    taken, waiting, last = await held_up(ledger, coalescer, [1, 2, 3])

    taken.cancel()
    waiting.cancel()
    await asyncio.wait([taken, waiting])
    ledger.open.set()

    assert await last == "wrote 3"
    assert await coalescer.add(4) == "wrote 4"
    assert ledger.written == [1, 3, 4]  # nobody had been told about 2, and nobody waited for it


async def test_an_error_for_a_caller_that_left_is_not_reported_as_forgotten(ledger: Ledger) -> None:
    coalescer = Coalescer(ledger.flush)
    ledger.refuses = lambda items: Unavailable("DULY-E501", "away")
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    [task] = await held_up(ledger, coalescer, [1])

    task.cancel()
    await asyncio.wait([task])
    ledger.open.set()
    with pytest.raises(Unavailable):
        await coalescer.add(2)
    del task
    gc.collect()

    assert complaints == []


async def test_a_caller_is_not_left_waiting_when_the_flusher_is_cancelled(ledger: Ledger) -> None:
    coalescer = Coalescer(ledger.flush)
    [waiting] = await held_up(ledger, coalescer, [1])

    [flusher] = [task for task in asyncio.all_tasks() if task.get_name() == "duly-coalescer"]
    flusher.cancel()
    await asyncio.wait([waiting])

    assert waiting.cancelled()
    ledger.open.set()
    assert await coalescer.add(2) == "wrote 2"
