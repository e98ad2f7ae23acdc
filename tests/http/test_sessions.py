"""Browsers: how they log in, what they must show to change something, and how they are kept out."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from http.cookies import SimpleCookie
from ipaddress import ip_network
from typing import Any

import httpx
import pytest

from duly.domain.access import Role
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND
from duly.http.app import create_api
from duly.http.auth import Gate
from duly.roles.doorkeeper import Doorkeeper, DoorkeeperSettings
from duly.usecases.access import key_id
from tests.http.conftest import ADMIN, OPERATOR, STRANGER, URL, VIEWER, WORKER, Bench

OWN = {"origin": URL}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
def store_kind() -> str:
    return "sqlite"


class Browser:
    """Keeps its cookies, says where its requests come from, and knows its CSRF token once it has asked."""

    def __init__(self, bench: Bench, **transport: Any) -> None:
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(bench.api, **transport), base_url=URL)
        self.csrf = ""

    async def log_in(self, link: str) -> httpx.Response:
        token = link.partition("token=")[2]
        answer = await self.client.post("/login", data={"token": token}, headers=OWN)
        if answer.status_code == 303:
            self.csrf = (await self.client.get("/v1/session")).json()["csrfToken"]
        return answer

    async def change(self, method: str, path: str, **more: Any) -> httpx.Response:
        return await self.client.request(method, path, headers=OWN | {"x-csrf-token": self.csrf} | more.pop("headers", {}), **more)


async def link(bench: Bench, key: str = ADMIN, **body: Any) -> str:
    answer = await bench.client(key).post("/v1/sessions/link", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["url"])


async def logged_in(bench: Bench, key: str = ADMIN, **body: Any) -> Browser:
    browser = Browser(bench)
    assert (await browser.log_in(await link(bench, key, **body))).status_code == 303
    return browser


def refused(answer: httpx.Response, code: str, status: int = 403) -> None:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


# ---------------------------------------------------------------- the way in


async def test_a_link_leads_in(bench: Bench) -> None:
    url = await link(bench)
    browser = Browser(bench)

    page = await browser.client.get(url)
    answer = await browser.log_in(url)
    session = (await browser.client.get("/v1/session")).json()

    assert re.fullmatch(r"/login\?token=duly_[0-9a-f]{64}", url)
    assert page.status_code == 200
    assert (answer.status_code, answer.headers["location"], answer.content) == (303, "/", b"")
    assert session == {
        "tenant": "default",
        "role": "ADMIN",
        "actor": key_id(ADMIN),
        "channel": "dashboard",
        "expiresAt": "2026-01-06T00:00:00Z",
        "csrfToken": browser.csrf,
    }
    assert (await browser.client.get("/v1/jobs")).status_code == 200


async def test_the_cookie_is_for_our_own_pages_and_no_script(bench: Bench) -> None:
    answer = await Browser(bench).log_in(await link(bench))

    [(name, morsel)] = SimpleCookie(answer.headers["set-cookie"]).items()
    assert name == "duly_session"
    assert re.fullmatch("duly_[0-9a-f]{64}", morsel.value)
    assert (morsel["httponly"], morsel["samesite"], morsel["path"], morsel["max-age"]) == (True, "Strict", "/", str(12 * 3600))
    assert not morsel["secure"]
    assert not morsel["domain"]


@pytest.mark.parametrize("how", ["scheme", "header", "setting"])
async def test_on_https_the_cookie_stays_on_https(bench: Bench, how: str) -> None:
    origin = URL.replace("http", "https") if how != "setting" else "https://duly.example.com"
    services = replace(bench.services, gate=Gate(public_url="https://duly.example.com")) if how == "setting" else bench.services
    base = origin if how == "scheme" else URL
    headers = {"origin": origin} | ({"x-forwarded-proto": "https"} if how == "header" else {})
    url = await link(bench)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(create_api(services)), base_url=base) as client:
        answer = await client.post("/login", data={"token": url.partition("=")[2]}, headers=headers)

    assert answer.status_code == 303, answer.text
    assert "; Secure" in answer.headers["set-cookie"]


async def test_the_public_address_is_in_the_link(bench: Bench) -> None:
    api = create_api(replace(bench.services, gate=Gate(public_url="https://duly.example.com")))

    answer = await bench.client(VIEWER, api).post("/v1/sessions/link")

    assert answer.json()["url"].startswith("https://duly.example.com/login?token=duly_")
    assert answer.json()["role"] == "VIEWER"


async def test_opening_the_link_changes_nothing_however_often(bench: Bench) -> None:
    url = await link(bench)

    for _ in range(3):
        answer = await Browser(bench).client.get(url)
        assert answer.status_code == 200
        assert "set-cookie" not in answer.headers

    assert (await Browser(bench).log_in(url)).status_code == 303


async def test_the_page_has_a_form_and_nothing_that_runs(bench: Bench) -> None:
    answer = await Browser(bench).client.get(await link(bench))

    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policies = answer.headers.get_list("content-security-policy")
    assert policies == ["default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"]
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers.get_list("referrer-policy") == ["same-origin"]
    assert '<form method="post" action="/login">' in answer.text
    assert not re.search(r"<script|<style|style=|\bon\w+=|javascript:", answer.text, re.IGNORECASE)


async def test_a_token_is_text_and_stays_text(bench: Bench) -> None:
    answer = await Browser(bench).client.get("/login", params={"token": '"><script>alert(1)</script>'})

    assert answer.status_code == 200
    assert "<script" not in answer.text
    assert "&quot;&gt;&lt;script&gt;" in answer.text


async def test_without_a_token_the_page_says_how_to_get_one(bench: Bench) -> None:
    answer = await Browser(bench).client.get("/login")

    assert "duly login" in answer.text
    assert "<form" not in answer.text


@pytest.mark.parametrize("content", ["", "token", "token=a&token=b", "other=x", "token=%00", "token=" + "x" * 201, "token=" + "x" * 5000])
async def test_a_malformed_form_is_refused(bench: Bench, content: str) -> None:
    answer = await Browser(bench).client.post("/login", content=content, headers=FORM)

    assert answer.status_code in (413, 422)


async def test_json_is_no_form(bench: Bench) -> None:
    refused(await Browser(bench).client.post("/login", json={"token": "x"}), "DULY-E115", 415)


@pytest.mark.parametrize("token", ["", "x", "duly_" + "0" * 64, ADMIN, "é" * 20])
async def test_what_is_no_token_leads_nowhere(bench: Bench, token: str) -> None:
    answer = await Browser(bench).client.post("/login", data={"token": token}, headers=OWN)

    refused(answer, "DULY-E312")
    assert "set-cookie" not in answer.headers


async def test_a_person_is_told_on_a_page(bench: Bench) -> None:
    answer = await Browser(bench).client.post("/login", data={"token": "used"}, headers=OWN | {"accept": "text/html,*/*"})

    assert answer.status_code == 403
    assert answer.headers["content-type"].startswith("text/html")
    assert "duly login" in answer.text


async def test_a_link_works_once_and_for_one_browser(bench: Bench) -> None:
    url = await link(bench)

    first, second = await asyncio.gather(Browser(bench).log_in(url), Browser(bench).log_in(url))

    assert sorted((first.status_code, second.status_code)) == [303, 403]
    refused(await Browser(bench).log_in(url), "DULY-E312")


async def test_a_link_lasts_five_minutes(bench: Bench) -> None:
    url = await link(bench)
    bench.clock.turn(5 * MINUTE)

    refused(await Browser(bench).log_in(url), "DULY-E312")


async def test_nobody_is_logged_in_by_another_sites_form(bench: Bench) -> None:
    url = await link(bench)
    token = url.partition("=")[2]

    for headers in (
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"origin": "null"},
        {"sec-fetch-site": "same-site"},
    ):
        refused(await Browser(bench).client.post("/login", data={"token": token}, headers=headers), "DULY-E309")

    assert (await Browser(bench).log_in(url)).status_code == 303


async def test_an_id_that_somebody_planted_is_not_taken_over(bench: Bench) -> None:
    planted = "duly_" + "a" * 64
    browser = Browser(bench)
    browser.client.cookies.set("duly_session", planted, domain="duly.test")

    answer = await browser.log_in(await link(bench))
    browser.client.cookies.clear()
    browser.client.cookies.set("duly_session", planted, domain="duly.test")

    assert planted not in answer.headers["set-cookie"]
    refused(await browser.client.get("/v1/session"), "DULY-E308", 401)


async def test_a_second_login_ends_the_first_session_of_that_browser(bench: Bench) -> None:
    browser = await logged_in(bench)
    before = browser.client.cookies["duly_session"]

    await browser.log_in(await link(bench, VIEWER))

    assert (await browser.client.get("/v1/session")).json()["role"] == "VIEWER"
    old = httpx.AsyncClient(transport=httpx.ASGITransport(bench.api), base_url=URL, cookies={"duly_session": before})
    refused(await old.get("/v1/session"), "DULY-E308", 401)


async def test_two_browsers_have_two_sessions(bench: Bench) -> None:
    one, other = await logged_in(bench), await logged_in(bench)

    assert one.csrf != other.csrf
    refused(await one.change("POST", "/v1/jobs", json={}, headers={"x-csrf-token": other.csrf}), "DULY-E310")
    assert (await one.change("POST", "/logout")).status_code == 204
    assert (await other.client.get("/v1/session")).status_code == 200


@pytest.mark.parametrize(
    ("key", "asked", "status"), [(OPERATOR, "VIEWER", 201), (OPERATOR, "ADMIN", 403), (VIEWER, "OPERATOR", 403), (WORKER, None, 403)]
)
async def test_a_link_gives_no_more_than_its_key(bench: Bench, key: str, asked: str | None, status: int) -> None:
    answer = await bench.client(key).post("/v1/sessions/link", json={"role": asked})

    assert answer.status_code == status


async def test_a_link_for_a_worker_is_malformed(bench: Bench) -> None:
    refused(await bench.client(ADMIN).post("/v1/sessions/link", json={"role": "WORKER"}), "DULY-E106", 422)


# ---------------------------------------------------------------- who you are


async def test_a_session_may_what_its_role_may(bench: Bench) -> None:
    browser = await logged_in(bench, OPERATOR, role="VIEWER")
    job = await bench.job()

    assert (await browser.client.get(f"/v1/jobs/{job}")).status_code == 200
    refused(await browser.change("POST", f"/v1/jobs/{job}/pause"), "DULY-E303")
    refused(await browser.client.get("/v1/keys"), "DULY-E303")
    refused(await browser.change("POST", "/v1/workers", json={"name": "w", "handlers": ["h"]}), "DULY-E303")


async def test_a_session_sees_its_tenant_only(bench: Bench) -> None:
    job = await bench.job()
    browser = await logged_in(bench, STRANGER)

    assert (await browser.client.get("/v1/session")).json()["tenant"] == "strangers"
    refused(await browser.client.get(f"/v1/jobs/{job}"), "DULY-E204", 404)


async def test_a_key_comes_before_a_cookie(bench: Bench) -> None:
    browser = await logged_in(bench)
    headers = {"authorization": f"Bearer {VIEWER}"}

    assert (await browser.client.get("/v1/session", headers=headers)).json()["role"] == "VIEWER"
    refused(await browser.client.post("/v1/jobs", json={}, headers=headers), "DULY-E303")
    refused(await browser.client.get("/v1/session", headers={"authorization": "Bearer duly_unknown_key"}), "DULY-E302", 401)


async def test_with_a_key_nothing_is_asked_about_origins(bench: Bench) -> None:
    answer = await bench.client(ADMIN).post(
        "/v1/jobs", json={"target": {"handler": "duly.echo"}}, headers={"origin": "https://elsewhere.example"}
    )

    assert answer.status_code == 201
    session = (await bench.client(VIEWER).get("/v1/session")).json()
    assert (session["channel"], session["csrfToken"], session["expiresAt"]) == ("api", None, None)


async def test_two_cookies_of_one_name_are_none(bench: Bench) -> None:
    session = (await logged_in(bench)).client.cookies["duly_session"]
    client = bench.client(None)

    assert (await client.get("/v1/session", headers={"cookie": f"x=1; duly_session={session}; y=2"})).status_code == 200
    for cookies in (f"duly_session={session}; duly_session={session}", f"duly_session=; duly_session={session}", f"Duly_session={session}"):
        assert (await client.get("/v1/session", headers={"cookie": cookies})).status_code == 401
    joined = [("cookie", f"duly_session={session}"), ("cookie", "duly_session=duly_other_session")]
    assert (await client.get("/v1/session", headers=joined)).status_code == 401


# ---------------------------------------------------------------- changing something


SAME = {"sec-fetch-site": "same-origin"}


@pytest.mark.parametrize("headers", [OWN, SAME, OWN | SAME, SAME | {"origin": "null"}, {"origin": URL.upper()}])
async def test_our_own_pages_change_things(bench: Bench, headers: dict[str, str]) -> None:
    browser = await logged_in(bench)

    answer = await browser.client.post(
        "/v1/jobs", json={"target": {"handler": "duly.echo"}}, headers=headers | {"x-csrf-token": browser.csrf}
    )

    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": ""},
        {"origin": "null"},
        {"origin": "https://evil.example"},
        {"origin": "http://duly.test.evil.example"},
        {"origin": "http://duly.test:8080"},
        {"origin": "http://user@duly.test"},
        {"origin": "http://duly.test/"},
        {"origin": "ftp://duly.test"},
        {"origin": "duly.test"},
        {"origin": "http://duly.test, https://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": ""},
        {"origin": URL, "sec-fetch-site": "cross-site"},
        {"origin": "https://evil.example", "sec-fetch-site": "same-origin"},
        {"referer": f"{URL}/jobs"},
        {"x-forwarded-host": "evil.example", "origin": "https://evil.example"},
    ],
)
async def test_other_pages_do_not(bench: Bench, headers: dict[str, str]) -> None:
    browser = await logged_in(bench)
    job = await bench.job()

    for method, path in (("POST", f"/v1/jobs/{job}/pause"), ("DELETE", f"/v1/jobs/{job}"), ("PUT", f"/v1/jobs/{job}"), ("POST", "/logout")):
        answer = await browser.client.request(method, path, headers=headers | {"x-csrf-token": browser.csrf})
        refused(answer, "DULY-E309")

    assert (await browser.client.get(f"/v1/jobs/{job}")).json()["state"] == "ACTIVE"


@pytest.mark.parametrize("token", [None, "", "x", "0" * 64, "é"])
async def test_without_the_token_nothing_changes(bench: Bench, token: str | None) -> None:
    browser = await logged_in(bench)
    headers = OWN if token is None else OWN | {"x-csrf-token": token}

    answer = await browser.client.post(
        "/v1/jobs", json={"target": {"handler": "duly.echo"}}, headers={k: v.encode() for k, v in headers.items()}
    )

    refused(answer, "DULY-E310")
    assert (await bench.client(ADMIN).get("/v1/jobs")).json()["items"] == []


async def test_reading_needs_no_token(bench: Bench) -> None:
    browser = await logged_in(bench)

    assert (await browser.client.get("/v1/jobs", headers={"sec-fetch-site": "none"})).status_code == 200


async def test_behind_a_proxy_that_changes_the_host_the_public_address_counts(bench: Bench) -> None:
    bench.api = create_api(replace(bench.services, gate=Gate(public_url="https://duly.example.com")))
    browser = Browser(bench)
    answer = await browser.client.post(
        "/login", data={"token": (await link(bench)).partition("=")[2]}, headers={"origin": "https://duly.example.com"}
    )
    assert answer.status_code == 303
    cookie = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
    csrf = (await browser.client.get("/v1/session", headers=cookie)).json()["csrfToken"]

    def change(origin: str) -> Any:
        return browser.client.post("/logout", headers=cookie | {"origin": origin, "x-csrf-token": csrf})

    # People come by https, so a page of plain http is somebody else's.
    for origin in ("http://duly.example.com", URL, "https://example.com"):
        refused(await change(origin), "DULY-E309")
    assert (await change("https://duly.example.com")).status_code == 204


# ---------------------------------------------------------------- the end


async def test_logging_out_ends_it_and_takes_the_cookie_away(bench: Bench) -> None:
    browser = await logged_in(bench)
    kept = {"duly_session": browser.client.cookies["duly_session"]}

    answer = await browser.change("POST", "/logout")

    assert answer.status_code == 204
    assert "duly_session=; Path=/; Max-Age=0" in answer.headers.get_list("set-cookie")[0]
    assert (await browser.client.get("/v1/session")).status_code == 401
    again = httpx.AsyncClient(transport=httpx.ASGITransport(bench.api), base_url=URL, cookies=kept)
    refused(await again.get("/v1/session"), "DULY-E308", 401)
    assert (await bench.client(ADMIN).post("/logout")).status_code == 204
    assert (await bench.client(ADMIN).get("/v1/session")).status_code == 200


async def test_a_logout_by_a_link_is_none(bench: Bench) -> None:
    browser = await logged_in(bench)

    assert (await browser.client.get("/logout")).status_code == 405
    assert (await browser.client.get("/v1/session")).status_code == 200


async def test_a_session_is_given_anew_while_it_is_used(bench: Bench) -> None:
    browser = await logged_in(bench)
    services = bench.services
    doorkeeper = Doorkeeper(bench.store.keys, bench.store.sessions, services.access.uses, services.sessions.uses, DoorkeeperSettings())
    ages = []
    for _ in range(16):
        bench.clock.turn(11 * HOUR)
        answer = await browser.client.get("/v1/session")
        if answer.status_code == 401:
            break
        [morsel] = SimpleCookie(answer.headers["set-cookie"]).values()
        ages.append(int(morsel["max-age"]))
        await doorkeeper.step(bench.clock.now())

    assert ages[:14] == [12 * 3600] * 14
    assert len(ages) == 15
    assert ages[-1] == 3 * 3600
    assert "set-cookie" not in (await (await logged_in(bench)).client.get("/v1/session")).headers


async def test_an_idle_session_ends_after_twelve_hours(bench: Bench) -> None:
    browser = await logged_in(bench)
    bench.clock.turn(12 * HOUR)

    refused(await browser.client.get("/v1/session"), "DULY-E308", 401)


@pytest.mark.parametrize("what", ["request", "stream"])
async def test_a_session_ends_with_its_key_within_five_seconds_on_every_node(bench: Bench, what: str) -> None:
    made = (await bench.client(ADMIN).post("/v1/keys", json={"role": "VIEWER", "name": "board"})).json()
    browser = await logged_in(bench, made["secret"])
    assert (await browser.client.get("/v1/session")).status_code == 200
    run = await bench.enqueue(await bench.job())
    await bench.client(ADMIN).delete(f"/v1/keys/{made['keyId']}")
    revoked_at = bench.clock.now()

    if what == "request":
        bench.clock.turn(5 * SECOND)
        refused(await browser.client.get("/v1/session"), "DULY-E308", 401)
        return

    async def sleep(seconds: float) -> None:
        bench.clock.turn(round(seconds * SECOND))

    bench.api._sleep = sleep
    answer = await browser.client.get(f"/v1/executions/{run}/logs", headers={"accept": "text/event-stream"})

    assert answer.status_code == 200
    assert bench.clock.now() - revoked_at <= 5 * SECOND


# ---------------------------------------------------------------- by the word of a proxy


USERS = {"ann@example.com": ("default", Role.ADMIN), "vic": ("strangers", Role.VIEWER), "lost": ("no-such-tenant", Role.ADMIN)}
GATE = Gate(None, b"x-forwarded-user", (ip_network("10.0.0.0/8"), ip_network("::1/128")), USERS)


def through(bench: Bench, peer: str | None = "10.1.2.3", gate: Gate = GATE, user: str | None = "ann@example.com") -> Browser:
    bench.api = create_api(replace(bench.services, gate=gate))
    browser = Browser(bench, client=(peer, 4711)) if peer is not None else Browser(bench)
    if user is not None:
        browser.client.headers["x-forwarded-user"] = user
    return browser


async def test_a_believed_proxy_names_who_asks(bench: Bench) -> None:
    for peer in ("10.1.2.3", "::1", "::ffff:10.9.9.9"):
        session = (await through(bench, peer).client.get("/v1/session")).json()
        assert (session["tenant"], session["role"], session["actor"], session["channel"]) == (
            "default",
            "ADMIN",
            "ann@example.com",
            "proxy",
        )
    other = (await through(bench, user="vic").client.get("/v1/session")).json()
    assert (other["tenant"], other["role"]) == ("strangers", "VIEWER")


@pytest.mark.parametrize("peer", ["11.0.0.1", "127.0.0.1", "::2", "::ffff:11.0.0.1", "nonsense", "", "10.0.0.1.evil.example"])
async def test_nobody_elses_word_counts(bench: Bench, peer: str) -> None:
    browser = through(bench, peer)

    refused(await browser.client.get("/v1/session"), "DULY-E301", 401)
    with_key = await browser.client.get("/v1/session", headers={"authorization": f"Bearer {VIEWER}", "x-forwarded-for": "10.1.2.3"})
    assert with_key.json()["role"] == "VIEWER"


@pytest.mark.parametrize("user", ["", "mallory", "ANN@example.com", "ann@example.com, vic", "lost", "ann@example.com=default:ADMIN"])
async def test_who_is_not_on_the_list_does_not_enter(bench: Bench, user: str) -> None:
    refused(await through(bench, user=user).client.get("/v1/session"), "DULY-E311")


async def test_two_names_are_nobodys(bench: Bench) -> None:
    browser = through(bench, user=None)

    answer = await browser.client.get("/v1/session", headers=[("x-forwarded-user", "ann@example.com"), ("x-forwarded-user", "vic")])

    refused(answer, "DULY-E311")


async def test_without_a_name_there_is_nobody(bench: Bench) -> None:
    refused(await through(bench, user=None).client.get("/v1/session"), "DULY-E301", 401)


@pytest.mark.parametrize("gate", [replace(GATE, header=None), replace(GATE, networks=()), replace(GATE, users={})])
async def test_it_is_off_unless_all_is_set(bench: Bench, gate: Gate) -> None:
    refused(await through(bench, gate=gate).client.get("/v1/session"), "DULY-E301", 401)


async def test_by_a_proxy_too_only_our_own_pages_change_things(bench: Bench) -> None:
    browser = through(bench)
    job = {"target": {"handler": "duly.echo"}}
    refused(await browser.client.post("/v1/jobs", json=job), "DULY-E309")
    refused(await browser.change("POST", "/v1/jobs", json=job), "DULY-E310")

    seen = await browser.client.get("/v1/session")
    browser.csrf = seen.json()["csrfToken"]

    assert "HttpOnly; SameSite=Strict" in seen.headers["set-cookie"]
    assert (await browser.change("POST", "/v1/jobs", json=job)).status_code == 201
    assert (await browser.client.get("/v1/session")).json()["csrfToken"] == browser.csrf
    refused(await browser.change("POST", "/v1/jobs", json=job, headers={"origin": "https://evil.example"}), "DULY-E309")
    # The token is this user's in this browser.
    refused(await browser.change("POST", "/v1/jobs", json=job, headers={"x-forwarded-user": "vic"}), "DULY-E310")
    browser.client.cookies.clear()
    refused(await browser.change("POST", "/v1/jobs", json=job), "DULY-E310")


async def test_whom_a_proxy_names_makes_no_link(bench: Bench) -> None:
    browser = through(bench)
    browser.csrf = (await browser.client.get("/v1/session")).json()["csrfToken"]

    refused(await browser.change("POST", "/v1/sessions/link"), "DULY-E313")


async def test_a_key_comes_before_a_proxys_word_and_a_session_too(bench: Bench) -> None:
    cookie = {"cookie": f"duly_session={(await logged_in(bench, VIEWER)).client.cookies['duly_session']}"}
    browser = through(bench)

    assert (await browser.client.get("/v1/session", headers={"authorization": f"Bearer {OPERATOR}"})).json()["role"] == "OPERATOR"
    assert (await browser.client.get("/v1/session", headers=cookie)).json()["role"] == "VIEWER"
    assert (await browser.client.get("/v1/session", headers={"authorization": "Basic Og=="})).json()["role"] == "ADMIN"
    bench.clock.turn(DAY)
    assert (await browser.client.get("/v1/session", headers=cookie)).json()["role"] == "ADMIN"
