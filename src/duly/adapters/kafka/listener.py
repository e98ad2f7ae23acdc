"""One thread that receives."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

log = logging.getLogger("duly.kafka")

# Seconds a consumer waits for messages before it looks whether it should end.
_PATIENCE = 0.5


class Listener:
    """A consumer on a thread of its own, which hands what it gets to the event loop."""

    def __init__(
        self, make: Callable[[], Consumer], loop: asyncio.AbstractEventLoop, heard: Callable[[Sequence[Message]], None], name: str
    ) -> None:
        self._make = make
        self._loop = loop
        self._heard = heard
        self._stop = threading.Event()
        self._settled: deque[Message] = deque()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def settle(self, messages: Sequence[Message]) -> None:
        """These are dealt with: their offsets may be committed. The thread sees to it, because nobody else may touch its consumer."""
        self._settled.extend(messages)

    def close(self) -> None:
        """Leave the group. Does not wait for long: it is called from the event loop."""
        self._stop.set()
        self._thread.join(timeout=2 * _PATIENCE + 1.0)

    def _run(self) -> None:
        consumer = self._make()
        try:
            while not self._stop.is_set():
                self._keep_offsets(consumer)
                try:
                    # Asked for several, the library waits until it has them all: so for the first, and then for what has come with it.
                    first = consumer.poll(_PATIENCE)
                    messages = [] if first is None else [first, *consumer.consume(num_messages=63, timeout=0)]
                except Exception as error:
                    log.debug("nothing was received: %s", error)
                    self._stop.wait(_PATIENCE)
                    continue
                good = [message for message in messages if message.error() is None]
                for message in messages:
                    if message.error() is not None:
                        log.debug("kafka: %s", message.error())
                if good and not self._loop.is_closed():
                    self._loop.call_soon_threadsafe(self._heard, good)
                if len(good) < len(messages):
                    # An error that stays, such as a topic that is gone, must not keep a core busy.
                    self._stop.wait(0.1)
            self._keep_offsets(consumer)
        finally:
            try:
                consumer.close()
            except Exception as error:
                log.debug("the consumer did not close: %s", error)

    def _keep_offsets(self, consumer: Consumer) -> None:
        while self._settled:
            try:
                consumer.store_offsets(message=self._settled.popleft())
            except Exception as error:
                # The partition is somebody else's by now: he gets the message again, and that is harmless.
                log.debug("an offset was not kept: %s", error)
