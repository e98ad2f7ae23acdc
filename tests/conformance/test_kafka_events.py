"""Events on a real broker: what the herald has crossed out is there, in order, and what it could not publish comes later."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer

from duly.adapters.kafka.address import KafkaAddress, parse_address
from duly.adapters.kafka.events import KafkaEvents
from duly.adapters.sql.engine_sqlite import InlineSqliteEngine
from duly.domain.errors import Invalid, Unavailable
from duly.domain.lifecycle import Outcome
from duly.domain.retry import RetryPolicy
from duly.roles.herald import Herald, HeraldSettings
from duly.services.kafka import Kafka
from tests.conformance.conftest import inline_engine
from tests.conformance.world import World


def consumed(address: KafkaAddress, topic: str, count: int) -> list[tuple[bytes, dict[str, Any]]]:
    """The first so many messages of a topic, with their keys; those of one key in their order."""
    consumer = Consumer({"bootstrap.servers": address.servers, "group.id": f"{topic}-{time.time_ns()}", "auto.offset.reset": "earliest"})
    consumer.subscribe([f"{address.prefix}.{topic}"])
    found: list[tuple[bytes, dict[str, Any]]] = []
    until = time.monotonic() + 45
    while len(found) < count and time.monotonic() < until:
        for message in consumer.consume(100, 0.5):
            if message.error() is None:
                found.append((message.key() or b"", msgspec.json.decode(message.value() or b"")))
    consumer.close()
    return found


async def lived(world: World) -> list[str]:
    """A run that succeeds and one that dies: the types of all their events."""
    job = await world.job(retry=RetryPolicy(max_attempts=1))
    for outcome in (Outcome.SUCCEEDED, Outcome.FAILED):
        await world.enqueue(job)
        worker = await world.worker()
        claimed = await world.claimed(worker)
        await world.store.outcomes.finish(worker, await world.ended(claimed, outcome), [claimed.lease], world.now)
    return ["created", "dispatched", "succeeded", "created", "dispatched", "failed", "dead"]


async def settled(herald: Herald, world: World) -> None:
    """Step until nothing is left, whatever is away meanwhile."""
    async with asyncio.timeout(60):
        while True:
            try:
                if not (await herald.step(world.now)).did["published"]:
                    return
            except Unavailable:
                await asyncio.sleep(0.2)


@pytest.fixture
async def inline() -> InlineSqliteEngine:
    return await inline_engine()


async def test_every_change_is_published_in_order_and_dead_letters_twice(inline: InlineSqliteEngine, kafka_url: str) -> None:
    world, address = World(inline), parse_address(kafka_url, "DULY_EVENTS")
    herald = Herald("me", world.store.outbox, KafkaEvents(address), HeraldSettings())
    await herald.step(world.now)
    types = await lived(world)

    await settled(herald, world)

    events = await asyncio.to_thread(consumed, address, "events", len(types))
    by_key: dict[bytes, list[str]] = {}
    for key, event in events:
        assert key.decode() == event["executionId"].removeprefix("run_")
        by_key.setdefault(key, []).append(event["type"].removeprefix("execution."))
    assert sorted(by_key.values()) == sorted([types[:3], types[3:]])
    letters = await asyncio.to_thread(consumed, address, "dead-letters", 1)
    assert [event["type"] for _, event in letters] == ["execution.dead"]


@pytest.mark.slow
async def test_what_a_dead_broker_did_not_take_is_published_when_it_is_back(
    inline: InlineSqliteEngine, own_broker: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.adapters.kafka.events.PUBLISH_TIMEOUT", 1.0)
    world, address = World(inline), parse_address(own_broker.url, "DULY_EVENTS")
    herald = Herald("me", world.store.outbox, KafkaEvents(address), HeraldSettings())
    await herald.step(world.now)
    first = await lived(world)
    await settled(herald, world)

    own_broker.kill()
    second = await lived(world)
    with pytest.raises(Unavailable) as raised:
        await herald.step(world.now)
    await asyncio.to_thread(own_broker.start)
    await settled(herald, world)

    assert raised.value.code == "DULY-E505"
    events = await asyncio.to_thread(consumed, address, "events", len(first) + len(second))
    # Some may have come twice; none is missing.
    assert len({event["id"] for _, event in events}) == len(first) + len(second)


@pytest.mark.parametrize(
    "text",
    [
        "kafka://",
        "kafka://host",
        "kafka://host:0",
        "kafka://host:9092,",
        "kafka://host:9092?tls=maybe",
        "kafka://host:9092?colour=red",
        "kafka://host:9092?ca=/x",
        "kafka://host:9092?tls=true&key=/x",
        "kafka://host:9092?partitions=0",
        "kafka://host:9092?mechanism=PLAIN",
        "kafka://ann:hush@host:9092?mechanism=PLAIN",
        "kafka://ann:hush@host:9092?tls=true&mechanism=GSSAPI",
        "kafka://host:9092/pre fix",
        "http://host:9092",
    ],
)
def test_an_address_that_cannot_be_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(Invalid) as raised:
        parse_address(text, "DULY_TRANSPORT")

    assert (raised.value.code, raised.value.field) == ("DULY-E601", "DULY_TRANSPORT")
    assert "hush" not in str(raised.value)


def test_an_address_says_who_asks_and_how() -> None:
    found = parse_address("kafka://ann:p%40ss@a:9093,b:9094/shop?tls=true&ca=/ca.pem&partitions=3&replication=2", "DULY_TRANSPORT")

    assert (found.servers, found.prefix, found.partitions, found.replication) == ("a:9093,b:9094", "shop", 3, 2)
    assert found.client == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": "p@ss",
    }
    assert "p@ss" not in repr(found)
