"""One real Kafka broker for each module of tests that asks for it. Topics of a test have a prefix of their own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from duly.services import ServiceMissing
from duly.services.kafka import Kafka
from tests.services.missing import service_missing

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def kafka_broker() -> Iterator[Kafka]:
    """Tests that stop or kill one have their own.

    Not for the whole run: one that nobody asks takes a twentieth of a core, and in a minute more than its start.
    """
    try:
        broker = Kafka()
    except ServiceMissing as error:
        service_missing("Kafka", str(error))
    with broker:
        yield broker


@pytest.fixture
def kafka_url(kafka_broker: Kafka) -> str:
    """The address, with topics that no other test uses and few partitions, because every one of them is a file or three."""
    return f"{kafka_broker.url}/test-{os.getpid()}-{next(_numbers)}?partitions=4"


@pytest.fixture
def own_broker() -> Iterator[Kafka]:
    """A broker to kill."""
    try:
        broker = Kafka()
    except ServiceMissing as error:
        service_missing("Kafka", str(error))
    with broker:
        yield broker
