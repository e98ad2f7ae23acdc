"""Who the store's server is, proved by its certificate: the right one passes, a wrong name and a wrong authority do not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.adapters.sql.engine_postgres import PostgresEngine
from duly.domain.errors import Invalid, Unavailable
from tests.services.authority import Authority
from tests.services.postgres import Postgres

# Leads to the loopback, and does not look like it: to us it is somebody else's machine.
ELSEWHERE = "127.1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "ours")


@pytest.fixture(scope="module")
def server(authority: Authority, postgres_server: Postgres) -> Iterator[Postgres]:
    """A PostgreSQL with TLS, which our authority knows as localhost."""
    with Postgres() as server:
        data = server.directory / "data"
        owner = data.stat()
        for name, text in zip(("server.crt", "server.key"), authority.vouch("localhost"), strict=True):
            (data / name).write_bytes(text)
            (data / name).chmod(0o600)
            os.chown(data / name, owner.st_uid, owner.st_gid)
        server.execute("ALTER SYSTEM SET ssl = on")
        server.execute("SELECT pg_reload_conf()")
        yield server


async def ask(server: Postgres, host: str, query: str = "") -> int:
    engine = PostgresEngine(f"postgresql://duly@{host}:{server.port}/postgres?{query}")
    try:
        return await engine.store_now()
    finally:
        await engine.close()


async def test_the_right_name_from_the_right_authority_passes(server: Postgres, authority: Authority) -> None:
    assert await ask(server, "localhost", f"sslmode=verify-full&sslrootcert={authority.file}") > 0


async def test_another_name_is_refused(server: Postgres, authority: Authority) -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1") as refused:
        await ask(server, "127.0.0.1", f"sslmode=verify-full&sslrootcert={authority.file}")

    assert refused.value.code == "DULY-E521"


async def test_another_name_passes_where_only_the_authority_counts(server: Postgres, authority: Authority) -> None:
    assert await ask(server, "127.0.0.1", f"sslmode=verify-ca&sslrootcert={authority.file}") > 0


async def test_another_authority_is_refused(server: Postgres, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger")

    with pytest.raises(Unavailable, match="certificate") as refused:
        await ask(server, "localhost", f"sslmode=verify-full&sslrootcert={stranger.file}")

    assert refused.value.code == "DULY-E521"
    assert refused.value.hint is not None
    assert "sslrootcert" in refused.value.hint


async def test_another_machine_is_verified_though_the_url_does_not_ask_for_it(server: Postgres, authority: Authority) -> None:
    with pytest.raises(Unavailable) as refused:
        await ask(server, ELSEWHERE)
    with pytest.raises(Unavailable, match=r"127\.1"):
        await ask(server, ELSEWHERE, f"sslrootcert={authority.file}")

    assert refused.value.code == "DULY-E521"
    assert await ask(server, ELSEWHERE, "sslmode=require") > 0


async def test_a_server_without_tls_is_refused_where_it_must_prove_itself(postgres_server: Postgres) -> None:
    with pytest.raises(Unavailable, match="SSL") as refused:
        await ask(postgres_server, ELSEWHERE)

    assert refused.value.code == "DULY-E521"
    assert await ask(postgres_server, ELSEWHERE, "sslmode=disable") > 0


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("sslmode=verify", "sslmode"),
        ("sslmode=verify-full&sslrootcert=/nowhere/ca.pem", "/nowhere/ca.pem cannot be used"),
        ("pooler=sometimes", "pooler"),
        ("target_session_attrs=standby", "writes"),
    ],
)
def test_a_url_that_says_nonsense_is_refused_at_once(query: str, words: str) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        PostgresEngine(f"postgresql://duly@localhost/duly?{query}")

    assert refused.value.code == "DULY-E601"
