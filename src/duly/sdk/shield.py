"""Work inside of which a cancel does not land."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def shielded(work: Coroutine[Any, Any, T]) -> T:
    """Do it to its end; a cancel that comes meanwhile lands right after it.

    A second cancel ends the work: the one who asks has no patience left, and whatever still ran would run behind the attempt's back.
    """
    doing = asyncio.ensure_future(work)
    asked: asyncio.CancelledError | None = None
    while not doing.done():
        try:
            await asyncio.wait([doing])
        except asyncio.CancelledError as error:
            if asked is not None:
                doing.cancel()
                await asyncio.wait([doing])
            asked = error
    if asked is None:
        return doing.result()
    if not doing.cancelled() and (failed := doing.exception()) is not None:
        raise failed
    raise asked
