"""The transports: the store's own, or Kafka with its couriers; and who speaks and listens on them."""

from __future__ import annotations

import hashlib
import importlib.util
from typing import TYPE_CHECKING

from duly import config
from duly.adapters.sql.bell import Bell
from duly.adapters.sql.engine import Engine
from duly.adapters.sql.engine_sqlite import SqliteEngine
from duly.compose.redis import hints_over
from duly.domain.errors import Invalid
from duly.domain.shards import SHARDS
from duly.ports.clock import Clock
from duly.ports.handlers import Registry
from duly.ports.store import StoreQueue
from duly.ports.transport import Courier, Transport
from duly.roles.crier import Crier, CrierSettings
from duly.roles.inbox import Mail
from duly.roles.ownership import Ownership

if TYPE_CHECKING:
    from duly.adapters.redis.hints import StoreTransport
    from duly.adapters.redis.link import RedisLink

STORE = "store"


def open_transport(engine: Engine, settings: config.Settings, redis: RedisLink | None) -> tuple[Transport, Courier | None]:
    """What carries hints: Kafka, else Redis with the store behind it, else the store.

    Raises Invalid (DULY-E601, DULY-E620) when it cannot be had as it is named.
    """
    if settings.transport in ("", STORE):
        store = _store_transport(engine, settings.store_direct)
        return (store if redis is None else hints_over(redis, store)), None
    # Looked for and not loaded: it is slow to load, and not every process comes to need it.
    if importlib.util.find_spec("confluent_kafka") is None:
        raise not_installed("DULY_TRANSPORT")
    from duly.adapters.kafka.address import parse_address
    from duly.adapters.kafka.transport import KafkaTransport

    kafka = KafkaTransport(parse_address(settings.transport, "DULY_TRANSPORT"), Bell())
    return kafka, kafka


def not_installed(setting: str) -> Invalid:
    """Kafka was asked for, and its client is not there."""
    return Invalid("DULY-E620", "Kafka needs an extra.", field=setting, hint="pip install 'duly[kafka]'")


def crier_of(queue: StoreQueue, courier: Courier, transport: Transport, clock: Clock, ownership: Ownership) -> Crier:
    """Speaks of the routes that fall to this dispatcher: each has a shard, and each shard an owner."""

    def owns(route: int) -> bool:
        return route % SHARDS in ownership.epochs()

    return Crier(queue, courier, transport, clock, owns, CrierSettings())


def mail_of(queue: StoreQueue, courier: Courier, settings: config.Settings, registry: Registry) -> Mail:
    """A worker's mail. Those that serve the same share it: labels and handlers say which those are."""
    served = repr((sorted(settings.labels.items()), sorted(registry.names())))
    return Mail(courier, queue, settings.pool, hashlib.sha256(served.encode()).hexdigest()[:12])


def _store_transport(engine: Engine, direct: str) -> StoreTransport:
    if isinstance(engine, SqliteEngine):
        from duly.adapters.sql.transport_sqlite import SqliteTransport

        return SqliteTransport(engine)
    from duly.adapters.sql.engine_postgres import PostgresEngine
    from duly.adapters.sql.transport_postgres import PostgresTransport

    assert isinstance(engine, PostgresEngine)
    return PostgresTransport(direct or engine.dsn)
