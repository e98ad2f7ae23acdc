"""A preview beside other work: it gives way, and ends when it takes too long."""

from __future__ import annotations

import asyncio

import pytest

from duly.domain.calendars import WEEK, Calendar
from duly.domain.choices import OnExcluded
from duly.domain.errors import Invalid
from duly.domain.instants import Instant, Micros, from_rfc3339
from duly.usecases.preview import preview, preview_in_turns
from duly.wire.schedules import PreviewShape

NOW = from_rfc3339("2026-01-05T12:00:00Z")
TOKYO = Calendar(name="tk", version=1, zone="Asia/Tokyo", business_days=WEEK[:5])


class WorkClock:
    """Whoever looks at it has worked for so long since the last look."""

    def __init__(self, pace: Micros) -> None:
        self._pace = pace
        self._boottime = 0

    def now(self) -> Instant:
        return NOW

    def boottime(self) -> Micros:
        self._boottime += self._pace
        return self._boottime


def month_ends(count: int, **more: object) -> PreviewShape:
    named = {"schedule": "45 2 L * *", "timezone": "Europe/Berlin", "calendars": ["tk"], "on_excluded": OnExcluded.NEXT_BUSINESS_DAY}
    return PreviewShape(**(named | more), count=count)  # type: ignore[arg-type]


async def test_others_have_their_turn_while_a_preview_is_computed() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    view = await preview_in_turns(month_ends(100), WorkClock(200), [TOKYO])
    beside.cancel()

    assert turns > 10
    assert view == preview(month_ends(100), NOW, [TOKYO])
    assert len(view.fires) == 100


async def test_a_preview_that_takes_too_long_is_cut_short_and_says_so() -> None:
    view = await preview_in_turns(month_ends(1000), WorkClock(1000), [TOKYO])

    whole = preview(month_ends(1000), NOW, [TOKYO])
    assert 0 < len(view.fires) < 1000
    assert view.fires == whole.fires[: len(view.fires)]
    assert view.warnings[-1] == f"Cut short after {len(view.fires)} of 1000 fires: to find more takes longer than a preview may."
    assert not any("Cut short" in warning for warning in whole.warnings)


async def test_what_never_fires_is_refused_in_turns_too() -> None:
    never = month_ends(10, schedule="0 9 * * SUN", timezone="Asia/Tokyo", on_excluded=OnExcluded.SKIP)

    with pytest.raises(Invalid) as refused:
        await preview_in_turns(never, WorkClock(0), [TOKYO])

    assert (refused.value.code, refused.value.field) == ("DULY-E102", "calendars")
