"""Who listens to what a process does."""

from __future__ import annotations

from duly import config
from duly.adapters.metered.store import metered
from duly.adapters.prometheus.meter import Meter
from duly.ports.clock import Clock
from duly.ports.store import Store
from duly.ports.telemetry import Telemetry


def meter_of(settings: config.Settings) -> Telemetry | None:
    """What keeps the counts of this process, if they are wanted."""
    return Meter() if settings.telemetry.counts else None


def listened(store: Store, telemetry: Telemetry | None, clock: Clock) -> Store:
    """The store with somebody who listens, or as it is."""
    return store if telemetry is None else metered(store, telemetry, clock)
