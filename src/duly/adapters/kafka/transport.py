"""Kafka as transport: a topic per pool with the ids of what is ready, and a bell for everybody.

    duly.ready.<pool>   which executions are ready; each message reaches one worker of those that are alike (a consumer group)
    duly.bell           "something is ready", "somebody is to stop", "something is due at …"; every process hears all of it

Nothing here is true. Messages are lost while no broker answers, repeated after a rebalance, late behind a worker that hangs; the worker
claims what they name in the store, and looks there by itself every second. Nobody joins before he has to: the library is loaded, and
the brokers are asked, when there is something to say or to wait for. Offsets are committed after the claim, because a worker that
dies before it need not cost the others a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from duly.adapters.kafka.address import KafkaAddress
from duly.adapters.kafka.listener import Listener
from duly.adapters.kafka.topics import HINTS, Topics
from duly.domain.announcements import Announcement, decode, encode
from duly.domain.instants import Instant
from duly.ports.transport import Transport

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer

log = logging.getLogger("duly.transport")

# So many messages may wait for the worker; the oldest are forgotten, and announced again if they are still true.
MOST_WAITING = 256
# Words for the bell are gathered for so long: one message for a burst of commits.
GATHER_FOR = 0.002
# How long a hint may be on its way before it is not worth sending.
WORTH_FOR_MS = 5_000
# After a try to make a topic has failed.
TRY_AGAIN_AFTER = 1.0
# A worker that begins beside a full queue needs no mail, and joins nothing until it finds no work; after so many seconds it hears cancels.
HEAR_CANCELS_AFTER = 10.0


class LocalBell(Transport, Protocol):
    """The bell inside this process, which rings for what comes from others."""

    def ring(self) -> None:
        """Something may be ready."""

    def ring_cancel(self) -> None:
        """Somebody may have asked for a stop."""

    def ring_due(self, at: Instant) -> None:
        """Something becomes due at this instant."""


class KafkaTransport:
    """One producer; a consumer for the bell once somebody waits for it, and one for the mail of a worker."""

    def __init__(self, address: KafkaAddress, bell: LocalBell) -> None:
        self._address = address
        self._bell = bell
        self._topics = Topics(address)
        self._producer: Producer | None = None
        self._bell_topic = f"{address.prefix}.bell"
        self._making: dict[str, asyncio.Task[None]] = {}
        self._failed_at: dict[str, float] = {}
        self._words: set[str] = set()
        self._due: Instant | None = None
        self._sending: asyncio.TimerHandle | None = None
        self._hearing: asyncio.TimerHandle | None = None
        self._bell_listener: Listener | None = None
        self._mail_listener: Listener | None = None
        self._mail: deque[tuple[Message, Announcement]] = deque(maxlen=MOST_WAITING)
        self._unsettled: dict[tuple[str, int], Message] = {}
        self._came = asyncio.Event()
        self._next_partition = secrets.randbelow(address.partitions)
        self._is_closed = False

    # ------------------------------------------------------------ the bell

    async def announce(self, routes: Sequence[int]) -> None:
        self._bell.ring()
        self._say("ready")

    async def announce_cancel(self) -> None:
        self._bell.ring_cancel()
        self._say("cancel")

    async def announce_due(self, at: Instant) -> None:
        self._bell.ring_due(at)
        self._due = at if self._due is None else min(at, self._due)
        self._say()

    async def wait_ready(self, timeout: float) -> bool:
        self._hear_bell()
        return await self._bell.wait_ready(timeout)

    async def wait_flow(self, timeout: float) -> bool:
        self._hear_bell()
        return await self._bell.wait_flow(timeout)

    async def wait_cancel(self, timeout: float) -> bool:
        self._hear_bell_later()
        return await self._bell.wait_cancel(timeout)

    async def wait_due(self, until: Instant, timeout: float) -> list[Instant]:
        self._hear_bell()
        return await self._bell.wait_due(until, timeout)

    async def wait_scheduled(self, timeout: float) -> bool:
        self._hear_bell()
        return await self._bell.wait_scheduled(timeout)

    def _say(self, *words: str) -> None:
        self._words.update(words)
        if self._sending is None and not self._is_closed:
            self._sending = asyncio.get_running_loop().call_later(GATHER_FOR, self._send)

    def _send(self) -> None:
        self._sending = None
        due, self._due = self._due, None
        words = [*sorted(self._words), *([] if due is None else [str(due)])]
        self._words.clear()
        self._produce(self._bell_topic, " ".join(words).encode(), 1, partition=0)

    def _hear_bell(self) -> None:
        if self._bell_listener is None and not self._is_closed:
            if not self._topics.has(self._bell_topic):
                self._make_aside(self._bell_topic, 1)

            def consumer() -> Consumer:
                from duly.adapters.kafka.client import bell_consumer

                return bell_consumer(self._address, self._bell_topic)

            self._bell_listener = Listener(consumer, asyncio.get_running_loop(), self._heard_bell, "duly-kafka-bell")

    def _hear_bell_later(self) -> None:
        """Who waits for nothing but cancels is a worker, and one that has had work since it began hears of them by its heartbeat."""
        if self._bell_listener is None and self._hearing is None and not self._is_closed:
            self._hearing = asyncio.get_running_loop().call_later(HEAR_CANCELS_AFTER, self._hear_bell)

    def _heard_bell(self, messages: Sequence[Message]) -> None:
        for message in messages:
            for word in (message.value() or b"").decode("ascii", errors="replace").split()[:100]:
                if word == "ready":
                    self._bell.ring()
                elif word == "cancel":
                    self._bell.ring_cancel()
                elif word.isascii() and word.isdigit() and len(word) < 19:
                    self._bell.ring_due(int(word))

    # ------------------------------------------------------------ the mail

    async def post(self, pool: str, announcements: Sequence[Announcement]) -> None:
        topic = self._topic(pool)
        for announcement in announcements:
            key = announcement.named[0].id.bytes if announcement.named else None
            # In turn, rather than by the key: a worker that is busy must not get what is meant for all of them.
            self._next_partition = (self._next_partition + 1) % self._address.partitions
            self._produce(topic, encode(announcement), self._address.partitions, key=key, partition=self._next_partition)

    async def post_all(self, pool: str, announcement: Announcement) -> None:
        message = encode(announcement)
        for partition in range(self._address.partitions):
            self._produce(self._topic(pool), message, self._address.partitions, partition=partition)

    def listen(self, pool: str, alike: str) -> None:
        if self._mail_listener is None and not self._is_closed:
            topic = self._topic(pool)

            def consumer() -> Consumer:
                from duly.adapters.kafka.client import mail_consumer

                # Before it joins: who joins for a topic that is not there asks for it again only seconds later.
                self._topics.make(topic, self._address.partitions, HINTS)
                return mail_consumer(self._address, topic, alike)

            self._mail_listener = Listener(consumer, asyncio.get_running_loop(), self._heard_mail, "duly-kafka-mail")
            self._hear_bell()

    def received(self) -> list[Announcement]:
        found = [announcement for _, announcement in self._mail]
        for message, _ in self._mail:
            self._unsettled[message.topic() or "", message.partition() or 0] = message
        self._mail.clear()
        return found

    def settle(self) -> None:
        if self._unsettled and self._mail_listener is not None:
            self._mail_listener.settle(list(self._unsettled.values()))
            self._unsettled.clear()

    async def wait_mail(self, timeout: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._came.wait()
        heard = self._came.is_set()
        # Heard once: who has no room for the mail now must not be called again and again.
        self._came.clear()
        return heard

    def _heard_mail(self, messages: Sequence[Message]) -> None:
        for message in messages:
            announcement = decode(message.value())
            if announcement is None:
                log.debug("a message in %s is not ours, or is damaged: it is left out", message.topic())
            else:
                self._mail.append((message, announcement))
                self._came.set()

    def _topic(self, pool: str) -> str:
        return f"{self._address.prefix}.ready.{pool}"

    # ------------------------------------------------------------ sending

    def _produce(self, topic: str, message: bytes, partitions: int, *, partition: int, key: bytes | None = None) -> None:
        """Hand it to the library, which sends it from a thread of its own; whatever happens to it, nobody is told."""
        if self._is_closed:
            return
        if not self._topics.has(topic):
            self._make_aside(topic, partitions)
        if self._producer is None:
            from duly.adapters.kafka.client import producer

            self._producer = producer(self._address, **{"linger.ms": 0, "message.timeout.ms": WORTH_FOR_MS})
        try:
            self._producer.produce(topic, message, key, partition, on_delivery=self._delivered)
            self._producer.poll(0)
        except Exception as error:
            # The queue is full, or the topic has fewer partitions than we think: whoever waits for a hint also polls.
            log.debug("a hint was lost: %s", error)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            log.debug("a hint was lost: %s", error)
            # Perhaps somebody has deleted the topic: the next message looks, and makes it again.
            self._topics.forget(message.topic() or "")

    def _make_aside(self, topic: str, partitions: int) -> None:
        """Make a topic on a thread, unless that is under way or has just failed."""
        is_young = time.monotonic() - self._failed_at.get(topic, -TRY_AGAIN_AFTER) < TRY_AGAIN_AFTER
        if topic in self._making or is_young or self._is_closed:
            return

        async def make() -> None:
            try:
                if not await asyncio.to_thread(self._topics.make, topic, partitions, HINTS):
                    self._failed_at[topic] = time.monotonic()
            finally:
                self._making.pop(topic, None)

        self._making[topic] = asyncio.create_task(make(), name="duly-kafka-topic")

    async def close(self) -> None:
        self._is_closed = True
        for timer in (self._sending, self._hearing):
            if timer is not None:
                timer.cancel()
        for task in list(self._making.values()):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for listener in (self._mail_listener, self._bell_listener):
            if listener is not None:
                await asyncio.to_thread(listener.close)
        if self._producer is not None:
            # What was said last has a moment to go out.
            await asyncio.to_thread(self._producer.flush, 0.5)
        await self._bell.close()
