"""Kafka under test: the fleet hears of its work over a real broker, which is killed, hangs, and loses its topics.

None of it is a fault of the store, so none of it excuses anything: what is promised without Kafka is promised with a broken one.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence

from duly.services.kafka import Kafka
from duly.verify.engines.engine import Private
from duly.verify.faults import Kind
from duly.verify.links import Links
from duly.verify.stage import Stage

KAFKA = "kafka"


class KafkaEngine(Private[Kafka]):
    """A private broker. Nodes reach it as it names itself, so its links cannot be cut one by one."""

    name = KAFKA

    def __init__(self) -> None:
        super().__init__(Kafka)
        self.kinds: Sequence[Kind] = (
            Kind("kafka-kill", 8, self._kill, "the broker ends without warning and is started again"),
            Kind("kafka-pause", 6, self._pause, "the broker hangs: nothing is answered and nothing ends"),
            Kind("kafka-topics", 4, self._forget, "the topics are deleted"),
        )

    async def settings(self, node: str, kind: str, links: Links) -> dict[str, str]:
        return {"DULY_TRANSPORT": self.server.url, "DULY_EVENTS": self.server.url}

    async def _kill(self, stage: Stage, chance: random.Random, seconds: float) -> None:
        async with self.turn, stage.broken("kafka-kill", [KAFKA], harmless=True):
            await self.on_thread(self.server.kill)
            try:
                await stage.hold(chance.uniform(0, 2 * seconds))
            finally:
                await self.on_thread(self.server.start)

    async def _pause(self, stage: Stage, chance: random.Random, seconds: float) -> None:
        async with self.turn, stage.broken("kafka-pause", [KAFKA], harmless=True):
            self.server.pause()
            try:
                await stage.hold(seconds * chance.uniform(0.5, 4))
            finally:
                self.server.resume()

    async def _forget(self, stage: Stage, chance: random.Random, seconds: float) -> None:
        """The topics with the hints are gone, with all that was in them."""
        async with self.turn, stage.broken("kafka-topics", [KAFKA], harmless=True) as fault:
            fault.about["topics"] = await self.on_thread(self._delete_topics)

    def _delete_topics(self) -> int:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.server.port}"})
        names = [name for name in admin.list_topics(timeout=5).topics if name.startswith("duly.ready.") or name == "duly.bell"]
        for future in admin.delete_topics(names, operation_timeout=5).values() if names else ():
            with contextlib.suppress(Exception):
                future.result(5)
        return len(names)
