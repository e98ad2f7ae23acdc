"""The dashboard inside another application: below its path, on its own store, and no more open than anywhere else."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from duly import App, Invalid, config
from duly.fastapi import Visitor

HTML = {"accept": "text/html"}


def client_of(api: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://shop")


@pytest.fixture
async def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """The example while its server runs."""
    from examples.fastapi_dashboard import api, app

    monkeypatch.setenv("DULY_HOME", str(tmp_path))
    monkeypatch.setattr(app, "store", f"sqlite:///{tmp_path / 'shop.db'}")
    async with api.router.lifespan_context(api), client_of(api) as client:
        yield client


async def test_whom_nobody_has_logged_in_is_shown_how_to(shop: httpx.AsyncClient) -> None:
    stranger = await shop.get("/duly/", headers=HTML)
    forger = await shop.get("/duly/v1/jobs", headers={"cookie": "shop_user=ann.0000", "x-forwarded-user": "ann"})
    unlisted = await shop.post("/login", params={"name": "mallory"})
    logged_in = await shop.get("/duly/v1/jobs")

    assert (stranger.status_code, forger.status_code, unlisted.status_code, logged_in.status_code) == (401, 401, 204, 401)
    assert "duly login" in stranger.text
    assert "script" not in stranger.headers["content-security-policy"]


async def test_a_visitor_sees_the_pages_below_the_path_and_under_the_same_policy(shop: httpx.AsyncClient) -> None:
    await shop.post("/login", params={"name": "bob"})

    page = await shop.get("/duly/jobs", headers=HTML)

    assert page.status_code == 200
    assert "nightly_report" in page.text
    assert "default-src 'none'; script-src 'self'" in page.headers["content-security-policy"]
    ours = set(re.findall(r'(?:href|src|action)="(/[^"]*)"', page.text))
    assert {path for path in ours if not path.startswith("/duly/")} == set()
    for path in (found for found in ours if "/static/" in found):
        assert (await shop.get(path)).status_code == 200


async def test_a_visitor_may_do_what_the_application_says_and_must_show_the_token(shop: httpx.AsyncClient) -> None:
    async def pause(**headers: str) -> int:
        [job] = (await shop.get("/duly/v1/jobs")).json()["items"]
        answer = await shop.post(f"/duly/v1/jobs/{job['jobId']}/pause", json={"reason": "a try"}, headers=headers)
        return answer.status_code

    await shop.post("/login", params={"name": "ann"})
    token = (await shop.get("/duly/v1/session")).json()["csrfToken"]
    origin = "http://shop"

    assert await pause(origin=origin) == 403
    assert await pause(**{"origin": "http://elsewhere", "x-csrf-token": token}) == 403
    assert await pause(**{"origin": origin, "x-csrf-token": token}) == 200
    assert (await shop.get("/duly/v1/audit")).json()["items"][0]["actor"] == "ann"

    await shop.post("/login", params={"name": "bob"})
    token = (await shop.get("/duly/v1/session")).json()["csrfToken"]
    assert await pause(**{"origin": origin, "x-csrf-token": token}) == 403


async def test_a_link_logs_in_below_the_path(shop: httpx.AsyncClient) -> None:
    key = config.kept_key(config.load().key_file)
    made = await shop.post("/duly/v1/sessions/link", json={}, headers={"authorization": f"Bearer {key}"})
    link = f"/duly{made.json()['url']}"

    form = await shop.get(link, headers=HTML)
    action = re.search(r'action="([^"]+)"', form.text)
    assert action is not None
    token = link.partition("token=")[2]
    done = await shop.post(action[1], data={"token": token}, headers={"origin": "http://shop", **HTML})

    assert (done.status_code, done.headers["location"]) == (303, "/duly/")
    assert (await shop.get("/duly/", headers=HTML)).status_code == 200


async def test_an_application_without_our_lifespan_opens_it_with_the_first_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_HOME", str(tmp_path))
    app = App("alone", store=f"sqlite:///{tmp_path / 'alone.db'}")
    dashboard = app.dashboard()
    api = FastAPI()
    api.mount("/ops/duly", dashboard)

    async with client_of(api) as client:
        answers = await asyncio.gather(*(client.get("/ops/duly/", headers=HTML) for _ in range(3)))
    await dashboard.close()

    assert [answer.status_code for answer in answers] == [401] * 3


async def test_open_streams_end_when_the_server_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_HOME", str(tmp_path))
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    dashboard = App("streams", store=f"sqlite:///{tmp_path / 'streams.db'}").dashboard(auth=lambda _: Visitor("ann"))
    try:
        begun, sent = asyncio.Event(), list[dict[str, Any]]()

        async def send(message: Any) -> None:
            sent.append(message)
            if message.get("body"):
                begun.set()

        async def receive() -> Any:
            await asyncio.Event().wait()

        scope = {"type": "http", "method": "GET", "raw_path": b"/v1/events", "query_string": b"", "headers": []}
        stream = asyncio.create_task(dashboard(scope, receive, send))
        await begun.wait()
        signal.raise_signal(signal.SIGTERM)
        await stream
        await dashboard.close()
        assert (sent[0]["status"], sent[-1]["more_body"], heard) == (200, False, [signal.SIGTERM])
        assert signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None) is None  # type: ignore[operator, misc]
        assert len(heard) == 2
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_visitor_has_a_role_that_people_can_have() -> None:
    with pytest.raises(Invalid, match="viewer, operator, admin"):
        Visitor("ann", "worker")
