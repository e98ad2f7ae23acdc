"""Producers and consumers of ours, and what their settings have in common.

Whoever imports this imports the library, which costs a process some 15 ms: so only who is about to send or to receive does."""

from __future__ import annotations

import logging
import secrets
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, Producer, TopicPartition

from duly.adapters.kafka.address import KafkaAddress

log = logging.getLogger("duly.kafka")

_QUIET = 2


def common(address: KafkaAddress) -> dict[str, Any]:
    """Settings of every client. The library itself is kept quiet: a broker that is away is no news to anybody but us."""
    return {
        "bootstrap.servers": address.servers,
        "client.id": "duly",
        "log_level": _QUIET,
        "error_cb": _on_error,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1_000,
        "topic.metadata.refresh.interval.ms": 5_000,
        "allow.auto.create.topics": False,
        "socket.keepalive.enable": True,
        **address.client,
    }


def producer(address: KafkaAddress, **settings: Any) -> Producer:
    """A producer whose messages are kept by all brokers that are in sync, once each and in order."""
    return Producer({**common(address), "acks": "all", "enable.idempotence": True, **settings})


def bell_consumer(address: KafkaAddress, topic: str) -> Consumer:
    """Hears everything that is said from now on: a group of its own that commits nothing."""
    group = f"{topic}.{secrets.token_hex(8)}"
    consumer = Consumer({**common(address), "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "latest"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    return consumer


def mail_consumer(address: KafkaAddress, topic: str, alike: str) -> Consumer:
    """One of a group that shares what is said. It commits only what it was told to store."""
    consumer = Consumer(
        {
            **common(address),
            "group.id": f"{topic}.{alike}",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 10_000,
            "max.poll.interval.ms": 30_000,
            # What was said before somebody listened has been said again since.
            "auto.offset.reset": "latest",
            "enable.auto.offset.store": False,
            "auto.commit.interval.ms": 1_000,
        }
    )
    consumer.subscribe([topic])
    return consumer


def _on_error(error: KafkaError) -> None:
    log.debug("kafka: %s", error)
