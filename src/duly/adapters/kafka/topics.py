"""Topics, made when they are needed and made again when somebody deleted them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from duly.adapters.kafka.address import KafkaAddress

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

log = logging.getLogger("duly.kafka")

# Hints are worth nothing after a few minutes.
HINTS = {"retention.ms": "600000", "segment.ms": "300000", "cleanup.policy": "delete"}
# Events are for others to read in their own time.
EVENTS = {"retention.ms": str(7 * 24 * 3600 * 1000), "cleanup.policy": "delete"}
_TIMEOUT = 5.0


class Topics:
    """Knows which topics there are. Every call may take seconds: it is made aside."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self._admin: AdminClient | None = None
        self._known: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether it was there when we last looked."""
        return name in self._known

    def forget(self, name: str) -> None:
        """Somebody says that it is gone."""
        self._known.discard(name)

    def make(self, name: str, partitions: int, kept: Mapping[str, str]) -> bool:
        """See to it that it is there; False when the brokers are away."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        from duly.adapters.kafka.client import common

        if self._admin is None:
            self._admin = AdminClient(common(self._address))
        try:
            found = self._admin.list_topics(timeout=_TIMEOUT)
            if name not in found.topics:
                brokers = max(len(found.brokers), 1)
                copies = self._address.replication or min(brokers, 3)
                in_sync = self._address.min_in_sync or max(copies - 1, 1)
                topic = NewTopic(name, partitions, copies, config={**kept, "min.insync.replicas": str(in_sync)})
                self._admin.create_topics([topic], operation_timeout=_TIMEOUT)[name].result(_TIMEOUT)
        except KafkaException as error:
            # Of those who make it at the same time, one does; a broker that is away says so another way.
            if "TOPIC_ALREADY_EXISTS" not in str(error):
                log.debug("the topic %s cannot be made: %s", name, error)
                return False
        except Exception as error:
            log.debug("the topic %s cannot be made: %s", name, error)
            return False
        self._known.add(name)
        return True
