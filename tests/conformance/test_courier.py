"""Kafka's mail with a real broker: who gets it, when it comes again, and what is not believed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from uuid import UUID

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from duly.adapters.kafka import listener, transport
from duly.adapters.kafka.address import parse_address
from duly.adapters.kafka.transport import KafkaTransport
from duly.adapters.sql.bell import Bell
from duly.domain.announcements import Announcement, Named, encode
from duly.services.kafka import Kafka

POOL = "default"
Open = Callable[[], KafkaTransport]
Got = list[list[Announcement]]


def named(*numbers: int) -> Announcement:
    return Announcement([Named(1, 1, number, UUID(int=number)) for number in numbers])


@pytest.fixture
async def open_courier(kafka_url: str) -> AsyncIterator[Open]:
    made: list[KafkaTransport] = []

    def make() -> KafkaTransport:
        made.append(KafkaTransport(parse_address(kafka_url, "DULY_TRANSPORT"), Bell()))
        return made[-1]

    yield make
    for courier in made:
        await courier.close()


async def receive(
    couriers: Sequence[KafkaTransport], until: Callable[[list[list[Announcement]]], bool], say: Callable[[], object]
) -> list[list[Announcement]]:
    """What each has received, once it is enough; meanwhile it is said again, as the crier does."""
    got: Got = [[] for _ in couriers]
    async with asyncio.timeout(45):
        while not until(got):
            await say()
            for _ in range(10):
                for courier, mine in zip(couriers, got, strict=True):
                    mine += courier.received()
                    courier.settle()
                if until(got):
                    break
                await couriers[0].wait_mail(0.05)
    return got


async def test_workers_that_are_alike_share_the_mail_and_others_hear_it_as_well(open_courier: Open) -> None:
    crier, first, second, other = (open_courier() for _ in range(4))
    first.listen(POOL, "alike")
    second.listen(POOL, "alike")
    other.listen(POOL, "different")
    count = 0

    async def say() -> None:
        nonlocal count
        count += 8
        await crier.post(POOL, [named(number) for number in range(count - 8, count)])

    got = await receive([first, second, other], lambda got: all(len(mine) >= 8 for mine in got), say)

    shared = [name.id for mine in got[:2] for announcement in mine for name in announcement.named]
    assert len(shared) >= 16
    assert len({name.id for announcement in got[2] for name in announcement.named}) >= 8


async def test_everybody_hears_that_a_queue_is_deep(open_courier: Open) -> None:
    crier, first, second = (open_courier() for _ in range(3))
    first.listen(POOL, "alike")
    second.listen(POOL, "alike")

    got = await receive([first, second], lambda got: all(got), lambda: crier.post_all(POOL, Announcement(deep=[3])))

    assert all(announcement.deep == [3] for mine in got for announcement in mine)


async def test_one_message_is_heard_without_waiting_for_more(open_courier: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    crier, worker = open_courier(), open_courier()
    worker.listen(POOL, "alike")
    await receive([worker], lambda got: bool(got[0]), lambda: crier.post(POOL, [named(1)]))

    monkeypatch.setattr(listener, "_PATIENCE", 3600.0)
    for number in (2, 3, 4):
        await crier.post(POOL, [named(number)])
        async with asyncio.timeout(30):
            while not any(name.id.int == number for announcement in worker.received() for name in announcement.named):
                await worker.wait_mail(0.05)

    # Whoever listens with so much patience notices the end with the next message.
    monkeypatch.undo()
    await crier.post(POOL, [named(5)])


@pytest.mark.parametrize("is_idle", [True, False], ids=["once it listens", "after a while"])
async def test_a_worker_hears_cancels(open_courier: Open, monkeypatch: pytest.MonkeyPatch, is_idle: bool) -> None:
    monkeypatch.setattr(transport, "HEAR_CANCELS_AFTER", 3600.0 if is_idle else 0.0)
    server, worker = open_courier(), open_courier()
    if is_idle:
        worker.listen(POOL, "alike")

    async with asyncio.timeout(45):
        while True:
            await server.announce_cancel()
            if await worker.wait_cancel(0.3):
                break


async def test_another_pool_hears_nothing_of_it(open_courier: Open) -> None:
    crier, here, there = (open_courier() for _ in range(3))
    here.listen(POOL, "alike")
    there.listen("other", "alike")

    got = await receive([here, there], lambda got: len(got[0]) >= 3, lambda: crier.post(POOL, [named(1)]))

    assert got[1] == []


async def test_what_is_damaged_or_not_ours_is_left_out(open_courier: Open, kafka_url: str) -> None:
    crier, worker = open_courier(), open_courier()
    worker.listen(POOL, "alike")
    address = parse_address(kafka_url, "DULY_TRANSPORT")
    stranger = Producer({"bootstrap.servers": address.servers})
    topic = f"{address.prefix}.ready.{POOL}"
    whole = encode(named(1, 2, 3))
    damaged = [b"", b"\x00", b'{"id":1}', None, whole[:-1], whole + b"\x00"]
    damaged += [bytes([*whole[:at], whole[at] ^ (1 << bit), *whole[at + 1 :]]) for at in range(len(whole)) for bit in (0, 7)]

    async def say() -> None:
        for message in damaged:
            stranger.produce(topic, message)
        stranger.flush(5)
        await crier.post(POOL, [named(7)])

    got = await receive([worker], lambda got: len(got[0]) >= 3, say)

    assert {name.rank for announcement in got[0] for name in announcement.named} == {7}


async def test_what_was_not_settled_comes_again_to_whoever_is_left(open_courier: Open) -> None:
    crier, first = open_courier(), open_courier()
    first.listen(POOL, "alike")
    # Every partition has been read once, so that the group knows where it stands in each.
    await receive([first], lambda got: len(got[0]) >= 8, lambda: crier.post_all(POOL, Announcement(deep=[1])))

    await crier.post(POOL, [named(42)])
    await _heard(first, 42)
    await first.close()
    second = open_courier()
    second.listen(POOL, "alike")

    await _heard(second, 42)


async def _heard(courier: KafkaTransport, rank: int) -> None:
    async with asyncio.timeout(45):
        while not any(name.rank == rank for announcement in courier.received() for name in announcement.named):
            await courier.wait_mail(0.2)


@pytest.mark.slow
async def test_a_topic_that_was_deleted_is_made_again(open_courier: Open, kafka_url: str) -> None:
    crier, worker = open_courier(), open_courier()
    worker.listen(POOL, "alike")
    address = parse_address(kafka_url, "DULY_TRANSPORT")
    await receive([worker], lambda got: bool(got[0]), lambda: crier.post(POOL, [named(1)]))

    admin = AdminClient({"bootstrap.servers": address.servers})
    admin.delete_topics([f"{address.prefix}.ready.{POOL}"])[f"{address.prefix}.ready.{POOL}"].result(10)

    got = await receive([worker], lambda got: any(name.rank == 2 for a in got[0] for name in a.named), lambda: crier.post(POOL, [named(2)]))
    assert got[0]


@pytest.mark.slow
async def test_a_broker_that_was_killed_is_found_again(own_broker: Kafka) -> None:
    address = parse_address(f"{own_broker.url}?partitions=4", "DULY_TRANSPORT")
    crier, worker = KafkaTransport(address, Bell()), KafkaTransport(address, Bell())
    worker.listen(POOL, "alike")
    await receive([worker], lambda got: bool(got[0]), lambda: crier.post(POOL, [named(1)]))

    own_broker.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            while True:
                # Nobody is there, and nobody is told: a hint is lost.
                await crier.post(POOL, [named(9)])
                await crier.announce([1])
                await asyncio.sleep(0.05)
    await asyncio.to_thread(own_broker.start)

    await receive([worker], lambda got: any(name.rank == 2 for a in got[0] for name in a.named), lambda: crier.post(POOL, [named(2)]))
    await crier.close()
    await worker.close()
