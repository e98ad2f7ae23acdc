"""What a store's URL says, and what it means where it says nothing."""

from __future__ import annotations

import ssl

import pytest

from duly.adapters.sql.postgres.address import Pooler, read_address
from duly.domain.errors import Invalid


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("postgresql://db/duly", ["db"]),
        ("postgresql://ann:p%40ss@db-1:5433,db-2/duly", ["db-1:5433", "db-2"]),
        ("postgresql://[::1]:5433,[fe80::2]/duly", ["::1:5433", "fe80::2"]),
        ("postgresql:///duly?host=/run/postgresql", ["/run/postgresql"]),
        ("postgresql://ann@%2Frun%2Fpostgresql/duly", ["/run/postgresql"]),
        ("postgresql://ann@/duly?host=a,b&port=1,2", ["a:1", "b:2"]),
        ("postgresql:///duly", ["localhost"]),
    ],
)
def test_hosts_are_tried_in_the_order_in_which_they_stand(url: str, names: list[str]) -> None:
    assert [host.name for host in read_address(url).hosts] == names


def test_each_host_has_the_user_and_the_database_of_the_url() -> None:
    first, second = read_address("postgresql://ann:p%40ss@db-1:5433,db-2/duly?sslmode=require&connect_timeout=3").hosts

    assert first.dsn == "postgresql://ann:p%40ss@db-1:5433/duly?connect_timeout=3&sslmode=require"
    assert second.dsn == "postgresql://ann:p%40ss@db-2/duly?connect_timeout=3&sslmode=require"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", ""])
def test_this_machine_needs_no_proof(host: str) -> None:
    [found] = read_address(f"postgresql://duly@{host}/duly").hosts

    assert found.tls is None
    assert found.is_verified


def test_another_machine_proves_who_it_is_unless_the_url_says_otherwise() -> None:
    silent, told = (read_address(f"postgresql://duly@db.example.com/duly{query}").hosts[0] for query in ("", "?sslmode=require"))

    assert silent.tls is not None
    assert silent.tls.verify_mode is ssl.CERT_REQUIRED
    assert silent.tls.check_hostname
    assert silent.is_verified
    assert told.tls is None
    assert not told.is_verified


def test_a_pooler_is_found_out_unless_it_is_named() -> None:
    assert read_address("postgresql://localhost/duly").pooler is None
    assert read_address("postgresql://localhost/duly?pooler=session").pooler is Pooler.SESSION


def test_a_port_is_a_number() -> None:
    with pytest.raises(Invalid, match="not a port"):
        read_address("postgresql://localhost:post/duly")
