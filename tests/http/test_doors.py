"""How people come in, from the settings to a real socket: proxies that are believed, and no open door without a key."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from duly import config
from duly.compose import Service, bootstrap_key, open_node
from duly.compose.doors import gate_of, is_local
from duly.domain.access import Role
from duly.domain.errors import Invalid

PROXY = {
    "DULY_PROXY_AUTH_HEADER": "X-Forwarded-User",
    "DULY_PROXY_AUTH_FROM": "127.0.0.1, 10.0.0.0/8",
    "DULY_PROXY_AUTH_USERS": "ann@example.com=default:ADMIN, bob=default:VIEWER",
}
HEADERS = {"x-forwarded-user": "ann@example.com"}


@asynccontextmanager
async def serving(home: Path, **variables: str) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
    """An API as `duly api` runs it, on a free port."""
    node = await open_node(config.load({"DULY_HOME": str(home), "DULY_PORT": "0", **variables}))
    stop, up = asyncio.Event(), asyncio.Event()
    try:
        await bootstrap_key(node)
        service = Service(node, ("api",))
        running = asyncio.create_task(service.run(stop, lambda _: up.set()))
        await asyncio.wait({running, asyncio.ensure_future(up.wait())}, return_when=asyncio.FIRST_COMPLETED)
        assert service.api is not None
        async with httpx.AsyncClient(base_url=service.api.url, trust_env=False) as client:
            yield service, client
        stop.set()
        await running
    finally:
        await node.close()


async def test_a_proxy_on_the_list_logs_people_in(tmp_path: Path) -> None:
    async with serving(tmp_path, **PROXY) as (_, client):
        session = (await client.get("/v1/session", headers=HEADERS)).json()
        nobody = await client.get("/v1/session", headers={"x-forwarded-user": "mallory"})

    assert (session["tenant"], session["role"], session["actor"]) == ("default", "ADMIN", "ann@example.com")
    assert (nobody.status_code, nobody.json()["code"]) == (403, "DULY-E311")


@pytest.mark.parametrize("missing", PROXY)
async def test_two_settings_of_three_change_nothing_and_are_pointed_out(
    tmp_path: Path, missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with serving(tmp_path, **{name: value for name, value in PROXY.items() if name != missing}) as (_, client):
            answer = await client.get("/v1/session", headers=HEADERS)

    assert answer.status_code == 401
    assert "login by proxy is off" in caplog.text


async def test_another_peers_header_is_ignored(tmp_path: Path) -> None:
    async with serving(tmp_path, **PROXY | {"DULY_PROXY_AUTH_FROM": "10.0.0.0/8"}) as (_, client):
        forged = HEADERS | {"x-forwarded-for": "10.0.0.1", "x-real-ip": "10.0.0.1", "forwarded": "for=10.0.0.1"}
        assert (await client.get("/v1/session", headers=forged)).status_code == 401


async def test_the_last_use_is_written_when_the_server_stops(tmp_path: Path) -> None:
    async with serving(tmp_path) as (service, client):
        key = service.node.settings.key_file.read_text().strip()
        assert (await client.get("/v1/keys", headers={"authorization": f"Bearer {key}"})).status_code == 200
    async with serving(tmp_path) as (_, client):
        [row] = (await client.get("/v1/keys", headers={"authorization": f"Bearer {key}"})).json()["items"]

    assert row["lastUsedAt"] is not None
    assert key.startswith(row["prefix"])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1"])
async def test_without_any_key_nothing_listens_where_others_could_reach_it(tmp_path: Path, host: str) -> None:
    node = await open_node(config.load({"DULY_HOME": str(tmp_path), "DULY_PORT": "0", "DULY_HOST": host}))
    service = Service(node, ("api",))
    try:
        with pytest.raises(Invalid) as refused:
            await service.run(asyncio.Event())
    finally:
        await node.close()

    assert refused.value.code == "DULY-E314"
    assert service.api is None


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("", False), ("example.com", False)],
)
def test_local_is_what_only_this_machine_reaches(host: str, local: bool) -> None:
    assert is_local(host) is local


def test_by_default_only_this_machine_is_served() -> None:
    settings = config.load({})

    assert is_local(settings.host)
    assert gate_of(settings).header is None


def test_the_settings_say_who_is_believed() -> None:
    gate = gate_of(config.load({**PROXY, "DULY_PUBLIC_URL": "https://Duly.example.com/"}))

    assert gate.header == b"x-forwarded-user"
    assert gate.users == {"ann@example.com": ("default", Role.ADMIN), "bob": ("default", Role.VIEWER)}
    assert [gate.believes(peer) for peer in ("127.0.0.1", "10.3.3.3", "127.0.0.2", None, "unix:")] == [True, True, False, False, False]
    assert gate.public_origin == "https://duly.example.com"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DULY_PUBLIC_URL", "duly.example.com"),
        ("DULY_PUBLIC_URL", "ftp://duly.example.com"),
        ("DULY_PUBLIC_URL", "https://user@duly.example.com"),
        ("DULY_PUBLIC_URL", "https://duly.example.com/?x=1"),
        ("DULY_PUBLIC_URL", "https://example.com/../duly"),
        ("DULY_PUBLIC_URL", "https://example.com/duly%2f"),
        ("DULY_PUBLIC_URL", "https://example.com/du%20ly/.."),
        ("DULY_PROXY_AUTH_HEADER", "X Forwarded"),
        ("DULY_PROXY_AUTH_HEADER", "Authorization"),
        ("DULY_PROXY_AUTH_HEADER", "Cookie"),
        ("DULY_PROXY_AUTH_FROM", "proxy.example.com"),
        ("DULY_PROXY_AUTH_FROM", "10.0.0.1/8"),
        ("DULY_PROXY_AUTH_USERS", "ann"),
        ("DULY_PROXY_AUTH_USERS", "ann=default"),
        ("DULY_PROXY_AUTH_USERS", "ann=default:WORKER"),
        ("DULY_PROXY_AUTH_USERS", "ann=default:admin"),
        ("DULY_PROXY_AUTH_USERS", "=default:ADMIN"),
        ("DULY_PROXY_AUTH_USERS", "ann=default:ADMIN,ann=other:VIEWER"),
    ],
)
def test_a_setting_that_could_be_misread_is_refused(name: str, value: str) -> None:
    with pytest.raises(Invalid) as refused:
        config.load({name: value})

    assert (refused.value.code, refused.value.field) == ("DULY-E601", name)
