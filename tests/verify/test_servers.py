"""A primary and its standby: what was acknowledged is there after a crash, and after a failover."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duly.services import ServiceMissing
from duly.verify.servers import DATABASE, Duo
from tests.conftest import service_missing

pytestmark = pytest.mark.slow


@pytest.fixture
def duo() -> Iterator[Duo]:
    try:
        made = Duo()
    except ServiceMissing as missing:
        service_missing("PostgreSQL", str(missing))
    made.start()
    yield made
    made.close()


def test_what_was_acknowledged_survives_crashes_and_failovers(duo: Duo) -> None:
    duo.primary.execute("CREATE TABLE kept (n int)", DATABASE)
    duo.primary.execute("INSERT INTO kept VALUES (1)", DATABASE)

    duo.crash()
    assert not duo.primary.is_running
    duo.start_again()
    duo.primary.execute("INSERT INTO kept VALUES (2)", DATABASE)
    first = duo.dsn
    duo.fail_over()
    duo.primary.execute("INSERT INTO kept VALUES (3)", DATABASE)
    duo.follow()
    duo.primary.execute("INSERT INTO kept VALUES (4)", DATABASE)
    duo.fail_over()

    assert duo.dsn != first
    assert duo.primary.execute("SELECT n FROM kept ORDER BY n", DATABASE).split() == ["1", "2", "3", "4"]


def test_a_commit_waits_for_the_standby(duo: Duo) -> None:
    assert duo.standby is not None
    assert duo.primary.execute("SELECT sync_state FROM pg_stat_replication") == "sync"

    duo.primary.execute("CREATE TABLE kept (n int)", DATABASE)

    assert duo.standby.execute("SELECT count(*) FROM pg_class WHERE relname = 'kept'", DATABASE) == "1"
