"""Ways to run Duly that are measured beside one another: a name, and the settings that make it so.

Every question is asked of every usual variant. A new transport or hot index is one more line here. What takes a while until it runs as it
would on any other day (a broker compiles its own code for half a minute) is started once and kept for the run, as PostgreSQL is.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from benchmarks.collector import collecting
from duly.services.kafka import Kafka
from duly.services.redis import Redis

# As a broker comes: our own for tests looks after itself ten times as often, so that faults are noticed sooner.
BROKER_SETTINGS = {"broker.heartbeat.interval.ms": "2000", "broker.session.timeout.ms": "9000"}


class Kept:
    """Servers that are started when they are first asked for, and stay until the run is over."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._broker: Kafka | None = None

    def broker(self) -> Kafka:
        """The broker of this run."""
        if self._broker is None:
            self._broker = self._stack.enter_context(Kafka(BROKER_SETTINGS))
        return self._broker


def _nothing(kept: Kept) -> AbstractContextManager[Mapping[str, str]]:
    return nullcontext({})


@contextmanager
def _redis(kept: Kept) -> Iterator[Mapping[str, str]]:
    with Redis() as server:
        yield {"DULY_HOT_INDEX": server.url}


@contextmanager
def _kafka(kept: Kept) -> Iterator[Mapping[str, str]]:
    # Topics of their own: what was said of another store names nothing here.
    yield {"DULY_TRANSPORT": f"{kept.broker().url}/bench-{secrets.token_hex(4)}"}


@contextmanager
def _collector(kept: Kept) -> Iterator[Mapping[str, str]]:
    with collecting() as url:
        yield {"DULY_OTLP_URL": url}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """`settings` are DULY_… variables; `stores` the kinds of store it goes with; `beside` puts up what else it needs and tells the
    settings that lead there."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    stores: tuple[str, ...] = ("sqlite", "postgres")
    beside: Callable[[Kept], AbstractContextManager[Mapping[str, str]]] = _nothing

    @contextmanager
    def put_up(self, kept: Kept) -> Iterator[Variant]:
        """The same with everything that it needs, for as long as the block lasts."""
        with self.beside(kept) as settings:
            yield replace(self, settings={**self.settings, **settings})


AS_IT_COMES = Variant(name="")
ON_REDIS = Variant(name="redis", stores=("postgres",), beside=_redis)
ON_KAFKA = Variant(name="kafka", stores=("postgres",), beside=_kafka)
SILENT = Variant(name="silent", settings={"DULY_METRICS": "false"})
TRACED = Variant(name="traced", beside=_collector)
# What is asked unless it is said, and what must be said: without metrics, and with metrics and traces sent to a collector.
USUAL = (AS_IT_COMES, ON_REDIS, ON_KAFKA)
VARIANTS = {variant.name: variant for variant in (*USUAL, SILENT, TRACED)}
