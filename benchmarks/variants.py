"""Ways to run Duly that are measured beside one another: a name, and the settings that make it so.

Every question is asked of every usual variant. A new transport or hot index is one more line here.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from benchmarks.collector import collecting
from duly.services.kafka import Kafka
from duly.services.redis import Redis


def _nothing() -> AbstractContextManager[Mapping[str, str]]:
    return nullcontext({})


@contextmanager
def _redis() -> Iterator[Mapping[str, str]]:
    with Redis() as server:
        yield {"DULY_HOT_INDEX": server.url}


@contextmanager
def _kafka() -> Iterator[Mapping[str, str]]:
    with Kafka() as broker:
        # Topics of their own: what was said of another store names nothing here.
        yield {"DULY_TRANSPORT": f"{broker.url}/bench-{secrets.token_hex(4)}"}


@contextmanager
def _collector() -> Iterator[Mapping[str, str]]:
    with collecting() as url:
        yield {"DULY_OTLP_URL": url}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """`settings` are DULY_… variables; `stores` the kinds of store it goes with; `beside` puts up what else it needs and tells the
    settings that lead there."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    stores: tuple[str, ...] = ("sqlite", "postgres")
    beside: Callable[[], AbstractContextManager[Mapping[str, str]]] = _nothing

    @contextmanager
    def put_up(self) -> Iterator[Variant]:
        """The same with everything that it needs, for as long as the block lasts."""
        with self.beside() as settings:
            yield replace(self, settings={**self.settings, **settings})


AS_IT_COMES = Variant(name="")
ON_REDIS = Variant(name="redis", stores=("postgres",), beside=_redis)
ON_KAFKA = Variant(name="kafka", stores=("postgres",), beside=_kafka)
SILENT = Variant(name="silent", settings={"DULY_METRICS": "false"})
TRACED = Variant(name="traced", beside=_collector)
# What is asked unless it is said, and what must be said: without metrics, and with metrics and traces sent to a collector.
USUAL = (AS_IT_COMES, ON_REDIS, ON_KAFKA)
VARIANTS = {variant.name: variant for variant in (*USUAL, SILENT, TRACED)}
