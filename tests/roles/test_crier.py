"""What is ready is named in order, a window at a time, and again if nobody takes it; whoever hears it runs it once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from duly.domain.announcements import Announcement, Named
from duly.domain.lifecycle import State
from duly.ports.handlers import Attempt
from duly.roles.crier import Crier, CrierSettings
from duly.roles.inbox import Inbox, Mail
from duly.roles.worker import Worker
from tests.roles.conftest import World, run_until_idle


class Post:
    """A courier in this process that brings each message so many times, to everybody, in any order."""

    def __init__(self, times: int = 1, seed: int = 0) -> None:
        self.times = times
        self.chance = random.Random(seed)
        self.said: list[Announcement] = []
        self.boxes: list[Box] = []
        self.listened: list[tuple[str, str]] = []

    async def post(self, pool: str, announcements: Sequence[Announcement]) -> None:
        self.said += announcements
        for announcement in announcements:
            for _ in range(self.times):
                for box in self.boxes:
                    box.mail.insert(self.chance.randrange(len(box.mail) + 1), announcement)

    async def post_all(self, pool: str, announcement: Announcement) -> None:
        await self.post(pool, [announcement])

    def listen(self, pool: str, alike: str) -> None:
        self.listened.append((pool, alike))

    def received(self) -> list[Announcement]:
        return []

    def settle(self) -> None: ...

    async def wait_mail(self, timeout: float) -> bool:
        return False

    @property
    def names(self) -> list[Named]:
        return [name for announcement in self.said for name in announcement.named]


class Box(Post):
    """One worker's end of it."""

    def __init__(self) -> None:
        super().__init__()
        self.mail: list[Announcement] = []
        self.settled = 0

    def received(self) -> list[Announcement]:
        mail, self.mail = self.mail, []
        return mail

    def settle(self) -> None:
        self.settled += 1


def crier(world: World, post: Post, **settings: int) -> Crier:
    return Crier(world.store.ready, post, world.transport, world.clock, lambda route: True, CrierSettings(**settings))  # type: ignore[arg-type]


async def hired(world: World, post: Post, **settings: int) -> tuple[Worker, Box]:
    box = Box()
    post.boxes.append(box)
    worker = await world.worker(**settings)
    worker._inbox = Inbox(Mail(box, world.store.ready, "default", "alike"), world.clock)
    # It has looked just now: whatever it does next, it does because it was told.
    worker._inbox.looked(found=False)
    return worker, box


@pytest.fixture
def ran(world: World) -> list[object]:
    """The executions whose handler began, each time it did."""
    ran: list[object] = []

    async def work(attempt: Attempt) -> None:
        ran.append(attempt.id)

    world.handle("work", work)
    return ran


async def test_what_is_ready_is_named_once_and_again_when_nobody_takes_it(world: World, ran: list[object]) -> None:
    post = Post()
    speaker = crier(world, post)
    ids = await world.enqueue(await world.create(), 3)

    await speaker.step(world.clock.now())
    await speaker.step(world.clock.now())
    assert sorted(name.id for name in post.names) == sorted(ids)

    world.clock.turn(2)
    await speaker.step(world.clock.now())
    assert len(post.names) == 6


async def test_the_window_moves_as_work_is_taken_and_a_deep_queue_is_only_called_deep(world: World, ran: list[object]) -> None:
    post = Post()
    speaker = crier(world, post, window=5)
    job = await world.create()
    worker, _ = await hired(world, post, slots=4, largest_batch=4)
    await speaker.step(world.clock.now())
    await world.enqueue(job, 7)

    await speaker.step(world.clock.now())
    assert post.names == []
    assert [announcement.deep for announcement in post.said] == [[1]]

    # Told that it is deep, the worker takes from the store what it has room for.
    await worker.step(world.clock.now())
    await asyncio.sleep(0)
    await speaker.step(world.clock.now())
    assert len(post.names) == 3


async def test_a_queue_that_was_deep_before_the_crier_came_is_called_only_once_it_stands_still(world: World, ran: list[object]) -> None:
    post = Post()
    speaker = crier(world, post, window=5)
    await world.enqueue(await world.create(), 20)
    worker = await world.worker(slots=4, largest_batch=4)

    await speaker.step(world.clock.now())
    for _ in range(3):
        # It is taken from: whoever takes needs no call, however long that goes on.
        world.clock.turn(1)
        await worker.step(world.clock.now())
        await asyncio.sleep(0)
        await speaker.step(world.clock.now())
    assert post.said == []

    world.clock.turn(1)
    await speaker.step(world.clock.now())
    assert post.said == []
    world.clock.turn(1)
    await speaker.step(world.clock.now())
    assert [announcement.deep for announcement in post.said] == [[1]]
    # Said once, it is said again after as long.
    await speaker.step(world.clock.now())
    assert len(post.said) == 1


async def test_who_finds_work_in_the_store_looks_again_and_needs_no_mail_until_it_finds_none(world: World, ran: list[object]) -> None:
    box = Box()
    worker = await world.worker(slots=2, largest_batch=2)
    worker._inbox = Inbox(Mail(box, world.store.ready, "default", "alike"), world.clock)
    ids = await world.enqueue(await world.create(), 6)

    while len(ran) < len(ids):
        assert box.listened == []
        # However long a handler took, and though nobody said anything.
        world.clock.turn(0.4)
        claimed = len(ran)
        await worker.step(world.clock.now())
        await asyncio.sleep(0)
        assert len(ran) > claimed

    await run_until_idle(worker, world.clock)
    assert set(box.listened) == {("default", "alike")}
    assert sorted(map(str, ran)) == sorted(map(str, ids))


async def test_the_urgent_are_named_first_and_taken_first(world: World) -> None:
    started: list[object] = []

    async def work(attempt: Attempt) -> None:
        started.append(attempt.id)

    world.handle("work", work)
    post = Post()
    worker, _ = await hired(world, post, slots=1, largest_batch=1)
    low = await world.enqueue(await world.create(name="low", priority="LOW"), 2)
    high = await world.enqueue(await world.create(name="high", priority="HIGH"), 2)

    await crier(world, post).step(world.clock.now())
    assert [name.id for name in post.names] == [*high, *low]
    await run_until_idle(worker, world.clock)

    assert started[:2] == high


@pytest.mark.parametrize("seed", range(5))
async def test_each_message_three_times_in_any_order_to_everybody_runs_each_execution_once(
    world: World, ran: list[object], seed: int
) -> None:
    post = Post(times=3, seed=seed)
    workers = [(await hired(world, post))[0] for _ in range(3)]
    speaker = crier(world, post, listeners=7)
    ids = await world.enqueue(await world.create(), 60)

    for _ in range(4):
        await speaker.step(world.clock.now())
        world.clock.turn(0.7)
        for worker in workers:
            await run_until_idle(worker, world.clock)

    assert sorted(map(str, ran)) == sorted(map(str, ids))
    assert {execution.state for execution in await world.all()} == {State.SUCCEEDED}


async def test_without_a_single_message_everything_runs_within_a_second(world: World, ran: list[object]) -> None:
    post = Post()
    worker, _ = await hired(world, post)
    ids = await world.enqueue(await world.create(), 5)

    await run_until_idle(worker, world.clock)
    assert ran == []
    world.clock.turn(1)
    await run_until_idle(worker, world.clock)

    assert sorted(map(str, ran)) == sorted(map(str, ids))


async def test_names_of_what_is_not_served_are_dropped_and_settled(world: World, ran: list[object]) -> None:
    post = Post()
    worker, box = await hired(world, post)
    await world.enqueue(await world.create(name="other", target={"handler": "elsewhere"}))

    await crier(world, post).step(world.clock.now())
    await worker.step(world.clock.now())
    await worker.step(world.clock.now())

    assert len(post.names) == 1
    assert ran == []
    assert box.settled


async def test_a_message_is_settled_after_its_claim(world: World, ran: list[object]) -> None:
    post = Post()
    worker, box = await hired(world, post)
    await world.enqueue(await world.create())
    await crier(world, post).step(world.clock.now())
    claims: list[int] = []
    plain = world.store.ready.claim_named

    async def watched(*words: object) -> object:
        before = box.settled
        answer = await plain(*words)  # type: ignore[arg-type]
        claims.append(box.settled - before)
        return answer

    worker._inbox._queue.claim_named = watched  # type: ignore[method-assign, union-attr, assignment]
    box.settled = 0
    await worker.step(world.clock.now())

    assert claims == [0]
    assert box.settled


async def test_an_old_name_is_not_asked_for(world: World, ran: list[object]) -> None:
    post = Post()
    worker, _ = await hired(world, post)
    inbox = worker._inbox
    assert inbox is not None
    await world.enqueue(await world.create())
    await crier(world, post).step(world.clock.now())

    assert len(inbox.work([1], {})) == 1
    world.clock.turn(3)

    assert inbox.work([1], {}) == []


async def test_names_that_never_end_do_not_keep_a_worker_from_what_nobody_names(world: World, ran: list[object]) -> None:
    post = Post()
    speaker = crier(world, post, window=5)
    world.registry.add(replace(world.registry.by_name["work"], name="other"))
    worker, _ = await hired(world, post, slots=2, largest_batch=2)
    named = await world.create()
    await speaker.step(world.clock.now())
    deep = await world.enqueue(await world.create(name="deep", target={"handler": "other"}), 20)
    await world.enqueue(named, 4)

    for _ in range(30):
        # There are always some that were named and have not begun.
        await speaker.step(world.clock.now())
        await worker.step(world.clock.now())
        for _ in range(5):
            await asyncio.sleep(0)
        await world.enqueue(named, 2)
        world.clock.turn(0.1)

    assert not set(ran).isdisjoint(deep)


async def test_a_name_that_comes_between_two_looks_is_claimed_without_one(world: World, ran: list[object]) -> None:
    post = Post()
    speaker = crier(world, post)
    worker, _ = await hired(world, post)
    await world.enqueue(await world.create())
    await speaker.step(world.clock.now())
    world.clock.turn(1.2)
    looks: list[object] = []
    look = worker._ready.work

    async def noted(*args: Any, roughly: bool = False) -> Any:
        looks.append(args)
        return await look(*args, roughly=roughly)

    worker._ready.work = noted  # type: ignore[method-assign]
    await worker.step(world.clock.now())
    await asyncio.sleep(0)

    assert (len(ran), looks) == (1, [])
    await run_until_idle(worker, world.clock)
