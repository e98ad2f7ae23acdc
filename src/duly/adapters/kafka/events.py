"""Events on Kafka: every change to one topic, dead letters to another as well, both keyed by execution so that each keeps its order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from duly.adapters.kafka.address import KafkaAddress
from duly.adapters.kafka.client import producer
from duly.adapters.kafka.topics import EVENTS, Topics
from duly.domain.errors import Unavailable
from duly.domain.events import Happened, event_of, is_dead_letter

log = logging.getLogger("duly.events")

# So long a batch may take before it is tried again as a whole.
PUBLISH_TIMEOUT = 20.0
_encode = msgspec.json.encode


class KafkaEvents:
    """One idempotent producer. What it has acknowledged is on all brokers that are in sync."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self._topics = Topics(address)
        self._events = f"{address.prefix}.events"
        self._letters = f"{address.prefix}.dead-letters"
        self._producer: Producer | None = None

    async def publish(self, happened: Sequence[Happened]) -> None:
        await asyncio.to_thread(self._publish, happened)

    def _publish(self, happened: Sequence[Happened]) -> None:
        for topic in (self._events, self._letters):
            if not self._topics.has(topic) and not self._topics.make(topic, self._address.partitions, EVENTS):
                raise self._away("its topics cannot be made")
        if self._producer is None:
            # Nothing waits longer inside the library than for the whole batch: what was given up must not come after what is sent instead.
            settings: dict[str, Any] = {"linger.ms": 5, "message.timeout.ms": 15_000, "compression.type": "lz4"}
            self._producer = producer(self._address, **settings)
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)
                self._topics.forget(message.topic() or "")

        for item in happened:
            message, key = _encode(event_of(item)), item.id.hex.encode()
            for topic in (self._events, self._letters) if is_dead_letter(item) else (self._events,):
                self._send(topic, message, key, delivered)
        left = self._producer.flush(PUBLISH_TIMEOUT)
        if left or failed:
            # All of it is published again, by another: nothing of this one may come after that.
            self._producer.purge()
            self._producer = None
            raise self._away(str(failed[0]) if failed else f"{left} events were not acknowledged")

    def _send(self, topic: str, message: bytes, key: bytes, delivered: Any) -> None:
        assert self._producer is not None
        while True:
            try:
                self._producer.produce(topic, message, key, on_delivery=delivered)
                return
            except BufferError:
                # Its queue is full: some must be acknowledged first.
                self._producer.poll(0.1)

    def _away(self, why: str) -> Unavailable:
        return Unavailable("DULY-E505", f"Events were not published: {why}.", hint="They are kept, and published when Kafka answers.")

    async def close(self) -> None:
        self._producer = None
