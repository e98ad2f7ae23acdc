"""How long anybody believes something: counted from before they asked, on the store's clock, and never by a hint alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from duly.adapters.memory.hot_index import MemoryHotIndex
from duly.adapters.system.clock import SystemClock
from duly.domain.instants import HOUR, SECOND, Instant
from duly.ports.handlers import Attempt
from duly.ports.hot_index import Coming
from duly.ports.store import WorkerAbout
from duly.roles.dispatcher import Dispatcher, DispatcherSettings
from duly.roles.heartbeat import Heartbeat, HeartbeatSettings
from duly.roles.ownership import Ownership, OwnershipSettings
from duly.roles.timekeeper import Timekeeper
from duly.usecases.quotas import Directory
from tests.roles.conftest import HandClock, World


class Slow:
    """A port whose calls of one name take their time."""

    def __init__(self, port: Any, name: str, clock: HandClock, seconds: float) -> None:
        self._port, self._name, self._clock, self._seconds = port, name, clock, seconds

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name != self._name:
            return method

        async def slowly(*args: Any) -> Any:
            answer = await method(*args)
            self._clock.turn(self._seconds)
            return answer

        return slowly


async def test_a_slow_answer_lengthens_no_trust(world: World) -> None:
    worker = await world.worker()

    assert await worker.heartbeat.beat(Slow(world.store.liveness, "renew", world.clock, 6.0))

    world.clock.turn(6.9)
    assert worker.heartbeat.is_trusted
    world.clock.turn(0.2)
    assert not worker.heartbeat.is_trusted


async def test_a_heartbeat_says_how_far_the_clock_is_off_when_that_has_changed(world: World) -> None:
    about = WorkerAbout("default", skew=0)
    number = await world.store.liveness.register("skewed", about, world.clock.now(), 15 * SECOND)
    skews = iter([50_000, 2_500_000, 2_540_000, None])
    told: list[int | None] = []

    class Overheard:
        async def renew(self, *args: Any) -> Any:
            told.append(args[3])
            return await world.store.liveness.renew(*args)

    heartbeat = Heartbeat(number, world.clock, HeartbeatSettings(), world.clock.boottime(), lambda: next(skews) or 0, 0)
    for _ in range(3):
        assert await heartbeat.beat(Overheard())  # type: ignore[arg-type]

    [row] = await world.store.insights.workers(world.clock.now())
    assert told == [None, 2_500_000, None], "a tenth of a second is news, less is not"
    assert row.about == replace(about, skew=2_500_000, ttl=15 * SECOND)


async def test_who_trusts_itself_is_never_buried(world: World) -> None:
    worker = await world.worker()
    await worker.heartbeat.beat(Slow(world.store.liveness, "renew", world.clock, 6.0))

    while worker.heartbeat.is_trusted:
        assert await world.store.losses.bury_workers(world.clock.now()) == []
        world.clock.turn(0.5)


async def test_a_slow_answer_lengthens_no_ownership(world: World) -> None:
    leases: Any = Slow(world.store.leases, "announce_dispatcher", world.clock, 3.0)
    ownership = Ownership("d1", leases, world.clock, OwnershipSettings())

    await ownership.refresh(world.clock.now())

    assert ownership.epochs()
    world.clock.turn(2.1)
    assert ownership.epochs() == {}


class Answering:
    """A store an hour ahead, whose answers are under way for so many microseconds each, after it has read its clock."""

    def __init__(self, clock: HandClock, *ways: int) -> None:
        self._clock, self._ways = clock, list(ways)
        # When it was asked, in seconds since it began.
        self.asked: list[float] = []
        self._began = clock.boottime()

    async def store_now(self) -> Instant:
        self.asked.append((self._clock.boottime() - self._began) / SECOND)
        read = self._clock.now() + HOUR
        self._clock.turn(self._ways.pop(0) / SECOND)
        return read


class Noting(HandClock):
    """Keeps the offset that it is given, as the store's time at boottime zero; has a wall clock that can be set."""

    offset = 0
    ahead = 0.0

    def set_offset(self, offset: int) -> None:
        self.offset = offset

    def skew(self) -> int:
        return round(self.ahead * SECOND)


async def _keep(keeper: Timekeeper, clock: Noting, seconds: float) -> None:
    """Step it for so long, as often as it wants."""
    end = clock.boottime() + round(seconds * SECOND)
    while clock.boottime() < end:
        clock.turn((await keeper.step(clock.now())).wait)


async def test_the_clock_is_as_far_behind_as_the_quickest_answer() -> None:
    clock = Noting()
    ahead = clock.now() + HOUR - clock.boottime()
    store: Any = Answering(clock, 5_000, 9_000, 300, 2_000, 7_000)

    await Timekeeper(clock, store, every=20.0).step(clock.now())

    assert clock.offset == ahead - 300


async def test_a_clock_that_is_known_well_is_asked_for_now_and_then() -> None:
    clock = Noting()
    store: Any = Answering(clock, *[0] * 20)

    await _keep(Timekeeper(clock, store, every=20.0), clock, 65.0)

    assert store.asked[::5] == [0.0, 20.0, 40.0, 60.0]


async def test_a_clock_that_is_known_roughly_is_asked_for_again_soon_and_then_more_seldom() -> None:
    clock = Noting()
    store: Any = Answering(clock, *[5_000] * 35)

    await _keep(Timekeeper(clock, store, every=20.0), clock, 60.0)

    asked = store.asked[::5]
    assert [round(later - earlier) for earlier, later in pairwise(asked)] == [1, 2, 4, 8, 16, 20]


@pytest.mark.parametrize("by", [0.2, -0.2, 7200.0, -7200.0])
async def test_a_wall_clock_that_moves_has_the_store_asked_at_once(by: float) -> None:
    clock = Noting()
    store: Any = Answering(clock, *[0] * 20)
    keeper = Timekeeper(clock, store, every=20.0)
    await _keep(keeper, clock, 5.0)

    clock.ahead += by
    await _keep(keeper, clock, 10.0)

    assert store.asked[::5] == [0.0, 5.0], "once, and not again for the same move"


async def test_a_clock_that_is_set_back_while_it_is_asked_for_is_asked_for_again() -> None:
    clock = Noting()
    ahead = clock.now() + HOUR - clock.boottime()

    class SetBack(Answering):
        """Whose machine's clock is set back by a minute after its second answer."""

        async def store_now(self) -> Instant:
            answer = await super().store_now()
            if len(self.asked) == 2:
                clock.ahead -= 60.0
            return answer + round(clock.ahead * SECOND)

    store: Any = SetBack(clock, *[0] * 20)
    await _keep(Timekeeper(clock, store, every=20.0), clock, 5.0)

    assert clock.offset == ahead - 60 * SECOND, "never ahead of the store's"
    assert len(store.asked) == 10


async def test_a_wall_clock_that_wanders_is_no_reason_to_ask() -> None:
    clock = Noting()
    store: Any = Answering(clock, *[0] * 10)
    keeper = Timekeeper(clock, store, every=20.0)
    await _keep(keeper, clock, 5.0)

    clock.ahead += 0.05
    await _keep(keeper, clock, 10.0)

    assert store.asked[::5] == [0.0]


async def test_a_dispatcher_looks_again_however_far_the_next_known_instant_is(world: World) -> None:
    hot_index, settings = MemoryHotIndex(), DispatcherSettings()
    ownership = Ownership("d1", world.store.leases, world.clock, OwnershipSettings())
    quotas = Directory(world.store.tenants, world.clock)
    dispatcher = Dispatcher(
        ownership, world.store.schedules, world.store.definitions, quotas, hot_index, world.transport, world.clock, settings
    )
    await dispatcher.step(world.clock.now())
    await hot_index.add([Coming(world.clock.now() + HOUR, 0)])

    step = await dispatcher.step(world.clock.now())

    assert step.wait == settings.poll


class Ahead:
    """A store whose clock is an hour ahead of this machine's."""

    def __init__(self, clock: SystemClock) -> None:
        self._began = clock.now() + HOUR - clock.boottime()
        self._clock = clock

    async def store_now(self) -> Instant:
        return self._began + self._clock.boottime()


async def test_a_clock_that_is_an_hour_off_is_put_on_the_store_s() -> None:
    clock = SystemClock()
    store: Any = Ahead(clock)

    await Timekeeper(clock, store).step(clock.now())

    # Never ahead of it, and not behind by more than the asking took.
    ours, theirs = clock.now(), await store.store_now()
    assert theirs - 5 * SECOND < ours <= theirs


async def test_what_was_claimed_so_slowly_that_it_is_somebody_elses_by_then_does_not_begin(world: World) -> None:
    began: list[int] = []

    async def begins(attempt: Attempt) -> None:
        began.append(attempt.attempt)

    world.handle("work", begins)
    id = (await world.enqueue(await world.create()))[0]
    worker = await world.worker()
    worker._ready = Slow(world.store.ready, "claim", world.clock, 16.0)  # type: ignore[assignment]

    await worker.take(world.clock.now())
    await world.sweeper().step(world.clock.now())
    for _ in range(5):
        await asyncio.sleep(0)

    assert (began, (await world.show(id)).attempt) == ([], 2)
    await worker.take(world.clock.now())
    assert worker.is_idle
