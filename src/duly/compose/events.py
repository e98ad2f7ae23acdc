"""Who tells others what happened: a herald where DULY_EVENTS names a sink; elsewhere somebody who notices that none comes any more."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets

from duly import config
from duly.adapters.system.clock import SystemClock, system_entropy
from duly.compose.couriers import not_installed
from duly.ports.events import EventSink, Outbox
from duly.roles import loop
from duly.roles.herald import Curfew, CurfewSettings, Herald, HeraldSettings


def open_sink(address: str) -> EventSink:
    """Where events go. Raises Invalid (DULY-E601, DULY-E620) when it cannot be had as it is named."""
    try:
        from duly.adapters.kafka.address import parse_address
        from duly.adapters.kafka.events import KafkaEvents
    except ImportError as error:
        raise not_installed("DULY_EVENTS") from error
    return KafkaEvents(parse_address(address, "DULY_EVENTS"))


async def tell_events(outbox: Outbox, settings: config.Settings, clock: SystemClock, stop: asyncio.Event) -> None:
    """Until the stop."""
    if settings.events is None:
        await loop.run(Curfew(outbox, CurfewSettings()), clock, stop, system_entropy)
        return
    sink = open_sink(settings.events)
    herald = Herald(f"{settings.hostname}:{os.getpid()}:{secrets.token_hex(4)}", outbox, sink, HeraldSettings())
    try:
        await loop.run(herald, clock, stop, system_entropy)
        with contextlib.suppress(Exception):
            await herald.stop()
    finally:
        await sink.close()
