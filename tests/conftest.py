"""What every test may ask for: an empty PostgreSQL database, and whether the long form is wanted.

A service that cannot be had skips its tests with a line in the summary; with CI=true it
fails them, because a green run that tested nothing is worse than a red one.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from duly.services import ServiceMissing
from tests.services.databases import migrated_dsn, migrated_template, postgres_store, shared_dsn
from tests.services.kafka import kafka_broker, kafka_url, own_broker
from tests.services.missing import IN_CI, service_missing
from tests.services.postgres import Postgres
from tests.services.redis import own_redis, redis_server, redis_url

__all__ = [
    "kafka_broker",
    "kafka_url",
    "migrated_dsn",
    "migrated_template",
    "own_broker",
    "own_redis",
    "postgres_store",
    "redis_server",
    "redis_url",
    "service_missing",
    "shared_dsn",
]

PR_SET_PDEATHSIG = 1

settings.register_profile("dev", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", deadline=None, print_blob=True, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="the long form of tests that have one: more rounds, more examples")


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ and sys.platform == "linux":
        # A killed run must not leave workers, their servers and their children behind.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background starts us deaf to Ctrl-C, and so would be every command that the tests start and interrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("long" if config.getoption("--long") else "ci" if IN_CI else "dev")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Half a million objects are made and all of them stay: looking for garbage among them finds none, neither meanwhile nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def long_form(request: pytest.FixtureRequest) -> bool:
    """True under `--long` (`make chaos`): do more rounds."""
    return bool(request.config.getoption("--long"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """One real PostgreSQL per test process, started when a test first asks.

    Tests that stop, restart or kill the server make their own `Postgres()` instead.
    """
    try:
        server = Postgres()
        server.start()
    except ServiceMissing as exc:
        service_missing("PostgreSQL", str(exc))
    with server:
        yield server


_numbers = itertools.count(1)


@pytest.fixture
def postgres_dsn(postgres_server: Postgres) -> Iterator[str]:
    """The DSN of a fresh, empty database, dropped afterwards whoever is still connected.

    Its collation is linguistic, as on most hosted servers, so that leaning on byte order shows.
    """
    name = f"test_{next(_numbers)}"
    yield postgres_server.create_database(name, linguistic=True)
    postgres_server.drop_database(name)
