"""Pages over HTTP, without a browser: fragments and their ETags, headers, prefixes, preferences, and who is let in."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import Any
from uuid import UUID

import httpx
import pytest

from duly.dashboard.assets import FILES, edition
from duly.dashboard.pages import pages
from duly.domain.access import Actor
from duly.domain.audit import Break
from duly.domain.errors import Unavailable
from duly.domain.expected import Sketch
from duly.domain.ids import parse_job_id
from duly.domain.instants import SECOND
from duly.domain.lifecycle import State
from duly.http.app import create_api
from duly.http.auth import Gate
from duly.http.routing import Route
from duly.roles.notary import Notary, NotarySettings
from duly.usecases.audit import MOST_LINKS, AuditTrail, Checked
from tests.http.conftest import ADMIN, OPERATOR, STRANGER, VIEWER, Bench, bench
from tests.http.test_routing import filled, named

__all__ = ["bench"]

PAGES = [route for route in pages().routes if route.html]


@pytest.fixture
def store_kind() -> str:
    return "sqlite"


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/jobs", "/executions", "/dead-letters", "/workers", "/upcoming", "/upcoming?show=week"),
        *("/upcoming?show=table", "/upcoming?show=hour", "/upcoming?show=month"),
        *(
            "/cluster",
            "/audit?q=action:no-such",
            "/audit?q=since:bad",
            "/alerts",
            "/alerts?tab=past",
            "/alerts?tab=rules",
            "/alerts?tab=channels",
            "/alerts?tab=missed",
        ),
    ],
)
async def test_every_list_says_something_when_there_is_nothing(bench: Bench, path: str) -> None:
    answer = await bench.client(ADMIN).get(path)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert 'class="empty"' in answer.text or 'class="steps"' in answer.text


@pytest.mark.parametrize("declared", PAGES, ids=named)
async def test_a_page_trusts_nothing_but_our_own_files(bench: Bench, declared: Route) -> None:
    answer = await bench.client(ADMIN).get(filled(declared.path))
    if "{" in declared.path:
        assert answer.status_code == 404
        return

    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "<script>" not in answer.text


async def test_a_part_is_answered_with_an_etag_and_not_again_while_it_is_the_same(bench: Bench) -> None:
    job = await bench.job(name="report")
    client = bench.client(ADMIN)

    first = await client.get("/jobs?part=rows")
    again = await client.get("/jobs?part=rows", headers={"if-none-match": first.headers["etag"]})

    assert first.text.startswith('<section id="rows"')
    assert (again.status_code, again.content) == (304, b"")
    await client.post(f"/v1/jobs/{job}/pause", json={})
    changed = await client.get("/jobs?part=rows", headers={"if-none-match": first.headers["etag"]})
    assert changed.status_code == 200
    assert "paused" in changed.text


@pytest.mark.parametrize("part", ["nothing", "opened", "../../pages/jobs", "rows.html", "ROWS", "x" * 30])
async def test_what_is_no_part_of_a_page_is_refused(bench: Bench, part: str) -> None:
    for path in ("/upcoming", "/jobs", "/"):
        answer = await bench.client(ADMIN).get(path, params={"part": part})
        assert answer.status_code == 422
        assert answer.json()["code"] == "DULY-E106"


async def test_without_a_session_a_page_says_how_to_log_in(bench: Bench) -> None:
    for path in ("/", "/jobs", "/no-such-page", "/v1/jobs"):
        answer = await bench.client(None).get(path, headers={"accept": "text/html,*/*"})
        assert answer.status_code == 401
        assert "duly login" in answer.text
        assert answer.headers["content-type"].startswith("text/html")
        assert "'unsafe-inline'" not in answer.headers["content-security-policy"]
        plain = await bench.client(None).get(path, headers={"accept": "text/fragment"})
        assert plain.status_code == 401
        assert plain.headers["content-type"] == "application/problem+json"


async def test_a_problem_is_a_page_to_whoever_asked_for_one(bench: Bench) -> None:
    answer = await bench.client(ADMIN).get("/jobs/job_" + "0" * 32, headers={"accept": "text/html"})

    assert answer.status_code == 404
    assert "There is no job" in answer.text
    assert "DULY-E204" in answer.text


async def test_a_tenant_sees_its_own_and_nobody_elses(bench: Bench) -> None:
    job = await bench.job(name="secret-plan")

    assert "secret-plan" in (await bench.client(ADMIN).get("/jobs")).text
    assert "secret-plan" not in (await bench.client(STRANGER).get("/jobs")).text
    assert (await bench.client(STRANGER).get(f"/jobs/{job}")).status_code == 404


async def test_files_are_kept_for_good_by_their_edition_and_given_to_nobody_without_a_session(bench: Bench) -> None:
    for name in FILES:
        answer = await bench.client(VIEWER).get(f"/static/{edition()}/{name}")
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        old = await bench.client(VIEWER).get(f"/static/{'0' * 16}/{name}")
        assert (old.status_code, old.headers["cache-control"]) == (200, "no-cache")
        assert (await bench.client(None).get(f"/static/{edition()}/{name}")).status_code == 401


@pytest.mark.parametrize("how", ["public address", "mounted"])
async def test_all_addresses_have_the_prefix_below_which_browsers_see_us(bench: Bench, how: str) -> None:
    gate = Gate(public_url="https://ops.example.com/duly") if how == "public address" else Gate()
    api = create_api(replace(bench.services, gate=gate), pages=pages())
    # A proxy takes the path away; an application that we are mounted in says what it is.
    root = "" if how == "public address" else "/duly"
    transport = httpx.ASGITransport(api, root_path=root)
    await bench.job(name="report")
    async with httpx.AsyncClient(
        transport=transport, base_url="https://ops.example.com", headers={"authorization": f"Bearer {ADMIN}"}
    ) as client:
        for path in ("/", "/jobs", "/upcoming", "/workers", "/alerts", "/alerts?tab=rules", "/audit", "/tenants", "/cluster"):
            answer = await client.get(root + path)
            assert answer.status_code == 200
            addresses = re.findall(r'(?:href|src|action)="([^"#?][^"]*)"', answer.text)
            assert addresses
            assert [address for address in addresses if not address.startswith("/duly/")] == []
            assert '<meta name="duly-root" content="/duly">' in answer.text
        assert (await client.get(f"{root}/v1/jobs")).status_code == 200
        login = await client.get(f"{root}/login", params={"token": "x"})
        assert 'action="/duly/login"' in login.text


async def test_preferences_come_from_cookies_and_only_from_known_values(bench: Bench) -> None:
    client = bench.client(ADMIN)

    chosen = await client.get(
        "/jobs", headers={"cookie": "duly_theme=dark; duly_clock=utc; duly_zone=Europe%2FBerlin; duly_density=compact"}
    )
    assert 'data-theme="dark" data-density="compact"' in chosen.text
    assert '<meta name="duly-zone" content="Europe/Berlin">' in chosen.text
    odd = await client.get("/jobs", headers={"cookie": 'duly_theme="><script>; duly_zone=../../etc/passwd; duly_clock=x'})
    assert 'data-theme="system"' in odd.text
    assert '<meta name="duly-zone" content="">' in odd.text


async def test_the_overview_shows_what_the_api_the_metrics_and_the_tables_say(bench: Bench) -> None:
    client = bench.client(ADMIN)
    job = await bench.job(name="orders")
    for _ in range(3):
        await bench.enqueue(job)
    await bench.finish(await bench.claim(), state=State.DEAD, error='{"type": "ValueError", "message": "boom"}')
    for _ in range(2):
        await bench.enqueue(job)
    await bench.claim()
    for _ in range(4):
        await bench.enqueue(job)

    page = (await client.get("/")).text
    stats = (await client.get("/v1/stats")).json()
    metrics = (await client.get("/metrics")).text

    assert {name: stats["executions"].get(name, 0) for name in ("RUNNING", "PENDING", "DEAD")} == {"RUNNING": 2, "PENDING": 4, "DEAD": 3}
    assert re.search(r'id="running-title">Running now</h2><span class="quiet">2 of', page)
    assert "orders: 3 dead letters" in page
    for state, count in (("RUNNING", 2), ("PENDING", 4)):
        assert f'duly_executions{{state="{state}"}} {count}' in metrics
    assert re.search(r"^duly_dead_letters 3", metrics, re.MULTILINE)
    listed = {state: len((await client.get("/v1/executions", params={"state": state})).json()["items"]) for state in ("RUNNING", "PENDING")}
    assert listed == {"RUNNING": 2, "PENDING": 4}


async def test_the_audit_trail_is_given_out_whole_and_in_parts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [{"name": f"job-{nth}", "schedule": "0 3 * * *", "target": {"handler": "work"}} for nth in range(450)]
    client = bench.client(ADMIN)
    for first in range(0, 450, 150):
        assert (await client.post("/v1/jobs:batch", json={"jobs": jobs[first : first + 150]})).status_code == 201
    parts: list[dict[str, Any]] = []
    breaks = False

    async def send(message: Any) -> None:
        parts.append(message)
        if breaks and message["type"] == "http.response.body":
            monkeypatch.setattr(AuditTrail, "find", away)

    async def away(*asked: object) -> None:
        raise Unavailable("DULY-E501", "away")

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    headers = [(b"host", b"duly.test"), (b"authorization", client.headers["authorization"].encode())]
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/audit.jsonl",
        "raw_path": b"/audit.jsonl",
        "query_string": b"q=action%3Ajob.create",
    }
    scope |= {"headers": headers, "scheme": "https", "client": ("127.0.0.1", 1)}
    await bench.api(scope, receive, send)

    assert parts[0]["status"] == 200
    bodies = [part["body"] for part in parts[1:]]
    # None of them has more than is read at a time.
    assert [body.count(b"\n") for body in bodies] == [200, 200, 50, 0]
    assert len({json.loads(line)["subject"] for line in b"".join(bodies).splitlines()}) == 450
    assert parts[-1]["more_body"] is False
    refused = await client.get("/audit.jsonl?q=since:bad")
    assert refused.status_code == 422
    # A store that goes away in the middle: what was sent does not end like a whole file.
    parts.clear()
    breaks = True
    await bench.api(scope, receive, send)
    assert [part.get("more_body") for part in parts] == [None, True]


@pytest.mark.parametrize("path", ["/audit", "/tenants"])
async def test_who_may_not_see_a_screen_is_neither_let_in_nor_led_there(bench: Bench, path: str) -> None:
    for key in (VIEWER, OPERATOR):
        refused = await bench.client(key).get(path, headers={"accept": "text/html"})
        assert refused.status_code == 403
        assert "DULY-E303" in refused.text
        assert f'href="{path}"' not in (await bench.client(key).get("/jobs")).text
    assert f'href="{path}"' in (await bench.client(ADMIN).get("/jobs")).text


async def test_the_audit_page_has_the_records_of_its_tenant_alone_and_says_when_its_chain_is_broken(bench: Bench) -> None:
    job = await bench.job(name="secret-plan")
    await bench.client(ADMIN).post(f"/v1/jobs/{job}/pause", json={"reason": "for <b>now</b>"})
    await Notary(bench.store.audit, NotarySettings()).step(bench.clock.now())

    page = (await bench.client(ADMIN).get("/audit")).text
    assert "Chain verified to its end" in page
    assert "job.pause" in page
    assert "for &lt;b&gt;now&lt;/b&gt;" in page
    assert job not in (await bench.client(STRANGER).get("/audit")).text
    found = (await bench.client(ADMIN).get(f"/audit?q={job}+action:job.pause&part=rows")).text
    assert "job.pause" in found
    assert "job.create" not in found

    api = create_api(replace(bench.services, audit=Tampered(bench.store.audit)), pages=pages())
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(api), base_url="http://duly.test", headers={"authorization": f"Bearer {ADMIN}"}
    ) as client:
        assert "The chain is broken</strong> at link 2: link 2 was changed." in (await client.get("/audit?part=chain")).text


class Tampered(AuditTrail):
    """A trail in which somebody has changed a record."""

    async def check(self, actor: Actor, start: tuple[int, bytes] | None = None, limit: int = MOST_LINKS) -> Checked:
        return replace(await super().check(actor, start, limit), broken=Break(2, "link 2 was changed"))


async def test_the_first_steps_tick_themselves_and_stay_until_a_run_has_ended(bench: Bench) -> None:
    client = bench.client(ADMIN)

    async def ticked() -> int:
        page = (await client.get("/")).text
        return page.count('<li class="done">') if 'class="steps"' in page else -1

    before = await ticked()
    job = await bench.job(name="hello")
    assert await ticked() == before + 1
    assert "duly dev --demo" not in (await client.get("/?part=first")).text
    run = await bench.enqueue(job)
    assert await ticked() == before + 1
    await client.post(f"/v1/executions/{run}/cancel", json={})
    assert await ticked() == -1
    assert (await client.get("/?part=first")).text.count('<li class="done">') == before + 2


async def test_a_load_in_every_minute_of_a_day_is_still_a_small_page(bench: Bench) -> None:
    client = bench.client(ADMIN)
    job = await bench.job(name="busy", schedule="* * * * *")
    sketch = Sketch(bench.clock.now())
    sketch.add([200 * SECOND] * 20, bench.clock.now())
    assert await bench.store.figures.count(0, None, UUID(int=1), {parse_job_id(job): (1, sketch)}, bench.clock.now())
    about = {"name": "one", "pool": "default", "handlers": ["duly.echo"], "slots": 1, "ttlSec": 600}
    await client.post("/v1/workers", json=about)

    page = await client.get("/upcoming?day=2026-01-06&mode=load", headers={"cookie": "duly_zone=UTC"})

    assert page.text.count("<td class=h5><a") > 1430
    assert "of 1 slot" in page.text
    assert "show=spread" in page.text
    assert len(page.content) <= 100_000

    held = await bench.job(name="held", schedule="* * * * *")
    await client.post(f"/v1/jobs/{held}/pause", json={})
    await client.put("/v1/calendars/always", json={"holidays": [{"date": "2026-01-06"}]})
    await client.put("/v1/alert-rules/quiet", json={"kind": "final_failure", "calendars": ["always"]})
    page = await client.get("/upcoming?day=2026-01-06&mode=load", headers={"cookie": "duly_zone=UTC"})
    assert page.text.count("<td class=p5><a") > 1430
    assert page.text.count('<tr data-line class="w">') == 24
    assert len(page.content) <= 100_000


async def test_an_hour_of_many_jobs_is_still_a_small_page(bench: Bench) -> None:
    client = bench.client(ADMIN)
    for nth in range(60):
        await bench.job(name=f"a-job-whose-name-is-rather-long-{nth:03}", schedule="*/3 * * * *")

    page = await client.get("/upcoming?show=hour&day=2026-01-06", headers={"cookie": "duly_zone=UTC"})

    assert "1\u202f200 fires of 30 jobs and others" in page.text
    assert "all others" in page.text
    assert len(page.content) <= 100_000
