"""The doorkeeper: how often it writes, and what it forgets."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from duly.domain.instants import MINUTE, SECOND, Instant
from duly.roles.doorkeeper import Doorkeeper, DoorkeeperSettings
from duly.usecases.uses import MOST, TELL_EVERY, Uses
from tests.roles.conftest import World


class Counted:
    """A store's keys or sessions, that counts what it is asked."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.touched: list[Mapping[Any, Instant]] = []
        self.cleared = 0

    async def touch_keys(self, used: Mapping[str, Instant]) -> None:
        self.touched.append(used)
        await self._real.touch_keys(used)

    async def touch_sessions(self, used: Mapping[bytes, Instant]) -> None:
        self.touched.append(used)
        await self._real.touch_sessions(used)

    async def drop_ended(self, now: Instant) -> None:
        self.cleared += 1
        await self._real.drop_ended(now)


async def test_it_clears_away_now_and_then_also_when_the_clock_is_set_back(world: World) -> None:
    keys, sessions = Counted(world.store.keys), Counted(world.store.sessions)
    uses: tuple[Uses[str], Uses[bytes]] = (Uses(), Uses())
    doorkeeper = Doorkeeper(keys, sessions, *uses, DoorkeeperSettings())  # type: ignore[arg-type]
    now = world.clock.now()

    cleared = []
    for at in (now, now + MINUTE, now + 10 * MINUTE, now + 19 * MINUTE, now - MINUTE):
        step = await doorkeeper.step(at)
        cleared.append(sessions.cleared)
        assert step.wait > 0

    assert cleared == [1, 1, 2, 2, 3]
    assert not any(keys.touched)


moves = st.lists(st.tuples(st.integers(0, 90 * SECOND), st.booleans()), max_size=60)


@given(moves)
def test_one_key_is_told_at_most_once_a_minute_and_its_last_use_always_in_the_end(steps: list[tuple[int, bool]]) -> None:
    uses: Uses[str] = Uses()
    now, used, told = 0, None, []
    for wait, is_used in steps:
        now += wait
        if is_used:
            uses.note("k", now)
            used = now
        due = uses.due(now)
        uses.told(due, now)
        told += [(now, at) for at in due.values()]
    due = uses.due(now + TELL_EVERY)

    assert all(after - before >= TELL_EVERY for (before, _), (after, _) in itertools.pairwise(told))
    latest = due.get("k", told[-1][1] if told else None)
    assert latest == used


def test_what_is_noted_is_bounded() -> None:
    uses: Uses[str] = Uses()
    for nth in range(MOST + 10):
        uses.note(str(nth), nth)

    assert len(uses.due(MINUTE)) == MOST
