"""The real etcd of tests: the one that `duly verify` starts. Missing, it skips on a laptop and fails in CI."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duly.services import ServiceMissing
from duly.services.etcd import Etcd
from tests.conftest import service_missing


@pytest.fixture(scope="session")
def etcd_server() -> Iterator[Etcd]:
    """One real etcd per test process. Tests that stop, pause or wipe it ask for `own_etcd`."""
    with _installed() as server:
        yield server


@pytest.fixture
def own_etcd() -> Iterator[Etcd]:
    """One that the test may break."""
    with _installed() as server:
        yield server


def _installed() -> Etcd:
    try:
        return Etcd()
    except ServiceMissing as missing:
        service_missing("etcd", str(missing))
