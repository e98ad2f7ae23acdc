"""Who brings finished executions to analysts: an exporter where DULY_ANALYTICS names a ClickHouse; elsewhere somebody who notices that none
comes any more."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from typing import TYPE_CHECKING

from duly import config
from duly.adapters.system.clock import SystemClock, system_entropy
from duly.domain.errors import Invalid
from duly.ports.records import Records
from duly.roles import loop
from duly.roles.exporter import Exporter, ExporterSettings, Lapse, LapseSettings

if TYPE_CHECKING:
    from duly.adapters.clickhouse.server import ClickHouse


def open_clickhouse(address: str) -> ClickHouse:
    """Where records go. Raises Invalid (DULY-E601, DULY-E630) when it cannot be had as it is named."""
    try:
        from duly.adapters.clickhouse.server import ClickHouse, parse_address
    except ImportError as error:
        hint = "pip install 'duly[clickhouse]'"
        raise Invalid("DULY-E630", "ClickHouse needs an extra.", field="DULY_ANALYTICS", hint=hint) from error
    return ClickHouse(parse_address(address, "DULY_ANALYTICS").connect)


async def export_records(records: Records, settings: config.Settings, clock: SystemClock, stop: asyncio.Event) -> None:
    """Until the stop."""
    if settings.analytics is None:
        await loop.run(Lapse(records, LapseSettings()), clock, stop, system_entropy)
        return
    sink = open_clickhouse(settings.analytics)
    exporter = Exporter(f"{settings.hostname}:{os.getpid()}:{secrets.token_hex(4)}", records, sink, ExporterSettings())
    try:
        await loop.run(exporter, clock, stop, system_entropy)
        with contextlib.suppress(Exception):
            await exporter.stop()
    finally:
        await sink.close()
