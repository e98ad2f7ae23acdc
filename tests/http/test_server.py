"""The server on a real socket: port 0, no signals taken, streams that end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import httpx
import pytest

from duly.http.app import create_api
from duly.http.server import ApiServer
from tests.http.conftest import ADMIN, Bench


@pytest.fixture
def store_kind() -> str:
    return "sqlite"


@pytest.fixture
async def server(bench: Bench) -> AsyncIterator[ApiServer]:
    served = ApiServer(create_api(bench.services), port=0, grace=2)
    stop = asyncio.Event()
    running = asyncio.create_task(served.serve_until(stop))
    await served.listening()
    yield served
    stop.set()
    await running


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, headers={"authorization": f"Bearer {ADMIN}"}, trust_env=False) as client:
        yield client


async def test_it_knows_its_port_and_says_nothing_about_itself(server: ApiServer, client: httpx.AsyncClient) -> None:
    answer = await client.get("/healthz")

    assert server.port > 0
    assert answer.json() == {"status": "ok"}
    assert "server" not in answer.headers


async def test_signals_stay_with_whoever_embeds_it(bench: Bench) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    served = ApiServer(create_api(bench.services))
    stop = asyncio.Event()
    running = asyncio.create_task(served.serve_until(stop))
    await served.listening()
    during = {number: signal.getsignal(number) for number in before}
    stop.set()
    await running

    assert during == before


async def test_a_port_that_is_taken_is_an_error_and_not_the_end_of_the_process(bench: Bench, server: ApiServer) -> None:
    with pytest.raises(OSError, match="in use"):
        await ApiServer(create_api(bench.services), port=server.port).serve_until(asyncio.Event())


async def test_a_body_that_is_too_large_is_answered_not_cut_off(client: httpx.AsyncClient) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(400):
            yield b" " * 65_536

    declared = await client.post("/v1/jobs", content=b" " * 20_000_000, headers={"content-type": "application/json"})
    streamed = await client.post("/v1/jobs", content=endless(), headers={"content-type": "application/json"})
    after = await client.get("/healthz")

    assert (declared.status_code, streamed.status_code, after.status_code) == (413, 413, 200)


@pytest.mark.parametrize(
    "target", ["/v1/jobs/..%2f..", "//v1/stats", "/v1//stats", "/./v1/stats", "/V1/stats", "/v1/stats/", "/v1/stats;x", "http://x/v1/stats"]
)
async def test_raw_paths_are_not_tidied_up(server: ApiServer, target: str) -> None:
    for key, status in (("wrong_key_here", b"401"), (ADMIN, b"404")):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert answer.split(b" ")[1] == status or (target.startswith("http:") and answer.split(b" ")[1] in (b"200", b"401"))


async def test_open_streams_end_when_the_server_stops(bench: Bench) -> None:
    run = await bench.enqueue(await bench.job())
    served = ApiServer(create_api(bench.services), grace=30)
    stop = asyncio.Event()
    running = asyncio.create_task(served.serve_until(stop))
    await served.listening()
    async with (
        httpx.AsyncClient(base_url=served.url, headers={"authorization": f"Bearer {ADMIN}"}, trust_env=False) as client,
        client.stream("GET", f"/v1/executions/{run}/logs", headers={"accept": "text/event-stream"}) as answer,
    ):
        assert answer.status_code == 200
        stop.set()
        async with asyncio.timeout(30):
            assert await answer.aread() == b""
            await running


async def test_a_listener_that_hangs_up_is_forgotten(bench: Bench, server: ApiServer, client: httpx.AsyncClient) -> None:
    run = await bench.enqueue(await bench.job())
    claimed = await bench.claim()
    await bench.log(claimed, "one")
    async with client.stream("GET", f"/v1/executions/{run}/logs", headers={"accept": "text/event-stream"}) as answer:
        async for line in answer.aiter_lines():
            assert line
            break

    async with asyncio.timeout(30):
        while server.server_state.tasks:
            await asyncio.sleep(0.01)
